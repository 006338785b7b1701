import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Ten members of a group, each a thread; then five of them go, and then five others come. With the protocol "both"
 * five classic members are joined by five of the new protocol, which are alone with other classic ones later, and go.
 * Each time records are written, read and committed, and the number of values and of records read is printed. */
public class GroupOfTen {
    static final int PARTITIONS = 12, BATCH = 600;
    static final Map<String, Integer> times = new HashMap<>();
    static final List<Member> members = new ArrayList<>();
    static final AtomicInteger committed = new AtomicInteger();
    static Throwable failure;

    static class Member extends Thread implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        volatile int owned;
        volatile boolean isLeaving;
        int uncommitted;

        Member(Properties properties) {
            setDaemon(true);
            consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.subscribe(List.of("t"), this);
                while (!isLeaving) {
                    var records = consumer.poll(Duration.ofMillis(50));
                    synchronized (times) {
                        for (ConsumerRecord<String, String> record : records) times.merge(record.value(), 1, Integer::sum);
                    }
                    uncommitted += records.count();
                    commit();
                    owned = consumer.assignment().size();
                }
            } catch (Throwable error) {
                failure = error;
            }
        }

        /** Commits the read records. While members are given partitions anew a classic consumer may refuse to: it keeps
         * its partitions, and commits after a later poll, at the latest when it has to give some of them up. */
        void commit() {
            if (uncommitted == 0) return;
            try {
                commitWithNewestEpoch();
            } catch (RebalanceInProgressException error) {
                return;
            }
            committed.addAndGet(uncommitted);
            uncommitted = 0;
        }

        /** Commits once more while a heartbeat gives the member a new epoch: Kafka refuses a commit that it overtakes,
         * the consumer of the new protocol says so instead of committing again, and the member is still one. */
        void commitWithNewestEpoch() {
            while (true) {
                try {
                    consumer.commitSync();
                    return;
                } catch (CommitFailedException error) {
                    if (!error.getMessage().contains("stale member epoch")) throw error;
                }
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        }
    }

    static void await(String what, BooleanSupplier isSo) throws Exception {
        for (long end = System.nanoTime() + 60_000_000_000L; !isSo.getAsBoolean(); Thread.sleep(10)) {
            if (failure != null) throw new IllegalStateException(failure);
            if (System.nanoTime() > end) throw new IllegalStateException("not " + what + " after a minute");
        }
    }

    static int read() {
        synchronized (times) {
            return times.values().stream().mapToInt(Integer::intValue).sum();
        }
    }

    static void join(int count, Properties properties) {
        for (int i = 0; i < count; i++) {
            Member member = new Member(properties);
            members.add(member);
            member.start();
        }
    }

    static void leave(int count) throws Exception {
        for (Member member : members.subList(0, count)) member.isLeaving = true;
        for (Member member : members.subList(0, count)) member.join();
        members.subList(0, count).clear();
    }

    static void readSome(KafkaProducer<String, String> producer) throws Exception {
        await("shared", () -> members.stream().allMatch(each -> each.owned > 0)
            && members.stream().mapToInt(each -> each.owned).sum() == PARTITIONS);
        int first = read();
        for (int number = first; number < first + BATCH; number++) {
            producer.send(new ProducerRecord<>("t", number % PARTITIONS, null, String.valueOf(number)));
        }
        producer.flush();
        await("read", () -> read() >= first + BATCH && committed.get() >= first + BATCH);
    }

    static Properties of(String servers, String protocol) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", "java");
        properties.put("group.protocol", protocol);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        if (protocol.equals("classic")) {
            properties.put("heartbeat.interval.ms", "100");
            properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        }
        return properties;
    }

    public static void main(String[] args) throws Exception {
        boolean isBoth = args[1].equals("both");
        Properties properties = of(args[0], isBoth ? "classic" : args[1]);
        Properties ofProducer = new Properties();
        ofProducer.put("bootstrap.servers", args[0]);
        try (var producer = new KafkaProducer<>(ofProducer, new StringSerializer(), new StringSerializer())) {
            join(isBoth ? 5 : 10, properties);
            readSome(producer);
            if (isBoth) {
                join(5, of(args[0], "consumer"));
                readSome(producer);
            }
            leave(5);
            readSome(producer);
            join(5, properties);
            readSome(producer);
            if (isBoth) {
                leave(5);
                readSome(producer);
            }
        }
        leave(members.size());
        System.out.println(times.size() + " " + read());
    }
}
