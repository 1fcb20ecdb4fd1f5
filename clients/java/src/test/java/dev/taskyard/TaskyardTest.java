package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.CancelBatchRequest;
import dev.taskyard.v1.ClaimTaskRequest;
import dev.taskyard.v1.CompleteTaskRequest;
import dev.taskyard.v1.FailTaskRequest;
import dev.taskyard.v1.LeaseServiceGrpc;
import dev.taskyard.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.RegisterHostRequest;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The methods of the client, with a real server. */
@Timeout(60)
class TaskyardTest {
    private final TaskyardOptions options = LiveServer.options();
    private final Taskyard taskyard = Taskyard.connect(options);

    @AfterEach
    void close() {
        taskyard.close();
    }

    @Test
    void aTaskHasTheAgentOfTheClientUnlessItNamesOne() {
        var mine = taskyard.submit("echo", Map.of());
        var theirs = taskyard.submit(
                SubmitTaskRequest.newBuilder().setAgentId("bob").setAction("echo").build());
        assertEquals("ann", taskyard.get(mine.getTaskId()).getAgentId());
        assertEquals("bob", taskyard.get(theirs.getTaskId()).getAgentId());
    }

    @Test
    void eachSubmitHasANewKeyUnlessItNamesOne() {
        String first = taskyard.submit("echo", Map.of()).getTaskId();
        String second = taskyard.submit("echo", Map.of()).getTaskId();
        var named = SubmitTaskRequest.newBuilder().setAction("echo").setIdempotencyKey("mine").build();
        assertNotEquals(first, second);
        assertFalse(taskyard.get(first).getIdempotencyKey().isEmpty());
        assertEquals(taskyard.submit(named).getTaskId(), taskyard.submit(named).getTaskId());
    }

    @Test
    void paramsAndResultsArePlainValues() {
        Map<String, Object> params = Map.of("text", "grüß", "n", 3L, "half", 0.5, "list", List.of(true, "x"));
        String id = taskyard.submit("echo", params).getTaskId();
        assertEquals(params, Json.plain(taskyard.get(id).getParams()));
        complete(id, params);
        assertEquals(params, Json.plain(taskyard.await(id).getResult()));
    }

    @Test
    void anErrorHasACodeAReasonAndATimeToTryAgain() {
        var wrong = assertThrows(TaskyardException.class, () -> taskyard.submit("", Map.of()));
        assertEquals("bad_request", wrong.code());
        assertTrue(wrong.reason().contains("action"), wrong.reason());
        assertFalse(wrong.retryable());
        assertEquals("bad_request: " + wrong.reason(), wrong.getMessage());

        // The limit of an agent is 100 queued tasks, that of a batch 50.
        for (int batch = 0; batch < 2; batch++) {
            taskyard.submitBatch(Collections.nCopies(50, held()));
        }
        var full = assertThrows(TaskyardException.class, () -> taskyard.submit("echo", Map.of()));
        assertEquals("queue_full", full.code());
        assertTrue(full.retryable());
        assertTrue(full.retryAfter().isPresent());
        assertEquals("100", full.details().get("queued"));
    }

    @Test
    void theErrorOfARawStubHasACode() {
        LeaseServiceBlockingStub leases = taskyard.stub(LeaseServiceGrpc::newBlockingStub);
        var request = ClaimTaskRequest.newBuilder().setHostId("nobody").build();
        var failed = assertThrows(StatusRuntimeException.class, () -> leases.claimTask(request));
        assertEquals("not_found", TaskyardException.of(failed).code());
    }

    @Test
    void eachTaskOfABatchIsAdmittedByItself() {
        taskyard.submitBatch(Collections.nCopies(50, held()));
        taskyard.submitBatch(Collections.nCopies(49, held()));
        var batch = taskyard.submitBatch(List.of(held(), held()));
        assertEquals(1, batch.getSubmitted());
        assertEquals("queue_full", batch.getTasks(1).getError().getCode());
    }

    @Test
    void aBatchIsReadAndCancelledAsAWhole() {
        var batch = taskyard.submitBatch(Collections.nCopies(3, held()));
        assertEquals(3, taskyard.getBatch(batch.getBatchId()).getTasksCount());
        var request = CancelBatchRequest.newBuilder().setBatchId(batch.getBatchId()).setReason("wrong site");
        assertEquals(3, taskyard.cancelBatch(request.build()));
        assertEquals("wrong site", taskyard.get(batch.getTasks(0).getTaskId()).getReason());
        assertEquals(0, taskyard.cancelBatch(batch.getBatchId()));
        assertTrue(taskyard.getBatch(batch.getBatchId()).getEnded());
    }

    @Test
    void aListReadsPageAfterPage() {
        List<String> ids = IntStream.range(0, 5)
                .mapToObj(n -> taskyard.submit("echo", Map.of("n", n)).getTaskId())
                .toList();
        var inPagesOfTwo = ListTasksRequest.newBuilder().setAgentId("ann").setPageSize(2).build();
        assertEquals(ids, taskyard.list(inPagesOfTwo).map(Task::getTaskId).toList());
        assertEquals(ids.subList(0, 1), taskyard.list(inPagesOfTwo).map(Task::getTaskId).limit(1).toList());
    }

    @Test
    void aWaitEndsWithTheTaskOrAtItsTimeout() {
        String id = taskyard.submit("echo", Map.of()).getTaskId();
        assertTrue(taskyard.await(id, Duration.ofMillis(50)).isEmpty());
        CompletableFuture<Task> ended = CompletableFuture.supplyAsync(() -> taskyard.await(id));
        taskyard.cancel(id);
        assertEquals(Task.State.STATE_CANCELLED, ended.join().getState());
        assertTrue(taskyard.await(id, Duration.ZERO).isPresent());
    }

    @Test
    void aTaskThatHasEndedCannotBeCancelled() {
        String id = taskyard.submit("echo", Map.of()).getTaskId();
        assertEquals(Task.State.cancelled, taskyard.cancel(id));
        assertEquals("conflict", codeOf(() -> taskyard.cancel(id)));
        assertEquals("not_found", codeOf(() -> taskyard.cancel("tsk_unknown")));
    }

    @Test
    void aFailedTaskIsResumedOrResolved() {
        String id = taskyard.submit("echo", Map.of()).getTaskId();
        fail(id);
        assertEquals(Task.State.queued, taskyard.resume(id));
        fail(id);
        assertEquals(Task.State.done, taskyard.resolve(id, List.of("by", "hand")));
        assertEquals(List.of("by", "hand"), Json.plain(taskyard.get(id).getResult()));
    }

    @Test
    void aRunningTaskIsPaused() {
        String id = taskyard.submit("echo", Map.of()).getTaskId();
        claim(id);
        assertEquals(Task.State.paused, taskyard.pause(id));
        assertEquals(1, taskyard.stats().getQueue().getTotalPaused());
    }

    @Test
    void namespacesDoNotSeeEachOther() {
        String id = taskyard.submit("echo", Map.of()).getTaskId();
        try (Taskyard elsewhere = Taskyard.connect(options.withNamespace(options.namespace() + "-other"))) {
            assertEquals("not_found", codeOf(() -> elsewhere.get(id)));
        }
    }

    @Test
    void aCallOfAClosedClientFailsAtOnce() {
        taskyard.close();
        long began = System.nanoTime();
        assertEquals("cancelled", codeOf(() -> taskyard.get("tsk_any")));
        assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(5));
    }

    @Test
    void theTokenIsNotPrinted() {
        assertFalse(options.withToken("secret").toString().contains("secret"));
    }

    private static BatchTask held() {
        return BatchTask.newBuilder().setAction("echo").setHold(true).build();
    }

    private static String codeOf(Runnable call) {
        return assertThrows(TaskyardException.class, call::run).code();
    }

    private long claim(String taskId) {
        taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub)
                .registerHost(RegisterHostRequest.newBuilder().setHostId("plain").build());
        var claimed = leases().claimTask(
                ClaimTaskRequest.newBuilder().setHostId("plain").setWaitMs(5_000).build());
        assertEquals(taskId, claimed.getTaskId());
        return (long) claimed.getFencingToken();
    }

    private void complete(String taskId, Object result) {
        leases().completeTask(CompleteTaskRequest.newBuilder()
                .setHostId("plain")
                .setFencingToken(claim(taskId))
                .setTaskId(taskId)
                .setResult(Json.value(result))
                .build());
    }

    private void fail(String taskId) {
        leases().failTask(FailTaskRequest.newBuilder()
                .setHostId("plain")
                .setFencingToken(claim(taskId))
                .setTaskId(taskId)
                .setError("no luck")
                .build());
    }

    private LeaseServiceBlockingStub leases() {
        return taskyard.stub(LeaseServiceGrpc::newBlockingStub);
    }
}
