// Kafka's Java producer, one transaction after another; run from its source: java transactions.java FILE TOPIC SIZE
// RECORDS WARM_UP NUMBER. FILE has the producer's properties; of NUMBER transactions of RECORDS values of SIZE bytes
// each, after WARM_UP others, it prints figures as JSON. CPU is of the whole process while they run, all threads.
// See macro/transactions.py.

import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

class Transactions {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        String topic = arguments[1];
        byte[] value = new byte[Integer.parseInt(arguments[2])];
        int records = Integer.parseInt(arguments[3]);
        int warmUp = Integer.parseInt(arguments[4]);
        int number = Integer.parseInt(arguments[5]);
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long[] whole = new long[number];
        long[] commits = new long[number];
        long cpu;
        long seconds;
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            run(producer, topic, value, records, new long[warmUp], new long[warmUp]);
            cpu = system.getProcessCpuTime();
            seconds = System.nanoTime();
            run(producer, topic, value, records, whole, commits);
            seconds = System.nanoTime() - seconds;
            cpu = system.getProcessCpuTime() - cpu;
        }
        Arrays.sort(whole);
        Arrays.sort(commits);
        System.out.printf(
            Locale.ROOT,
            "{\"seconds\": %.9f, \"cpu_seconds\": %.9f, \"p50_ms\": %.6f, \"p99_ms\": %.6f, \"p999_ms\": %.6f, "
                + "\"commit_p50_ms\": %.6f}%n",
            seconds / 1e9, cpu / 1e9, at(whole, 0.5), at(whole, 0.99), at(whole, 0.999), at(commits, 0.5));
    }

    private static void run(
        KafkaProducer<byte[], byte[]> producer, String topic, byte[] value, int records, long[] whole, long[] commits
    ) {
        for (int i = 0; i < whole.length; i++) {
            long began = System.nanoTime();
            producer.beginTransaction();
            for (int j = 0; j < records; j++) {
                producer.send(new ProducerRecord<>(topic, value));
            }
            long filled = System.nanoTime();
            producer.commitTransaction();
            long ended = System.nanoTime();
            whole[i] = ended - began;
            commits[i] = ended - filled;
        }
    }

    private static double at(long[] ordered, double share) {
        return ordered[Math.min(ordered.length - 1, (int) (ordered.length * share))] / 1e6;
    }
}
