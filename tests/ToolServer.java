import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's command-line tools one after another in one JVM, as its standard input asks for them: the number of
 * words, each word, and the tool's own standard input. Each answer is the tool's exit status, its output and its
 * errors. A number has four bytes, and everything else its length before it. */
public class ToolServer {
    static class Ended extends RuntimeException {
        Ended() {
            super("it has ended", null, false, false);
        }
    }

    static final ByteArrayOutputStream output = new ByteArrayOutputStream();
    static final ByteArrayOutputStream errors = new ByteArrayOutputStream();
    static final List<Runnable> hooks = new ArrayList<>();

    // The first one counts: some tools take the exception that ends them for a failure, and end once more.
    static Integer status;

    static void end(int newStatus) {
        if (status == null) status = newStatus;
        throw new Ended();
    }

    static byte[] read(DataInputStream from) throws IOException {
        return from.readNBytes(from.readInt());
    }

    static void write(DataOutputStream to, ByteArrayOutputStream bytes) throws IOException {
        to.writeInt(bytes.size());
        bytes.writeTo(to);
        bytes.reset();
    }

    static void run(List<String> words, InputStream in) throws Exception {
        System.setIn(in);
        status = null;
        String[] arguments = words.subList(1, words.size()).toArray(new String[0]);
        try {
            Class.forName(words.get(0)).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (status == null) error.getCause().printStackTrace();
            if (status == null) status = 99;
        }
        for (Runnable hook : hooks) hook.run();
        hooks.clear();
        System.out.flush();
        System.err.flush();
    }

    public static void main(String[] args) throws Exception {
        DataInputStream asked = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        // Once: Scala's println and the loggers keep the streams that they find first.
        System.setOut(new PrintStream(output, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, false, StandardCharsets.UTF_8));
        Exit.setExitProcedure((newStatus, message) -> end(newStatus));
        Exit.setHaltProcedure((newStatus, message) -> end(newStatus));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        while (true) {
            List<String> words = new ArrayList<>();
            try {
                for (int left = asked.readInt(); left > 0; left--) words.add(new String(read(asked), StandardCharsets.UTF_8));
            } catch (EOFException over) {
                Runtime.getRuntime().halt(0);
            }
            run(words, new ByteArrayInputStream(read(asked)));
            answers.writeInt(status == null ? 0 : status);
            write(answers, output);
            write(answers, errors);
            answers.flush();
        }
    }
}
