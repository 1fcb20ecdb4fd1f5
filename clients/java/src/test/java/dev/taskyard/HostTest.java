package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.ListHostsRequest;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.Machine;
import dev.taskyard.v1.RetryPolicy;
import dev.taskyard.v1.RuntimeHost;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a host does with its tasks, with a real server. */
@Timeout(60)
class HostTest {
    private static final HostOptions DEFAULTS = HostOptions.defaults();
    private static final long BIG = (1L << 53) + 1;

    private final Taskyard taskyard = Taskyard.connect(LiveServer.options());
    private final List<RunningHost> hosts = new ArrayList<>();

    @AfterEach
    void close() {
        hosts.forEach(RunningHost::close);
        taskyard.close();
    }

    private RunningHost start(String action, Handler handler) {
        return start(DEFAULTS, action, handler);
    }

    private RunningHost start(HostOptions options, String action, Handler handler) {
        RunningHost running = new RunningHost(
                new Host(taskyard, "host-" + hosts.size(), options).action(action, handler));
        hosts.add(running);
        return running;
    }

    private static SubmitTaskRequest.Builder task(String action) {
        return SubmitTaskRequest.newBuilder().setAction(action);
    }

    private static RetryPolicy.Builder attempts(int count) {
        return RetryPolicy.newBuilder().setMaxAttempts(count).setFirstDelayMs(10);
    }

    private TaskFailedException failureOf(SubmitTaskRequest.Builder task) {
        return assertThrows(TaskFailedException.class, () -> taskyard.run(task.build()));
    }

    @Test
    void aHandlerSeesItsTaskAndReturnsItsResult() {
        start("greet", task -> Map.of(
                "params", task.params(),
                "labels", task.labels(),
                "attempt", task.attempt(),
                "deadline", task.deadline().isPresent(),
                "parent", task.parentId().orElse("none"),
                "id", task.id(),
                "token", task.fencingToken() > 0,
                "environment", task.environment().get("TASKYARD_TASK_ID")));
        var request = task("greet").setParams(Json.struct(Map.of("name", "Ann"))).putLabels("team", "blue");
        var result = (Map<?, ?>) taskyard.run(request.build());
        assertEquals(Map.of("name", "Ann"), result.get("params"));
        assertEquals(Map.of("team", "blue"), result.get("labels"));
        assertEquals(List.of(1L, true, true), List.of(result.get("attempt"), result.get("deadline"), result.get("token")));
        assertEquals("none", result.get("parent"));
        assertEquals(result.get("id"), result.get("environment"));
    }

    @Test
    void aHostTakesOnlyItsActionsUnlessItHasAHandlerForAny() {
        start("echo", RunningTask::params);
        String other = taskyard.submit("other", Map.of()).getTaskId();
        taskyard.run("echo", Map.of());
        assertEquals(Task.State.queued, taskyard.get(other).getState());
        hosts.add(new RunningHost(new Host(taskyard, "any").anyAction(RunningTask::action)));
        assertEquals("other", taskyard.result(other));
    }

    @Test
    void wholeNumbersArriveAndReturnWithAllTheirDigits() {
        start("next", task -> Exact.of(Map.of("next", 1 + (Long) ((Map<?, ?>) task.input()).get("id"))));
        for (long id : new long[] {7, BIG}) {
            String submitted = taskyard.submit("next", Exact.of(Map.of("id", id))).getTaskId();
            assertEquals(Map.of("next", id + 1), taskyard.result(submitted));
            assertEquals(id == BIG, taskyard.get(submitted).hasOutput());
        }
    }

    @Test
    void aResultThatIsNotPlainOrLosesDigitsFailsForGood() {
        AtomicInteger runs = new AtomicInteger();
        start("bad", task -> runs.incrementAndGet() == 1 ? new Object() : Map.of("id", BIG));
        for (int n = 1; n <= 2; n++) {
            assertEquals(Optional.of("bad_result"), failureOf(task("bad").setRetryPolicy(attempts(3))).code());
            assertEquals(n, runs.get());
        }
    }

    @Test
    void aFailureHasTheCodeOfTheHandlerAndAnUnexpectedOneItsTrace() {
        start("fail", task -> {
            if (task.params().containsKey("code")) {
                throw new ActionFailedException("no luck", "unlucky");
            }
            throw new IllegalStateException("boom");
        });
        var expected = failureOf(task("fail").setParams(Json.struct(Map.of("code", true))));
        assertEquals("no luck", expected.reason());
        assertEquals(Optional.of("unlucky"), expected.code());
        assertEquals(Optional.empty(), expected.traceback());
        var unexpected = failureOf(task("fail"));
        assertEquals("java.lang.IllegalStateException: boom", unexpected.reason());
        assertTrue(unexpected.traceback().orElseThrow().contains("HostTest"));
        assertTrue(unexpected.getMessage().contains("boom"), unexpected.getMessage());
    }

    @Test
    void aHandlerSaysWhetherAndWhenItsTaskIsTriedAgain() {
        start("fail", task -> {
            if (task.attempt() > 1) {
                return task.attempt();
            } else if (task.params().containsKey("final")) {
                throw new NotRetryableException("hopeless", "broken");
            }
            throw new RetryException("busy", Duration.ofMillis(50));
        });
        // Without a retry policy.
        assertEquals(2L, taskyard.run("fail", Map.of()));
        var hopeless = failureOf(task("fail")
                .setParams(Json.struct(Map.of("final", true)))
                .setRetryPolicy(attempts(3)));
        assertEquals(1, hopeless.attempts().size());
        assertEquals("broken", hopeless.attempts().get(0).getCode());
    }

    @Test
    void aCancelInterruptsTheHandlerAndTellsIt() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        var reasons = new ConcurrentLinkedQueue<String>();
        start("work", task -> {
            begun.countDown();
            try {
                Thread.sleep(30_000);
            } finally {
                reasons.add(task.stopReason().orElse("none") + " " + task.cancelled());
            }
            return null;
        });
        String id = taskyard.submit("work", Map.of()).getTaskId();
        begun.await();
        taskyard.cancel(id);
        assertThrows(TaskCancelledException.class, () -> taskyard.result(id));
        hosts.get(0).close();
        assertEquals(List.of("cancelled true"), List.copyOf(reasons));
    }

    @Test
    void aLoopThatWaitsForNothingEndsByACheck() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch stopped = new CountDownLatch(1);
        start("work", task -> {
            begun.countDown();
            try {
                while (true) {
                    task.check();
                }
            } finally {
                stopped.countDown();
            }
        });
        String id = taskyard.submit("work", Map.of()).getTaskId();
        begun.await();
        taskyard.cancel(id);
        stopped.await();
    }

    @Test
    void anAttemptThatRunsTooLongIsInterruptedAndTriedAgain() {
        var reasons = new ConcurrentLinkedQueue<String>();
        start("slow", task -> {
            if (task.attempt() == 1) {
                try {
                    Thread.sleep(30_000);
                } finally {
                    task.stopReason().ifPresent(reasons::add);
                }
            }
            return "in time";
        });
        var request = task("slow").setRunTimeoutMs(300).setRetryPolicy(attempts(2));
        String id = taskyard.submit(request.build()).getTaskId();
        assertEquals("in time", taskyard.result(id));
        assertEquals(List.of("timed_out"), List.copyOf(reasons));
        assertEquals("timed_out", taskyard.get(id).getAttempts(0).getCode());
    }

    @Test
    void theDetailsOfTheLastProgressAreTheCheckpointOfTheNextAttempt() {
        start("steps", task -> {
            if (task.attempt() == 1) {
                task.progress(0.4, "two of five", Map.of("step", 2));
                task.progress(0.5, "more than two");
                throw new ActionFailedException("again");
            }
            return task.checkpoint();
        });
        assertEquals(Map.of("step", 2L), taskyard.run(task("steps").setRetryPolicy(attempts(2)).build()));
    }

    @Test
    void whatAHandlerSubmitsHasItsTaskAsParentAndIsCancelledWithIt() throws Exception {
        CountDownLatch submitted = new CountDownLatch(1);
        start("parent", task -> {
            assertEquals(Optional.of(task), RunningTask.current());
            taskyard.submit("child", Map.of());
            submitted.countDown();
            Thread.sleep(30_000);
            return null;
        });
        String parent = taskyard.submit("parent", Map.of()).getTaskId();
        submitted.await();
        var ofParent = ListTasksRequest.newBuilder().setParentId(parent).build();
        List<Task> children = taskyard.list(ofParent).toList();
        assertEquals(List.of("child"), children.stream().map(Task::getAction).toList());
        var request = CancelTaskRequest.newBuilder().setTaskId(parent).setCancelChildren(true);
        assertEquals(1, taskyard.cancel(request.build()).getChildrenCancelled());
        assertEquals(Task.State.cancelled, taskyard.get(children.get(0).getTaskId()).getState());
        assertFalse(RunningTask.current().isPresent());
    }

    @Test
    void aTaskOverItsBudgetFailsAndItsHandlerIsStopped() {
        start("dear", task -> {
            task.setTokensUsed(7);
            task.progress(0.5, "half");
            Thread.sleep(30_000);
            return null;
        });
        assertEquals("token limit exceeded", failureOf(task("dear").setTokenLimit(5)).reason());
    }

    @Test
    void tasksOfATargetNeverRunAtTheSameTime() {
        AtomicInteger running = new AtomicInteger();
        AtomicBoolean overlap = new AtomicBoolean();
        start("page", task -> {
            overlap.compareAndSet(false, running.incrementAndGet() > 1);
            Thread.sleep(20);
            running.decrementAndGet();
            return null;
        });
        List<String> ids = new ArrayList<>();
        for (int n = 0; n < 5; n++) {
            ids.add(taskyard.submit(task("page").setTarget("t").build()).getTaskId());
        }
        ids.forEach(taskyard::result);
        assertFalse(overlap.get());
    }

    @Test
    void leasesAreRenewedWhateverTheHandlersDo() {
        AtomicInteger begun = new AtomicInteger();
        start(DEFAULTS.withLease(Duration.ofSeconds(1)).withSlots(8), "compute", task -> {
            begun.incrementAndGet();
            long until = System.nanoTime() + Duration.ofMillis(2_500).toNanos();
            double sum = 0;
            while (System.nanoTime() < until) {
                sum += Math.sqrt(sum + 1);
            }
            return sum > 0;
        });
        List<String> ids = new ArrayList<>();
        for (int n = 0; n < 8; n++) {
            ids.add(taskyard.submit("compute", Map.of()).getTaskId());
        }
        ids.forEach(id -> assertEquals(true, taskyard.result(id)));
        assertEquals(8, begun.get());
    }

    @Test
    void aHostIsShownWithItsOptions() {
        var options = DEFAULTS.withSlots(3)
                .withCapabilities("gpu")
                .withProject("blue")
                .withLabels(Map.of("rack", "7"))
                .withDisplayName("The host")
                .withMachine(() -> Machine.newBuilder().setSessions(5).build());
        start(options, "echo", RunningTask::params);
        taskyard.run(task("echo").setProject("blue").addRequires("gpu").build());
        RuntimeHost shown = taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub)
                .listHosts(ListHostsRequest.getDefaultInstance())
                .getHosts(0);
        assertEquals(3, shown.getSlots());
        assertEquals(List.of("gpu"), shown.getCapabilitiesList());
        assertEquals("blue", shown.getProject());
        assertEquals(Map.of("rack", "7"), shown.getLabelsMap());
        assertEquals("The host", shown.getDisplayName());
        assertEquals(List.of("echo"), shown.getActionsList());
        assertEquals(5, shown.getMachine().getSessions());
    }

    @Test
    void aTaskThatTheExecutorRefusesIsGivenBack() {
        AtomicInteger refusals = new AtomicInteger();
        start(DEFAULTS.withExecutor(handler -> {
            if (refusals.getAndIncrement() < 2) {
                throw new RejectedExecutionException("full");
            }
            new Thread(handler).start();
        }), "echo", RunningTask::params);
        assertEquals(Map.of("n", 1L), taskyard.run("echo", Map.of("n", 1)));
        assertEquals(3, refusals.get());
    }

    @Test
    void aHostNeedsHandlersAndRunsOnce() throws Exception {
        assertThrows(IllegalStateException.class, () -> new Host(taskyard, "bare").run());
        var host = start("echo", RunningTask::params).host;
        taskyard.run("echo", Map.of());
        assertThrows(IllegalStateException.class, host::run);
        assertThrows(IllegalArgumentException.class, () -> host.action("echo", RunningTask::params));
        assertThrows(IllegalArgumentException.class, () -> DEFAULTS.withSlots(0));
        assertThrows(IllegalArgumentException.class, () -> DEFAULTS.withLease(Duration.ofMillis(500)));
    }
}
