package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.TaskEvent;
import dev.taskyard.v1.WatchTasksRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Watches with a real server, also over broken connections and restarts. */
@Timeout(90)
class WatchTest {
    @Test
    void aWatchContinuesAfterBrokenConnectionsWithoutAGapOrARepeat() throws Exception {
        TaskyardOptions direct = LiveServer.options();
        try (var proxy = new CuttingProxy(OutageTest.portOf(direct));
                Taskyard control = Taskyard.connect(direct);
                Taskyard taskyard = Taskyard.connect(
                        TaskyardOptions.of(proxy.address()).withNamespace(direct.namespace()));
                Watch watch = taskyard.watch(currentOf("ann"))) {
            List<String> expected = new ArrayList<>();
            List<String> events = new ArrayList<>();
            String first = control.submit(held()).getTaskId();
            expected.add("current " + first);
            events.add("current " + watch.next().getTask().getTaskId());
            // An event after the current tasks shows that there is a cursor to resume from.
            expected.add("submitted " + control.submit(held()).getTaskId());
            events.add(describe(watch.next()));
            for (int round = 0; round < 5; round++) {
                for (int n = 0; n < 10; n++) {
                    expected.add("submitted " + control.submit(held()).getTaskId());
                    if (n == 4) {
                        proxy.cut();
                    }
                }
            }
            while (events.size() < expected.size()) {
                events.add(describe(watch.next()));
            }
            assertEquals(expected, events);
            control.cancel(first);
            assertEquals(TaskEvent.Kind.changed, watch.next().getKind());
        }
    }

    @Test
    void anotherWatchContinuesAtTheCursor() {
        try (Taskyard taskyard = Taskyard.connect(LiveServer.options())) {
            String cursor;
            String first = taskyard.submit(held()).getTaskId();
            try (Watch watch = taskyard.watch(currentOf("ann"))) {
                assertTrue(watch.cursor().isEmpty());
                assertEquals(first, watch.next().getTask().getTaskId());
                assertTrue(watch.cursor().isEmpty(), "current tasks have no cursor");
                taskyard.resume(first);
                assertEquals("queued", watch.next().getTask().getState().name());
                cursor = watch.cursor().orElseThrow();
            }
            taskyard.cancel(first);
            String second = taskyard.submit(held()).getTaskId();
            try (Watch watch = taskyard.watch(WatchTasksRequest.newBuilder()
                    .setAgentId("ann")
                    .setCursor(cursor)
                    .build())) {
                assertEquals("cancelled", watch.next().getTask().getState().name());
                assertEquals(second, watch.next().getTask().getTaskId());
            }
        }
    }

    @Test
    void aWatchEndsOnceAllItsTasksHaveEnded() {
        try (Taskyard taskyard = Taskyard.connect(LiveServer.options())) {
            String id = taskyard.submit("echo", Map.of()).getTaskId();
            taskyard.cancel(id);
            var filters = WatchTasksRequest.newBuilder().addTaskIds(id).setIncludeCurrent(true).setUntilEnded(true);
            try (Watch watch = taskyard.watch(filters.build())) {
                assertTrue(watch.hasNext());
                watch.next();
                assertFalse(watch.hasNext());
            }
        }
    }

    @Test
    void aWatchListsAllTasksAgainIfTheLogDoesNotReachBackToItsCursor() {
        int port = LiveServer.freePort();
        TaskyardOptions options = LiveServer.options("127.0.0.1:" + port);
        try (Taskyard taskyard = Taskyard.connect(options)) {
            LiveServer server = LiveServer.start(port);
            Watch watch;
            String old;
            try {
                old = taskyard.submit(held()).getTaskId();
                watch = taskyard.watch(currentOf("ann"));
                assertEquals(old, watch.next().getTask().getTaskId());
            } finally {
                server.stop();
            }
            // The server keeps its tasks in memory, so the next one does not know the cursor.
            LiveServer successor = LiveServer.start(port);
            try {
                String fresh = taskyard.submit(held()).getTaskId();
                TaskEvent event = watch.next();
                if (event.getTask().getTaskId().equals(old)) {
                    // The last event of the first server, which cancels waiting tasks when it shuts down.
                    assertEquals("cancelled", event.getTask().getState().name());
                    event = watch.next();
                }
                assertEquals(fresh, event.getTask().getTaskId());
            } finally {
                successor.stop();
            }
        }
    }

    @Test
    void aRefusalOfTheServerIsThrown() {
        try (Taskyard taskyard = Taskyard.connect(LiveServer.options());
                Watch watch = taskyard.watch(
                        WatchTasksRequest.newBuilder().setState("no_such_state").build())) {
            var error = assertThrows(TaskyardException.class, watch::hasNext);
            assertEquals("bad_request", error.code());
        }
    }

    @Test
    void closingTheWatchEndsAWaitForAnEvent() throws Exception {
        try (Taskyard taskyard = Taskyard.connect(LiveServer.options())) {
            Watch watch = taskyard.watch(currentOf("ann"));
            assertEndsWaiting(watch, watch::close);
        }
    }

    @Test
    void closingTheClientEndsAWaitForAnEvent() throws Exception {
        Taskyard taskyard = Taskyard.connect(LiveServer.options());
        assertEndsWaiting(taskyard.watch(currentOf("ann")), taskyard::close);
    }

    @Test
    void anInterruptEndsAWaitForAnEvent() {
        try (Taskyard taskyard = Taskyard.connect(LiveServer.options());
                Watch watch = taskyard.watch(currentOf("ann"))) {
            // A bookmark may come first. The wait then continues.
            Thread.currentThread().interrupt();
            var error = assertThrows(TaskyardException.class, watch::hasNext);
            assertEquals("interrupted while waiting for an event", error.reason());
            assertTrue(Thread.interrupted());
        }
    }

    private static String describe(TaskEvent event) {
        return event.getKind() + " " + event.getTask().getTaskId();
    }

    private static void assertEndsWaiting(Watch watch, Runnable close) throws Exception {
        CompletableFuture<Boolean> more = CompletableFuture.supplyAsync(watch::hasNext);
        close.run();
        assertFalse(more.get(10, TimeUnit.SECONDS));
        assertFalse(watch.hasNext());
    }

    private static WatchTasksRequest currentOf(String agent) {
        return WatchTasksRequest.newBuilder().setAgentId(agent).setIncludeCurrent(true).build();
    }

    private static SubmitTaskRequest held() {
        return SubmitTaskRequest.newBuilder().setAction("echo").setHold(true).build();
    }
}
