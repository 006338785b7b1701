import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's command-line tools one after another in one JVM: a file has their arguments, one a line, and an empty
 * line between tools. A line of its own tells how each of them ended. */
public class ManyTools {
    static class Ended extends RuntimeException {
        Ended() {
            super("it has ended", null, false, false);
        }
    }

    // The first one counts: some tools take the exception that ends them for a failure, and end once more.
    static Integer status;

    static void end(int newStatus) {
        if (status == null) status = newStatus;
        throw new Ended();
    }

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((newStatus, message) -> end(newStatus));
        Exit.setHaltProcedure((newStatus, message) -> end(newStatus));
        for (String tool : Files.readString(Path.of(args[0]), StandardCharsets.UTF_8).split("\n\n")) {
            List<String> words = new ArrayList<>(Arrays.asList(tool.split("\n")));
            String name = words.remove(0);
            status = null;
            try {
                Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) words.toArray(new String[0]));
            } catch (InvocationTargetException error) {
                if (status == null) error.getCause().printStackTrace();
                if (status == null) status = 99;
            }
            System.out.println("\n=== " + (status == null ? 0 : status));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
