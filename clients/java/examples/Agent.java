import dev.taskyard.Json;
import dev.taskyard.Taskyard;
import dev.taskyard.TaskyardException;
import dev.taskyard.TaskyardOptions;
import dev.taskyard.Watch;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskEvent;
import dev.taskyard.v1.WatchTasksRequest;
import java.util.Map;

/**
 * An agent: it submits a task, watches it until it has ended, and prints the result.
 *
 * <p>{@code make example ARGS="127.0.0.1:50051 greet"} runs it. A host must run the action, for instance Worker.java beside
 * this file.
 */
public class Agent {
    public static void main(String[] arguments) {
        String address = arguments.length > 0 ? arguments[0] : "127.0.0.1:50051";
        String action = arguments.length > 1 ? arguments[1] : "greet";
        try (Taskyard taskyard = Taskyard.connect(TaskyardOptions.of(address).withAgentId("example"))) {
            SubmitTaskRequest task = SubmitTaskRequest.newBuilder()
                    .setAction(action)
                    .setParams(Json.struct(Map.of("name", "Java")))
                    .build();
            String id = taskyard.submit(task).getTaskId();
            System.out.println("submitted " + id);
            follow(taskyard, id);
            Task ended = taskyard.get(id);
            System.out.println(
                    ended.getState() == Task.State.done
                            ? "result: " + Json.plain(ended.getResult())
                            : ended.getState() + ": " + ended.getError());
        } catch (TaskyardException error) {
            System.err.println(error.getMessage() + (error.retryable() ? " (try again later)" : ""));
            System.exit(1);
        }
    }

    private static void follow(Taskyard taskyard, String id) {
        WatchTasksRequest filters = WatchTasksRequest.newBuilder()
                .addTaskIds(id)
                .setIncludeCurrent(true)
                .setUntilEnded(true)
                .build();
        try (Watch watch = taskyard.watch(filters)) {
            while (watch.hasNext()) {
                TaskEvent event = watch.next();
                System.out.println(event.getKind() + ": " + event.getTask().getState());
            }
        }
    }
}
