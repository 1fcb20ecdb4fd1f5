package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import dev.taskyard.v1.ReadOutputRequest;
import dev.taskyard.v1.RetryPolicy;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Steps that are done once over the attempts of a task, with a real server behind a proxy that breaks. */
@Timeout(60)
class StepsTest {
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

    private RunningHost worker(Handler handler) {
        return new RunningHost(new Host(broken, "worker").action("work", handler));
    }

    /** Submits a task that has three attempts, one right after the other. */
    private String submit() {
        var thrice = RetryPolicy.newBuilder().setMaxAttempts(3).setFirstDelayMs(1);
        var request = SubmitTaskRequest.newBuilder().setAction("work").setRetryPolicy(thrice);
        return taskyard.submit(request.build()).getTaskId();
    }

    @Test
    void stepsAreDoneOnceOverAllAttemptsAndComeBackAsTheyWere() {
        List<String> done = Collections.synchronizedList(new ArrayList<>());
        Map<String, Object> large = Map.of("id", BIG, "text", "€".repeat(100_000), "n", 1.5);
        try (RunningHost host = worker(task -> {
            Map<?, ?> found = task.step("large", Map.class, () -> {
                done.add("large");
                proxy.cut();
                return large;
            });
            assertEquals(Map.of("id", BIG, "text", large.get("text"), "n", 1.5), found);
            int attempt = task.step("number", Integer.class, () -> {
                done.add("number");
                proxy.cut();
                return task.attempt();
            });
            double half = task.step("half", Double.class, () -> 2.0);
            if (task.attempt() < 3) {
                throw new ActionFailedException("again", null);
            }
            assertEquals(null, task.step("nothing", Object.class, () -> null));
            return List.of(attempt, half, task.task().getSteps());
        })) {
            String id = submit();
            assertEquals(List.of(1L, 2L, 3L), taskyard.result(id));
            assertEquals(List.of("large", "number"), done);
            var steps = taskyard.steps(id);
            assertEquals(
                    List.of("large 1", "number 1", "half 1", "nothing 3"),
                    steps.stream().map(step -> step.getName() + " " + step.getAttempt()).toList());
            assertTrue(steps.get(0).getResult().getStructValue().containsFields("$artifact"));
            assertEquals(1L, Json.plain(steps.get(1).getResult()));
            assertEquals(4, taskyard.get(id).getSteps());
            var none = assertThrows(TaskyardException.class, () -> taskyard.steps("tsk_none"));
            assertEquals("not_found", none.code());
        }
    }

    @Test
    void whatAStepHasSaidIsKeptBeforeTheStepIs() {
        for (boolean breaks : new boolean[] {false, true}) {
            int chunks = breaks ? 2 : 500;
            try (RunningHost host = worker(task -> task.step("talk", Object.class, () -> {
                for (int n = 0; n < chunks; n++) {
                    task.emit("x".repeat(1_000));
                    if (breaks && n == 0) {
                        proxy.cut();
                    }
                }
                return null;
            }))) {
                String id = submit();
                taskyard.result(id);
                List<Instant> kept = new ArrayList<>();
                var request = ReadOutputRequest.newBuilder().setTaskId(id).build();
                try (OutputReader reader = taskyard.output(request)) {
                    reader.forEachRemaining(chunk -> kept.add(timeOf(chunk.getTakenAt())));
                }
                assertEquals(chunks, kept.size());
                Instant recorded = timeOf(taskyard.steps(id).get(0).getRecordedAt());
                var late = kept.stream().filter(recorded::isBefore);
                assertEquals(0, late.count(), "chunks that were kept after the step, breaks: " + breaks);
            }
        }
    }

    private static Instant timeOf(Timestamp time) {
        return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
    }

    @Test
    void aStepWhoseWordsCannotBeKeptEndsWithTheLease() throws Exception {
        CompletableFuture<String> late = new CompletableFuture<>();
        var brief = HostOptions.defaults().withLease(Duration.ofSeconds(1));
        var host = new Host(broken, "worker", brief).action("work", task -> {
            if (late.isDone()) {
                return null;
            }
            assertThrows(Exception.class, () -> task.step("talk", Object.class, () -> {
                proxy.mute();
                task.emit("unheard");
                return null;
            }));
            late.complete(task.stopReason().orElse("none"));
            return null;
        });
        try (RunningHost running = new RunningHost(host)) {
            String id = submit();
            assertEquals("lease_lost", late.get(30, TimeUnit.SECONDS));
            proxy.cut();
            assertEquals("", taskyard.await(id).getError());
            assertEquals(List.of(), taskyard.steps(id));
        }
    }

    @Test
    void stepsAtTheSameTimeNeedNamesOfTheirOwn() {
        try (RunningHost host = worker(task -> {
            List<CompletableFuture<Object>> found = new ArrayList<>();
            for (int n = 0; n < 8; n++) {
                String name = "part " + n;
                found.add(CompletableFuture.supplyAsync(() -> {
                    try {
                        return task.step(name, String.class, () -> name + " of " + task.attempt());
                    } catch (Exception unexpected) {
                        throw new IllegalStateException(unexpected);
                    }
                }));
            }
            for (int n = 0; n < 8; n++) {
                assertEquals("part " + n + " of 1", found.get(n).get());
            }
            if (task.attempt() == 1) {
                throw new ActionFailedException("again", null);
            }
            return task.step("part 1", Integer.class, () -> 7);
        })) {
            Task ended = taskyard.await(submit());
            assertEquals(
                    "step 'part 1': this run has it already: each step needs a name of its own", ended.getError());
            assertEquals(List.of(2, 8), List.of(ended.getAttemptsCount(), ended.getSteps()));
        }
    }

    @Test
    void aStepThatFailsIsNotRecorded() {
        try (RunningHost host = worker(task -> {
            IOException failure = new IOException("broken");
            assertEquals(failure, assertThrows(IOException.class, () -> task.step("once", Integer.class, () -> {
                throw failure;
            })));
            for (String name : List.of("", " ", "€".repeat(257))) {
                assertThrows(NotRetryableException.class, () -> task.step(name, Integer.class, () -> 1));
            }
            for (Object result : List.of(new Object(), Double.NaN)) {
                var refused = assertThrows(
                        NotRetryableException.class, () -> task.step("deaf", Object.class, () -> result));
                assertEquals("bad_result", refused.code());
            }
            return task.step("once", Integer.class, () -> 2);
        })) {
            Task ended = taskyard.await(submit());
            assertEquals("", ended.getError());
            assertEquals(List.of(2L, 1), List.of(Json.output(ended), ended.getSteps()));
        }
    }

    @Test
    void aStepThatHasNoRoomAmongTheOthersIsAnArtifact() {
        try (RunningHost host = worker(task -> {
            int size = 0;
            for (int n = 0; n < 6; n++) {
                size += task.step("step " + n, String.class, () -> "x".repeat(200_000)).length();
            }
            if (task.attempt() == 1) {
                throw new ActionFailedException("again", null);
            }
            return size;
        })) {
            Task ended = taskyard.await(submit());
            assertEquals("", ended.getError());
            assertEquals(
                    List.of(1_200_000L, 6, 1),
                    List.of(Json.output(ended), ended.getSteps(), ended.getArtifactsCount()));
        }
    }

    @Test
    void aStepEndsWithTheLeaseOfItsTask() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CompletableFuture<String> late = new CompletableFuture<>();
        try (RunningHost host = worker(task -> {
            try {
                return task.step("late", Integer.class, () -> {
                    begun.countDown();
                    try {
                        new CountDownLatch(1).await();
                    } catch (InterruptedException stopped) {
                        return 1;
                    }
                    return 2;
                });
            } catch (TaskyardException lost) {
                assertThrows(InterruptedException.class, () -> task.step("later", Integer.class, () -> 1));
                late.complete(lost.code());
                throw lost;
            }
        })) {
            String id = submit();
            begun.await();
            taskyard.cancel(id);
            assertEquals("lease_lost", late.get(30, TimeUnit.SECONDS));
            assertEquals(List.of(), taskyard.steps(id));
        }
    }
}
