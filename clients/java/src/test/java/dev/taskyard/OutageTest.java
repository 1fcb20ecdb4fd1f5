package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.Task;
import io.grpc.Status;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls during an outage of the server, and the delays between tries. */
@Timeout(90)
class OutageTest {
    private static final ListTasksRequest ALL = ListTasksRequest.getDefaultInstance();

    @Test
    void aCallSurvivesAnOutageThatIsShorterThanThePatience() {
        int port = LiveServer.freePort();
        try (Taskyard taskyard = Taskyard.connect(LiveServer.options("127.0.0.1:" + port))) {
            CompletableFuture<String> submitted =
                    CompletableFuture.supplyAsync(() -> taskyard.submit("echo", Map.of()).getTaskId());
            LiveServer server = LiveServer.start(port);
            try {
                assertEquals(submitted.join(), taskyard.get(submitted.join()).getTaskId());
            } finally {
                server.stop();
            }
        }
    }

    @Test
    void aCallFailsAfterAnOutageThatIsLongerThanThePatience() {
        var options = TaskyardOptions.of("127.0.0.1:" + LiveServer.freePort()).withPatience(Duration.ofMillis(300));
        try (Taskyard taskyard = Taskyard.connect(options)) {
            var error = assertThrows(TaskyardException.class, () -> taskyard.get("tsk_any"));
            assertEquals("unavailable", error.code());
            assertTrue(error.retryable());
        }
    }

    @Test
    void aTaskIsMadeOnceIfTheAnswerToItsSubmitIsLost() throws Exception {
        TaskyardOptions direct = LiveServer.options();
        try (var proxy = new CuttingProxy(portOf(direct));
                Taskyard control = Taskyard.connect(direct);
                Taskyard taskyard = Taskyard.connect(through(proxy, direct))) {
            taskyard.list(ALL).toList();
            proxy.mute();
            CompletableFuture<String> submitted =
                    CompletableFuture.supplyAsync(() -> taskyard.submit("echo", Map.of()).getTaskId());
            while (control.list(ALL).findAny().isEmpty()) {
                assertFalse(submitted.isDone());
            }
            proxy.cut();
            String id = submitted.get(30, TimeUnit.SECONDS);
            assertEquals(java.util.List.of(id), control.list(ALL).map(Task::getTaskId).toList());
        }
    }

    @Test
    void aCancelWhoseAnswerIsLostSucceeds() throws Exception {
        TaskyardOptions direct = LiveServer.options();
        try (var proxy = new CuttingProxy(portOf(direct));
                Taskyard control = Taskyard.connect(direct);
                Taskyard taskyard = Taskyard.connect(through(proxy, direct))) {
            String id = taskyard.submit("echo", Map.of()).getTaskId();
            proxy.mute();
            CompletableFuture<Task.State> cancelled = CompletableFuture.supplyAsync(() -> taskyard.cancel(id));
            control.await(id);
            proxy.cut();
            assertEquals(Task.State.cancelled, cancelled.get(30, TimeUnit.SECONDS));
        }
    }

    @Test
    void aCallThatWorksRestoresThePatience() {
        Outage outage = new Outage(Duration.ofMillis(20), () -> false);
        TaskyardException error = TaskyardException.of(Status.UNAVAILABLE, "away");
        assertThrows(TaskyardException.class, () -> {
            while (true) {
                outage.backOff(error);
            }
        });
        outage.reset();
        outage.backOff(error);
    }

    @Test
    void anInterruptEndsTheDelay() {
        Thread.currentThread().interrupt();
        var error = assertThrows(
                TaskyardException.class,
                () -> new Outage(Duration.ofHours(1), () -> false).backOff(TaskyardException.of(Status.UNAVAILABLE, "away")));
        assertEquals("cancelled", error.code());
        assertTrue(Thread.interrupted());
    }

    private static TaskyardOptions through(CuttingProxy proxy, TaskyardOptions direct) {
        return TaskyardOptions.of(proxy.address()).withNamespace(direct.namespace()).withAgentId(direct.agentId());
    }

    static int portOf(TaskyardOptions options) {
        return Integer.parseInt(options.address().substring(options.address().indexOf(':') + 1));
    }
}
