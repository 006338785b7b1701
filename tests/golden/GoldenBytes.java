import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Utils;

/**
 * Writes the bytes that Kafka's Java client makes of fixed records, requests, responses and keys, one "name hex" a line,
 * and reads batches back that another client wrote. README.md says how it is run; tests/unit/record/conftest.py makes the same
 * records in Python.
 */
public class GoldenBytes {
    static final long BASE = 1_700_000_000_000L;

    record Item(long timestamp, byte[] key, byte[] value, Header[] headers) {}

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static Header header(String name, byte[] value) {
        return new RecordHeader(name, value);
    }

    static List<Item> plain() {
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < 3; i++) items.add(new Item(BASE, null, utf8("value-" + i), new Header[0]));
        return items;
    }

    /** Keys, nulls, headers (one without a value, one not ASCII) and timestamps before the first. */
    static List<Item> mixed() {
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            byte[] key = i % 3 == 0 ? null : utf8("key-" + i);
            byte[] value = i % 4 == 3 ? null : utf8(("value-" + i).repeat(i * 10));
            Header[] headers = i % 2 == 0
                ? new Header[0]
                : new Header[] {header("h" + i, new byte[] {(byte) i}), header("ünï", null), header("", new byte[0])};
            items.add(new Item(BASE + (i * 37 % 11) * 100_000L - 500_000L * (i % 2), key, value, headers));
        }
        return items;
    }

    /** More than one block of lz4 and of snappy. */
    static List<Item> large() {
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < 700; i++)
            items.add(new Item(BASE + i, utf8("k" + i % 7), utf8("v" + i + "-" + "x".repeat(100)), new Header[0]));
        return items;
    }

    /** Bytes that no codec makes smaller. */
    static List<Item> random() throws Exception {
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(utf8("random-" + i));
            items.add(new Item(BASE, null, digest, new Header[0]));
        }
        return items;
    }

    static MemoryRecords batch(List<Item> items, Compression compression, TimestampType type, long baseOffset,
                               long appendTime, long producerId, int epoch, int sequence, boolean transactional,
                               int leaderEpoch) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 18), RecordBatch.MAGIC_VALUE_V2,
            compression, type, baseOffset, appendTime, producerId, (short) epoch, sequence, transactional, leaderEpoch);
        for (Item item : items) builder.append(item.timestamp, item.key, item.value, item.headers);
        return builder.build();
    }

    static MemoryRecords produced(List<Item> items, Compression compression, long producerId, int epoch, int sequence,
                                  boolean transactional) {
        return batch(items, compression, TimestampType.CREATE_TIME, 0, RecordBatch.NO_TIMESTAMP, producerId, epoch,
            sequence, transactional, RecordBatch.NO_PARTITION_LEADER_EPOCH);
    }

    static MemoryRecords nobodys(List<Item> items, Compression compression) {
        return produced(items, compression, -1, -1, -1, false);
    }

    static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static String hex(MemoryRecords records) {
        return hex(records.buffer());
    }

    static void writeBatches(Path file) throws Exception {
        List<String> lines = new ArrayList<>();
        Compression none = Compression.NONE;
        lines.add("plain " + hex(nobodys(plain(), none)));
        lines.add("mixed " + hex(nobodys(mixed(), none)));
        lines.add("mixed-idempotent " + hex(produced(mixed(), none, 42, 7, 1000, false)));
        lines.add("mixed-transactional " + hex(produced(mixed(), none, 1L << 40, 32767, 2147483647, true)));
        lines.add("mixed-append-time " + hex(batch(mixed(), none, TimestampType.LOG_APPEND_TIME, 100, BASE + 5, -1, -1,
            -1, false, 3)));
        lines.add("commit " + hex(MemoryRecords.withEndTransactionMarker(0, BASE, -1, 42, (short) 7,
            new EndTransactionMarker(ControlRecordType.COMMIT, 9))));
        lines.add("abort " + hex(MemoryRecords.withEndTransactionMarker(0, BASE, -1, 42, (short) 7,
            new EndTransactionMarker(ControlRecordType.ABORT, 9))));
        Object[][] codecs = {
            {"gzip", Compression.gzip().build()}, {"gzip-1", Compression.gzip().level(1).build()},
            {"gzip-9", Compression.gzip().level(9).build()}, {"snappy", Compression.snappy().build()},
            {"lz4", Compression.lz4().build()}, {"lz4-1", Compression.lz4().level(1).build()},
            {"lz4-17", Compression.lz4().level(17).build()}, {"zstd", Compression.zstd().build()},
            {"zstd--5", Compression.zstd().level(-5).build()}, {"zstd-22", Compression.zstd().level(22).build()},
        };
        for (Object[] codec : codecs) {
            lines.add("large-" + codec[0] + " " + hex(nobodys(large(), (Compression) codec[1])));
            lines.add("mixed-" + codec[0] + " " + hex(nobodys(mixed(), (Compression) codec[1])));
            lines.add("random-" + codec[0] + " " + hex(nobodys(random(), (Compression) codec[1])));
        }
        Files.write(file, lines);
    }

    static ProduceRequestData request(int version) {
        ProduceRequestData data = new ProduceRequestData().setTransactionalId(version % 2 == 0 ? null : "transaction-ü")
            .setAcks((short) (version % 3 - 1)).setTimeoutMs(30_000 + version);
        for (int t = 0; t < 2; t++) {
            ProduceRequestData.TopicProduceData topic = new ProduceRequestData.TopicProduceData();
            if (version >= 13) topic.setTopicId(new Uuid(t + 1, -t - 1));
            else topic.setName("topic-" + t);
            for (int p = 0; p <= t; p++)
                topic.partitionData().add(new ProduceRequestData.PartitionProduceData().setIndex(p * 1000)
                    .setRecords(p == 0 ? nobodys(plain(), Compression.NONE) : nobodys(mixed(), Compression.NONE)));
            data.topicData().add(topic);
        }
        return data;
    }

    static ProduceResponseData response(int version) {
        ProduceResponseData data = new ProduceResponseData().setThrottleTimeMs(version * 7);
        for (int t = 0; t < 2; t++) {
            ProduceResponseData.TopicProduceResponse topic = new ProduceResponseData.TopicProduceResponse();
            if (version >= 13) topic.setTopicId(new Uuid(t + 1, -t - 1));
            else topic.setName("topic-" + t);
            for (int p = 0; p <= t; p++) {
                ProduceResponseData.PartitionProduceResponse partition =
                    new ProduceResponseData.PartitionProduceResponse().setIndex(p).setErrorCode((short) (t == 0 ? 0 : 6))
                        .setBaseOffset(t == 0 ? 1L << 33 : -1).setLogAppendTimeMs(p == 0 ? -1 : BASE)
                        .setLogStartOffset(version >= 5 ? 17 : -1);
                if (version >= 8 && p == 1)
                    partition.setErrorMessage("not mine").setRecordErrors(Arrays.asList(
                        new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(3)
                            .setBatchIndexErrorMessage("bad ü"),
                        new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(4)));
                if (version >= 10 && t == 1)
                    partition.setCurrentLeader(new ProduceResponseData.LeaderIdAndEpoch().setLeaderId(2)
                        .setLeaderEpoch(11));
                topic.partitionResponses().add(partition);
            }
            data.responses().add(topic);
        }
        if (version >= 10) {
            data.nodeEndpoints().add(new ProduceResponseData.NodeEndpoint().setNodeId(2).setHost("host-2").setPort(9093)
                .setRack("rack-a"));
            data.nodeEndpoints().add(new ProduceResponseData.NodeEndpoint().setNodeId(3).setHost("host-3").setPort(9094));
        }
        return data;
    }

    static void writeFrames(Path file) throws Exception {
        List<String> lines = new ArrayList<>();
        for (short version = 3; version <= 13; version++) {
            short headerVersion = ApiKeys.PRODUCE.requestHeaderVersion(version);
            RequestHeaderData header = new RequestHeaderData().setRequestApiKey(ApiKeys.PRODUCE.id)
                .setRequestApiVersion(version).setCorrelationId(version * 100)
                .setClientId(version == 4 ? null : "client-ü");
            lines.add("request-" + version + " " + hex(MessageUtil.toByteBufferAccessor(header, headerVersion).buffer())
                + hex(MessageUtil.toByteBufferAccessor(request(version), version).buffer()));
            lines.add("response-" + version + " " + hex(MessageUtil.toByteBufferAccessor(
                new ResponseHeaderData().setCorrelationId(version * 100),
                ApiKeys.PRODUCE.responseHeaderVersion(version)).buffer())
                + hex(MessageUtil.toByteBufferAccessor(response(version), version).buffer()));
        }
        Files.write(file, lines);
    }

    /** Key as hex ("-" when empty), murmur2 as Java's int, partition of 1, 6 and 1000. */
    static void writeHashes(Path file) throws Exception {
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            byte[] key = Arrays.copyOf(MessageDigest.getInstance("SHA-512").digest(utf8("key-" + i)), i % 41);
            lines.add((key.length == 0 ? "-" : HexFormat.of().formatHex(key)) + " " + Utils.murmur2(key) + " "
                + BuiltInPartitioner.partitionForKey(key, 1) + " " + BuiltInPartitioner.partitionForKey(key, 6) + " "
                + BuiltInPartitioner.partitionForKey(key, 1000));
        }
        Files.write(file, lines);
    }

    /** Reads "name hex" lines; a name starts with the records it must hold. Fails on anything that is not so. */
    static void readBatches(Path file) throws Exception {
        for (String line : Files.readAllLines(file)) {
            String[] parts = line.split(" ");
            List<Item> expected = parts[0].startsWith("plain") ? plain() : parts[0].startsWith("mixed") ? mixed()
                : parts[0].startsWith("large") ? large() : random();
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(parts[1])));
            int batches = 0;
            int index = 0;
            for (MutableRecordBatch batch : records.batches()) {
                batch.ensureValid();
                batches++;
                for (Record record : batch) {
                    record.ensureValid();
                    Item item = expected.get(index++);
                    boolean same = record.timestamp() == item.timestamp && record.offset() == index - 1
                        && Arrays.equals(Utils.toNullableArray(record.key()), item.key)
                        && Arrays.equals(Utils.toNullableArray(record.value()), item.value)
                        && Arrays.equals(record.headers(), item.headers);
                    if (!same) throw new IllegalStateException(parts[0] + ": record " + (index - 1) + " is " + record);
                }
            }
            if (batches != 1 || index != expected.size() || records.validBytes() != parts[1].length() / 2)
                throw new IllegalStateException(parts[0] + ": " + batches + " batches, " + index + " records");
            System.out.println("read " + parts[0] + " " + records.batches().iterator().next());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[1]);
        if (arguments[0].equals("read")) {
            readBatches(directory);
            return;
        }
        writeBatches(directory.resolve("batches.hex"));
        writeFrames(directory.resolve("produce_frames.hex"));
        writeHashes(directory.resolve("murmur2.hex"));
    }
}
