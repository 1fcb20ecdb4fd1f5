package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.SendEventRequest;
import dev.taskyard.v1.Step;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.Wait;
import dev.taskyard.v1.WatchTasksRequest;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Events that tasks wait for without a slot. With a real server. */
@Timeout(60)
class EventsTest {
    @Test
    void aTaskHasEachEventOnceTheOldestFirstAndIsToldOfOneThatHasNotComeInTime() throws Exception {
        Handler handler = task -> {
            if (task.params().containsKey("malformed")) {
                return task.event("a b", Object.class);
            }
            Map<?, ?> first = task.event("paid", Map.class);
            Object second = task.event("paid", Object.class, "again", Duration.ofHours(1));
            assertThrows(TimeoutException.class, () -> task.event("paid", Object.class, "late", Duration.ZERO));
            return Arrays.asList(first.get("n"), second);
        };
        try (Taskyard taskyard = Taskyard.connect(LiveServer.options());
                RunningHost host = new RunningHost(new Host(taskyard, "worker").action("work", handler))) {
            String id = taskyard.submit("work", Map.of()).getTaskId();
            Wait wait = untilParked(taskyard, id).getPark().getWaits(0);
            assertEquals(
                    List.of(Wait.Kind.event, "paid", "paid"),
                    List.of(wait.getKind(), wait.getName(), wait.getEventName()));
            var event = SendEventRequest.newBuilder().setName("paid").setEventId("one").setLifeSecs(3600);
            event.setPayload(Json.value(Map.of("n", 1)));
            assertEquals(1, taskyard.sendEvent(event.build()).getWaiting());
            event.setPayload(Json.value(2));
            assertEquals("already_exists", refused(() -> taskyard.sendEvent(event.build())));
            assertEquals("bad_request", refused(() -> taskyard.sendEvent("a b", null)));
            taskyard.sendEvent("paid", null);
            assertEquals(Arrays.asList(1L, null), taskyard.result(id));
            List<Step> steps = taskyard.steps(id);
            assertEquals(List.of("paid", "again", "late"), steps.stream().map(Step::getName).toList());
            assertTrue(steps.stream().allMatch(step -> step.getKind() == Step.Kind.event));
            Task malformed = taskyard.await(taskyard.submit("work", Map.of("malformed", true)).getTaskId());
            assertTrue(malformed.getError().startsWith("event 'a b': a name has 1 to 256"), malformed.getError());
        }
    }

    private static Task untilParked(Taskyard taskyard, String id) throws InterruptedException {
        var filters = WatchTasksRequest.newBuilder().addTaskIds(id).setIncludeCurrent(true);
        try (Watch watch = taskyard.watch(filters.build())) {
            for (Task.State state = Task.State.queued; state != Task.State.parked; ) {
                var event = watch.next();
                state = event.hasTask() ? event.getTask().getState() : state;
            }
        }
        return taskyard.get(id);
    }

    private static String refused(Runnable call) {
        return assertThrows(TaskyardException.class, call::run).code();
    }
}
