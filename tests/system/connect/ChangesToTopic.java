import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.sql.Connection;
import java.sql.DriverManager;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Debezium's engine: the changes of a table of PostgreSQL go into a topic, and its offsets into another one. Then it
 * is stopped, rows are added, and it goes on where it was. The arguments are the servers, and the database's port and
 * user. */
public class ChangesToTopic {
    static final int ROWS = 50;

    static Properties options(String[] args) {
        Properties options = new Properties();
        options.put("name", "engine");
        options.put("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        options.put("bootstrap.servers", args[0]);
        options.put("offset.storage", "org.apache.kafka.connect.storage.KafkaOffsetBackingStore");
        options.put("offset.storage.topic", "offsets");
        options.put("offset.storage.partitions", "1");
        options.put("offset.storage.replication.factor", "1");
        options.put("offset.flush.interval.ms", "0");
        options.put("topic.prefix", "db");
        options.put("plugin.name", "pgoutput");
        options.put("table.include.list", "public.things");
        options.put("publication.autocreate.mode", "filtered");
        options.put("database.hostname", "127.0.0.1");
        options.put("database.port", args[1]);
        options.put("database.user", args[2]);
        options.put("database.password", "none");
        options.put("database.dbname", "postgres");
        return options;
    }

    static void insert(Connection database, int first) throws Exception {
        try (var statement = database.prepareStatement("insert into things select generate_series(?, ?), 'thing'")) {
            statement.setInt(1, first);
            statement.setInt(2, first + ROWS - 1);
            statement.execute();
        }
    }

    static void runUntil(Properties options, KafkaProducer<String, String> producer, int changes) throws Exception {
        CountDownLatch left = new CountDownLatch(changes);
        AtomicReference<String> failure = new AtomicReference<>();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        try (DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(options)
            .using((success, message, error) -> {
                if (!success) failure.set(message + " " + error);
            })
            .notifying((events, committer) -> {
                for (ChangeEvent<String, String> event : events) {
                    producer.send(new ProducerRecord<>(event.destination(), event.key(), event.value()));
                }
                producer.flush();
                for (ChangeEvent<String, String> event : events) {
                    committer.markProcessed(event);
                    left.countDown();
                }
                committer.markBatchFinished();
            })
            .build()) {
            executor.execute(engine);
            boolean isDone = left.await(60, TimeUnit.SECONDS);
            if (failure.get() != null) throw new IllegalStateException(failure.get());
            if (!isDone) throw new IllegalStateException(left.getCount() + " changes missing after a minute");
        }
        executor.shutdown();
        if (!executor.awaitTermination(60, TimeUnit.SECONDS)) throw new IllegalStateException("the engine does not end");
    }

    public static void main(String[] args) throws Exception {
        Properties ofProducer = new Properties();
        ofProducer.put("bootstrap.servers", args[0]);
        String address = "jdbc:postgresql://127.0.0.1:" + args[1] + "/postgres";
        try (var database = DriverManager.getConnection(address, args[2], "none");
            var producer = new KafkaProducer<>(ofProducer, new StringSerializer(), new StringSerializer())) {
            database.createStatement().execute("create table things (id int primary key, name text)");
            insert(database, 0);
            runUntil(options(args), producer, ROWS);
            insert(database, ROWS);
            runUntil(options(args), producer, ROWS);
        }
        System.exit(0);
    }
}
