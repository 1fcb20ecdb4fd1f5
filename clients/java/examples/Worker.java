import dev.taskyard.Host;
import dev.taskyard.HostOptions;
import dev.taskyard.RetryException;
import dev.taskyard.RunningTask;
import dev.taskyard.Taskyard;
import dev.taskyard.TaskyardException;
import java.time.Duration;
import java.util.Map;

/**
 * A host of two actions: {@code greet}, and {@code count}, which goes on where its last attempt got to. Ctrl-C lets it finish
 * what runs.
 *
 * <p>{@code make example EXAMPLE=Worker ARGS="127.0.0.1:50051 worker-1"} runs it.
 */
public class Worker {
    public static void main(String[] arguments) {
        String address = arguments.length > 0 ? arguments[0] : "127.0.0.1:50051";
        String id = arguments.length > 1 ? arguments[1] : "worker-1";
        HostOptions options = HostOptions.defaults().withSlots(10).withHandleSignals();
        try (Taskyard taskyard = Taskyard.connect(address)) {
            new Host(taskyard, id, options)
                    .action("greet", task -> Map.of("greeting", "Hello, " + task.params().get("name") + "!"))
                    .action("count", Worker::count)
                    .run();
        } catch (TaskyardException refused) {
            System.err.println(refused.getMessage());
            System.exit(1);
        }
    }

    private static Object count(RunningTask task) throws InterruptedException {
        long to = (Long) task.params().getOrDefault("to", 10L);
        for (long n = (Long) task.checkpoint().getOrDefault("n", 0L); n < to; n++) {
            // An interrupt ends it: the task was cancelled, or the host leaves.
            Thread.sleep(100);
            task.progress((double) n / to, "counted to " + n, Map.of("n", n));
            if (n == 5 && task.attempt() == 1) {
                throw new RetryException("a break", Duration.ofSeconds(1));
            }
        }
        return Map.of("counted", to);
    }
}
