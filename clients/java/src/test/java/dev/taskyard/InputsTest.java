package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.taskyard.v1.After;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The results of other tasks that a handler is given, with a real server behind a proxy that breaks. */
@Timeout(60)
class InputsTest {
    private static final long BIG = 9_007_199_254_740_993L;

    private final TaskyardOptions options = LiveServer.options();
    private final Taskyard taskyard = Taskyard.connect(options);
    private CuttingProxy proxy;
    private Taskyard broken;

    @BeforeEach
    void connect() throws IOException {
        proxy = new CuttingProxy(Integer.parseInt(options.address().split(":")[1]));
        broken = Taskyard.connect(TaskyardOptions.of(proxy.address()).withNamespace(options.namespace()));
    }

    @AfterEach
    void close() throws IOException {
        broken.close();
        taskyard.close();
        proxy.close();
    }

    /**
     * A host whose connection breaks before each handler. Its action {@code give} returns the input, whose text is an artifact
     * too.
     */
    private RunningHost host(Handler take) {
        HostOptions cutting = HostOptions.defaults().withExecutor(run -> new Thread(() -> {
                    proxy.cut();
                    run.run();
                })
                .start());
        return new RunningHost(new Host(broken, "worker", cutting)
                .action("give", task -> {
                    String text = (String) asMap(task.input()).get("text");
                    task.putArtifact("text", ArtifactContent.of(text.getBytes(StandardCharsets.UTF_8)), null);
                    return Exact.of(task.input());
                })
                .action("fail", task -> {
                    throw new NotRetryableException("no words", "mute");
                })
                .action("take", take));
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> asMap(Object value) {
        return (Map<String, Object>) value;
    }

    @Test
    void resultsOfAnySizeAreHandedOnOverBrokenConnections() {
        try (RunningHost host = host(task -> {
            Map<String, Object> found = new HashMap<>();
            task.inputs().forEach((name, input) -> {
                assertEquals(task.task().getInputsOrThrow(name), input.task().getTaskId());
                assertEquals(Task.State.done, input.task().getState());
                Map<String, Object> value = asMap(input.value());
                assertEquals(BIG, value.get("id"));
                assertEquals(value.get("text"), new String(input.readArtifact("text"), StandardCharsets.UTF_8));
                var none = assertThrows(TaskyardException.class, () -> input.readArtifact("none"));
                assertEquals("not_found", none.code());
                found.put(name, ((String) value.get("text")).length());
            });
            return found;
        })) {
            // Of the middle ones one does not fit beside the others, and the largest is an artifact.
            Map<String, Object> sizes = Map.of("empty", 0L, "one", 90_000L, "two", 90_000L, "three", 90_000L, "large", 300_000L);
            SubmitTaskRequest.Builder take = SubmitTaskRequest.newBuilder().setAction("take");
            sizes.forEach((name, size) -> {
                var input = Exact.of(Map.of("id", BIG, "text", "x".repeat(((Long) size).intValue())));
                take.putInputs(name, taskyard.submit("give", input).getTaskId());
            });
            assertEquals(sizes, taskyard.run(take.build()));
        }
    }

    @Test
    void anInputThatFailedHasAnErrorAndNoValue() {
        try (RunningHost host = host(task -> {
            TaskInput failed = task.inputs().get("failed");
            TaskInput cancelled = task.inputs().get("cancelled");
            return List.of(
                    failed.task().getState() + ": " + failed.task().getError() + ", " + failed.value(),
                    cancelled.task().getState() + ": " + cancelled.value());
        })) {
            var held = SubmitTaskRequest.newBuilder().setAction("give").setHold(true);
            String cancelled = taskyard.submit(held.build()).getTaskId();
            taskyard.cancel(cancelled);
            var batch = taskyard.submitBatch(List.of(
                    BatchTask.newBuilder().setAction("fail").build(),
                    BatchTask.newBuilder()
                            .setAction("take")
                            .setAfterPolicy(After.Policy.ended)
                            .putInputs("cancelled", cancelled)
                            .putInputIndexes("failed", 0)
                            .build()));
            assertEquals(
                    List.of("failed: no words, null", "cancelled: null"),
                    taskyard.result(batch.getTasks(1).getTaskId()));
        }
    }
}
