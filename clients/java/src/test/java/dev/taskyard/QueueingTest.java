package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.taskyard.v1.After;
import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.Parent;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.Unique;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Keys, predecessors, unique keys and waits for a stop, with a real server. */
@Timeout(60)
class QueueingTest {
    private final Taskyard taskyard = Taskyard.connect(LiveServer.options());

    @AfterEach
    void close() {
        taskyard.close();
    }

    @Test
    void aTaskShowsItsKeysAndPolicies() {
        String first = taskyard.submit("fetch", Map.of()).getTaskId();
        var accepted = taskyard.submit(SubmitTaskRequest.newBuilder()
                .setAction("report")
                .addConcurrencyKeys("site:a")
                .addAfter(first)
                .setAfterPolicy(After.Policy.ended)
                .setUniqueKey("k")
                .setUniqueWhile(Unique.While.live)
                .setOnConflict(Unique.Conflict.replaceQueued)
                .setTarget("page")
                .setOnTargetFailure("continue")
                .setParentId(first)
                .setOnParentEnd(Parent.OnEnd.cancel)
                .build());
        assertFalse(accepted.getExisting());
        Task task = taskyard.get(accepted.getTaskId());
        assertEquals(List.of("site:a"), List.copyOf(task.getConcurrencyKeysList()));
        assertEquals(List.of(first), List.copyOf(task.getAfterList()));
        assertEquals(After.Policy.ended, task.getAfterPolicy());
        assertEquals("k", task.getUniqueKey());
        assertEquals("continue", task.getOnTargetFailure());
        assertEquals(Parent.OnEnd.cancel, task.getOnParentEnd());
    }

    @Test
    void listingsSelectByLabels() {
        String shop = taskyard.submit(SubmitTaskRequest.newBuilder()
                        .setAction("fetch")
                        .putLabels("site", "shop")
                        .build())
                .getTaskId();
        taskyard.submit("fetch", Map.of());
        var filters = ListTasksRequest.newBuilder().setLabels("site in (shop,docs)").build();
        assertEquals(List.of(shop), taskyard.list(filters).map(Task::getTaskId).toList());
    }

    @Test
    void aCancelOfATaskThatNobodyRunsDoesNotWait() {
        String id = taskyard.submit("fetch", Map.of()).getTaskId();
        var answer = taskyard.cancel(
                CancelTaskRequest.newBuilder().setTaskId(id).setWaitMs(50_000).build());
        assertEquals(Task.State.cancelled, answer.getStatus());
    }
}
