import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.connect.cli.ConnectStandalone;

/** Kafka Connect in standalone mode: the lines of a file go into a topic, and from there into another file. Then
 * Connect is stopped, lines are added, and it goes on where it was. The arguments are the servers and a directory. */
public class FileToFile {
    static void write(Path path, Map<String, ?> properties) throws Exception {
        Files.write(path, properties.entrySet().stream().map(each -> each.getKey() + "=" + each.getValue()).toList());
    }

    static void addLines(Path path, int first, int count) throws Exception {
        List<String> lines = IntStream.range(first, first + count).mapToObj(String::valueOf).toList();
        Files.write(path, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    static void runUntil(ConnectStandalone program, Map<String, String> worker, String[] connectors, Path to, int lines)
        throws Exception {
        var connect = program.startConnect(worker);
        program.processExtraArgs(connect, connectors);
        for (long end = System.nanoTime() + 60_000_000_000L; !Files.exists(to) || Files.readAllLines(to).size() < lines; ) {
            if (System.nanoTime() > end) throw new IllegalStateException("fewer than " + lines + " lines after a minute");
            Thread.sleep(20);
        }
        connect.stop();
        connect.awaitStop();
    }

    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[1]), from = directory.resolve("from"), to = directory.resolve("to");
        String converter = "org.apache.kafka.connect.storage.StringConverter";
        Map<String, String> worker = Map.of(
            "bootstrap.servers", args[0],
            "key.converter", converter,
            "value.converter", converter,
            "offset.storage.file.filename", directory.resolve("offsets").toString(),
            "offset.flush.interval.ms", "100",
            "plugin.discovery", "service_load",
            "listeners", "http://127.0.0.1:0");
        Path source = directory.resolve("source.properties"), sink = directory.resolve("sink.properties");
        write(source, Map.of("name", "source", "connector.class", "FileStreamSource", "file", from, "topic", "lines",
            "topic.creation.default.partitions", 3, "topic.creation.default.replication.factor", 1));
        write(sink, Map.of("name", "sink", "connector.class", "FileStreamSink", "file", to, "topics", "lines",
            "consumer.override.auto.offset.reset", "earliest"));
        ConnectStandalone program = new ConnectStandalone();
        String[] connectors = {source.toString(), sink.toString()};
        addLines(from, 0, 100);
        runUntil(program, worker, connectors, to, 100);
        addLines(from, 100, 50);
        runUntil(program, worker, connectors, to, 150);
        System.exit(0);
    }
}
