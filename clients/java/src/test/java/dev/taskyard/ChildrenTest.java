package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.Parent;
import dev.taskyard.v1.RetryPolicy;
import dev.taskyard.v1.Step;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Children of handlers: submitted once over all runs, waited for without a slot. With a real server behind a proxy that breaks. */
@Timeout(60)
class ChildrenTest {
    private static final long BIG = 9_007_199_254_740_993L;
    private static final SubmitTaskRequest WORK =
            SubmitTaskRequest.newBuilder().setAction("work").build();

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

    /** A host with one slot for parents and their children, which return what they are given, with so many characters. */
    private RunningHost family(Handler parent) {
        var host = new Host(broken, "worker", HostOptions.defaults().withSlots(1));
        return new RunningHost(host.action("work", task -> {
            if (!task.task().hasChildName()) {
                return parent.run(task);
            }
            if (task.input() instanceof Map<?, ?> input && input.get("size") instanceof Long size) {
                return Exact.of(Map.of("id", input.get("id"), "text", "€".repeat(size.intValue())));
            }
            throw new ActionFailedException("no words");
        }));
    }

    private List<Task> childrenOf(String id) {
        return taskyard.list(ListTasksRequest.newBuilder().setParentId(id).build()).toList();
    }

    @Test
    void aParentHasTheResultsOfItsChildrenOnOneSlot() {
        try (RunningHost host = family(task -> {
            List<Child> children = new ArrayList<>();
            // The result of the second is too large for a message.
            for (long size : new long[] {0, 300_000}) {
                proxy.cut();
                children.add(task.child("page-" + size, "work", Exact.of(Map.of("id", BIG, "size", size))));
            }
            task.join(children.stream().map(Child::id).toList(), "pages", null);
            List<Object> found = new ArrayList<>();
            for (Child child : children) {
                proxy.cut();
                Map<?, ?> result = child.result(Map.class);
                found.add(List.of(child.name(), result.get("id"), ((String) result.get("text")).length()));
            }
            return Exact.of(found);
        })) {
            String id = taskyard.submit("work", Map.of()).getTaskId();
            assertEquals(
                    List.of(List.of("page-0", BIG, 0L), List.of("page-300000", BIG, 300_000L)), taskyard.result(id));
            assertEquals(
                    List.of("page-0 of ann: cancel, 0", "page-300000 of ann: cancel, 1"),
                    childrenOf(id).stream()
                            .map(child -> child.getChildName() + " of " + child.getAgentId() + ": "
                                    + child.getOnParentEnd() + ", " + child.getArtifactsCount())
                            .toList());
        }
    }

    @Test
    void aLaterAttemptFindsItsChildrenAgain() {
        var ids = new ConcurrentLinkedQueue<String>();
        try (RunningHost host = family(task -> {
            Child child = task.child("one", "work", Map.of("id", task.attempt(), "size", 0));
            ids.add(child.id());
            if (task.attempt() == 1) {
                throw new ActionFailedException("again");
            }
            return List.of(child.result(Map.class).get("id"), child.result(Map.class).get("id"));
        })) {
            var twice = RetryPolicy.newBuilder().setMaxAttempts(2).setFirstDelayMs(1);
            String id = taskyard.submit(WORK.toBuilder().setRetryPolicy(twice).build()).getTaskId();
            assertEquals(List.of(1L, 1L), taskyard.result(id));
            assertEquals(1, ids.stream().distinct().count());
        }
    }

    @Test
    void severalMayWaitForTheSameChild() {
        try (RunningHost host = family(task -> {
            Child child = task.child("one", "work", Map.of("id", 1, "size", 2));
            // With one slot it has not ended when the first run comes here.
            List<Future<?>> waiting = new ArrayList<>();
            for (Duration limit : Arrays.asList(null, Duration.ofHours(1), Duration.ofHours(2))) {
                waiting.add(started(() -> child.result(Map.class, limit).get("text")));
            }
            waiting.add(started(() -> {
                task.join("all", child);
                return null;
            }));
            List<Object> found = new ArrayList<>();
            for (var each : waiting) {
                found.add(each.get());
            }
            // In one thread, too.
            found.add(child.result(Map.class, Duration.ofMinutes(1)).get("text"));
            assertThrows(NotRetryableException.class, () -> task.join("all", child));
            return found;
        })) {
            String id = taskyard.submit(WORK).getTaskId();
            assertEquals(Arrays.asList("€€", "€€", "€€", null, "€€"), taskyard.result(id));
        }
    }

    @Test
    void aResultThatTookTooLongIsWaitedForAgain() throws InterruptedException {
        var held = new ArrayBlockingQueue<String>(1);
        try (RunningHost host = family(task -> {
            Child child = task.child("one", heldChild());
            for (int late = 0; ; ) {
                try {
                    return child.result(Map.class, Duration.ofMillis(late + 1)).get("text");
                } catch (TimeoutException stillWaiting) {
                    if (++late == 3) {
                        held.offer(child.id());
                    }
                }
            }
        })) {
            String id = taskyard.submit(WORK).getTaskId();
            taskyard.resume(held.take());
            assertEquals("€€", taskyard.result(id));
            var steps = taskyard.steps(id).stream().map(Step::getName).toList();
            assertEquals(List.of("child one", "child one 2", "child one 3"), steps.subList(0, 3));
            assertEquals(steps.stream().distinct().toList(), steps);
        }
    }

    @Test
    void aWaitWithoutALimitTakesNoTimeoutOfAnotherOne() {
        var runs = new AtomicInteger();
        try (RunningHost host = family(task -> {
            Child child = task.child("one", heldChild());
            // As where another thread comes first.
            if (runs.incrementAndGet() == 1) {
                return child.result(Map.class, Duration.ofMillis(1));
            }
            try {
                return child.result(Map.class).get("text");
            } catch (Parked parked) {
                if (runs.get() == 2) {
                    taskyard.resume(child.id());
                }
                throw parked;
            }
        })) {
            assertEquals("€€", taskyard.run("work", Map.of()));
        }
    }

    private static SubmitTaskRequest heldChild() {
        return Exact.of(Map.of("id", 1, "size", 2)).putInto(WORK.toBuilder()).setHold(true).build();
    }

    private static Future<?> started(Callable<?> work) {
        FutureTask<?> task = new FutureTask<>(work);
        new Thread(task).start();
        return task;
    }

    @Test
    void aChildThatDidNotEndWellIsAnExceptionWithItsName() {
        try (RunningHost host = family(task -> {
            Child child = task.child("one", WORK);
            try {
                return child.result(Object.class);
            } catch (ChildFailedException failed) {
                assertEquals("the child 'one' (" + child.id() + ") is failed: no words", failed.getMessage());
                return List.of(failed.name(), failed.id().equals(child.id()), failed.state().name(), failed.reason());
            }
        })) {
            String id = taskyard.submit(WORK).getTaskId();
            assertEquals(List.of("one", true, "failed", "no words"), taskyard.result(id));
            assertEquals(
                    List.of("ends child one"),
                    taskyard.steps(id).stream().map(step -> step.getKind() + " " + step.getName()).toList());
        }
    }

    @Test
    void aResultThatTakesTooLongOrDoesNotFitIsAnExceptionOfTheHandler() {
        try (RunningHost host = family(task -> {
            Child held = task.child("held", WORK.toBuilder().setHold(true).setOnParentEnd(Parent.OnEnd.keep).build());
            try {
                return held.result(Object.class, Duration.ofMillis(1));
            } catch (TimeoutException late) {
                Child child = task.child("page", "work", Map.of("id", 1, "size", 0));
                try {
                    return child.result(String.class);
                } catch (IllegalArgumentException unfit) {
                    return List.of(held.id(), unfit.getMessage());
                }
            }
        })) {
            List<?> found = (List<?>) taskyard.run("work", Map.of());
            assertEquals(Task.State.pending, taskyard.get((String) found.get(0)).getState());
            String text = (String) found.get(1);
            assertTrue(text.startsWith("child 'page': its result does not fit: as a plain value it is a "), text);
        }
    }

    @Test
    void whatIsNoChildIsAnExceptionOfTheHandler() {
        Map<String, SubmitTaskRequest> cases = new LinkedHashMap<>();
        cases.put("a/b", WORK);
        cases.put("unique", WORK.toBuilder().setUniqueKey("k").build());
        cases.put("key", WORK.toBuilder().setIdempotencyKey("k").build());
        cases.put("other", WORK.toBuilder().setParentId("tsk_1").build());
        try (RunningHost host = family(task -> {
            for (var each : cases.entrySet()) {
                var refused = assertThrows(TaskyardException.class, () -> task.child(each.getKey(), each.getValue()));
                assertEquals("bad_request", refused.code());
            }
            try {
                task.sleep(Duration.ofMillis(1), "nap");
            } catch (Parked parked) {
                assertThrows(Parked.class, () -> task.child("late", WORK));
                throw parked;
            }
            return null;
        })) {
            String id = taskyard.submit(WORK).getTaskId();
            assertEquals(null, taskyard.result(id));
            assertEquals(List.of(), childrenOf(id));
        }
    }
}
