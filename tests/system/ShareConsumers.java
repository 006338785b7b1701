import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's consumer of share groups; each way of using it is a method, which prints the records that it has seen. */
public class ShareConsumers {
    static final Duration POLL = Duration.ofMillis(200);
    static String servers;

    static KafkaShareConsumer<String, String> consumer(String group, String mode) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", group);
        properties.put("share.acknowledgement.mode", mode);
        properties.put("max.poll.records", "10");
        var consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("t"));
        return consumer;
    }

    static KafkaProducer<String, String> producer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    static void send(KafkaProducer<String, String> producer, String value) throws Exception {
        producer.send(new ProducerRecord<>("t", value)).get();
    }

    /** Polls until there are records: a minute at most. */
    static List<ConsumerRecord<String, String>> some(KafkaShareConsumer<String, String> consumer) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        for (long end = System.nanoTime() + 60_000_000_000L; found.isEmpty(); ) {
            if (System.nanoTime() > end) throw new IllegalStateException("no record after a minute");
            consumer.poll(POLL).forEach(found::add);
        }
        return found;
    }

    static String shown(List<ConsumerRecord<String, String>> records) {
        StringBuilder text = new StringBuilder();
        for (var record : records) text.append(record.value()).append(':').append(record.deliveryCount().get()).append(' ');
        return text.toString().trim();
    }

    /** Three threads read one partition, until each of them has got something. */
    static void together() throws Exception {
        Map<String, Integer> times = new ConcurrentHashMap<>();
        Set<Long> lucky = ConcurrentHashMap.newKeySet();
        var isOver = new java.util.concurrent.atomic.AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Thread thread = new Thread(() -> {
                try (var consumer = consumer("together", "implicit")) {
                    while (!isOver.get()) {
                        for (var record : consumer.poll(POLL)) {
                            times.merge(record.value(), 1, Integer::sum);
                            lucky.add(Thread.currentThread().getId());
                        }
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        int sent = 0;
        try (var producer = producer()) {
            long end = System.nanoTime() + 60_000_000_000L;
            for (; sent < 300 || lucky.size() < 3; sent++) {
                if (System.nanoTime() > end) throw new IllegalStateException("got something: " + lucky.size());
                send(producer, String.valueOf(sent));
            }
            while (times.size() < sent && System.nanoTime() < end) Thread.sleep(10);
        }
        isOver.set(true);
        for (Thread thread : threads) thread.join();
        int read = times.values().stream().mapToInt(Integer::intValue).sum();
        System.out.println((times.size() == sent && read == sent) + " " + lucky.size());
    }

    /** Takes records, and dies with them. */
    static void die() {
        System.out.println(shown(some(consumer("die", "explicit"))));
        System.out.flush();
        Runtime.getRuntime().halt(9);
    }

    static void survive() {
        try (var consumer = consumer("die", "implicit")) {
            System.out.println(shown(some(consumer)));
            consumer.commitSync();
        }
    }

    /** Accepts one record, releases one, rejects one, and forgets to say anything of the last. */
    static void words() throws Exception {
        try (var consumer = consumer("words", "explicit"); var producer = producer()) {
            for (String value : List.of("accept", "release", "reject")) send(producer, value);
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            while (records.size() < 3) records.addAll(some(consumer));
            System.out.println(shown(records));
            consumer.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            consumer.acknowledge(records.get(1), AcknowledgeType.RELEASE);
            consumer.acknowledge(records.get(2), AcknowledgeType.REJECT);
            consumer.commitSync().values().forEach(error -> System.out.println("committed " + error.isEmpty()));
            records = some(consumer);
            System.out.println(shown(records));
            try {
                consumer.poll(POLL);
            } catch (IllegalStateException error) {
                System.out.println(error.getMessage());
            }
            consumer.acknowledge(records.get(0));
            consumer.commitSync();
        }
    }

    /** Releases a record each time that it comes, and then there is another one. */
    static void attempts() throws Exception {
        try (var consumer = consumer("attempts", "explicit"); var producer = producer()) {
            send(producer, "poison");
            for (String value = "poison"; value.equals("poison"); ) {
                var records = some(consumer);
                System.out.println(shown(records));
                value = records.get(0).value();
                for (var record : records) {
                    boolean isPoison = record.value().equals("poison");
                    consumer.acknowledge(record, isPoison ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    if (isPoison && record.deliveryCount().get() == 5) send(producer, "next");
                }
                consumer.commitSync();
            }
        }
    }

    static void admin() throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        TopicPartition place = new TopicPartition("t", 0);
        try (var admin = Admin.create(properties)) {
            for (var each : admin.listGroups(ListGroupsOptions.forShareGroups()).all().get()) {
                System.out.println(each.groupId() + " " + each.type().get() + " " + each.groupState().get());
            }
            var described = admin.describeShareGroups(List.of("words")).all().get().get("words");
            System.out.println(described.groupState() + " " + described.members().size());
            var all = Map.of("words", new ListShareGroupOffsetsSpec());
            System.out.println(admin.listShareGroupOffsets(all).partitionsToOffsetAndMetadata("words").get().get(place).offset());
            admin.alterShareGroupOffsets("words", Map.of(place, 1L)).all().get();
            System.out.println(admin.listShareGroupOffsets(all).partitionsToOffsetAndMetadata("words").get().get(place).offset());
            admin.deleteShareGroupOffsets("words", Set.of("t")).all().get();
            System.out.println(admin.listShareGroupOffsets(all).partitionsToOffsetAndMetadata("words").get());
            admin.deleteShareGroups(List.of("words")).all().get();
            System.out.println(admin.listGroups(ListGroupsOptions.forShareGroups()).all().get().size());
        }
    }

    public static void main(String[] args) throws Exception {
        servers = args[0];
        for (String name : args[1].split(",")) ShareConsumers.class.getDeclaredMethod(name).invoke(null);
    }
}
