package dev.taskyard;

import dev.taskyard.v1.BatchServiceGrpc;
import dev.taskyard.v1.BatchServiceGrpc.BatchServiceBlockingStub;
import dev.taskyard.v1.CancelBatchRequest;
import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.CancelTaskResponse;
import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.PauseTaskRequest;
import dev.taskyard.v1.PauseTaskResponse;
import dev.taskyard.v1.ResolveTaskRequest;
import dev.taskyard.v1.ResumeTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import java.time.Duration;
import java.util.function.Supplier;

/** The commands of a client that interrupt and end tasks. */
abstract sealed class TaskCommands permits RunCalls {
    /** The largest number that a {@code uint32} field holds. */
    private static final long UINT32_MAX = 0xFFFF_FFFFL;

    final Calls calls;
    final TaskServiceBlockingStub tasks;
    final BatchServiceBlockingStub batches;

    TaskCommands(Calls calls) {
        this.calls = calls;
        tasks = calls.stub(TaskServiceGrpc::newBlockingStub);
        batches = calls.stub(BatchServiceGrpc::newBlockingStub);
    }

    /**
     * One task as it stands.
     *
     * @param taskId the task
     * @return the task
     * @throws TaskyardException {@code not_found}
     */
    public Task get(String taskId) {
        GetTaskRequest request = GetTaskRequest.newBuilder().setTaskId(taskId).build();
        return calls.repeated(() -> calls.timed(tasks).getTask(request));
    }

    /**
     * Cancels a task at once.
     *
     * @param taskId the task
     * @return the state of the task
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task has ended
     */
    public Task.State cancel(String taskId) {
        return cancel(CancelTaskRequest.newBuilder().setTaskId(taskId).build()).getStatus();
    }

    /**
     * Cancels a task at once; with {@code cancel_children} also all that its work has submitted and has not ended, what
     * theirs has, and so on. With {@code wait_ms} it waits for the task's host to say that nothing of it runs any more.
     *
     * @param request the task
     * @return the state of the task, with {@code cancel_children} how many further tasks were cancelled, and with {@code
     *     wait_ms} in {@code stopping} whether anything may still run; both are missing where the answer of a try that
     *     succeeded was lost
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task has ended
     */
    public CancelTaskResponse cancel(CancelTaskRequest request) {
        String taskId = request.getTaskId();
        var done = CancelTaskResponse.newBuilder().setTaskId(taskId).setStatus(Task.State.cancelled).build();
        return calls.transition(
                done,
                () -> calls.timed(tasks, Duration.ofMillis(request.getWaitMs())).cancelTask(request),
                () -> get(taskId).getState() == Task.State.cancelled);
    }

    /**
     * Cancels every task of a batch that has not ended.
     *
     * @param batchId the batch
     * @return the number of tasks that were cancelled
     * @throws TaskyardException {@code not_found}
     */
    public int cancelBatch(String batchId) {
        return cancelBatch(CancelBatchRequest.newBuilder().setBatchId(batchId).build());
    }

    /**
     * Cancels every task of a batch that has not ended, as {@link #cancelBatch(String)} does, for a {@code reason}.
     *
     * @param request the batch
     * @return the number of tasks that were cancelled
     * @throws TaskyardException {@code not_found}
     */
    public int cancelBatch(CancelBatchRequest request) {
        return calls.repeated(() -> calls.timed(batches).cancelBatch(request)).getCancelled();
    }

    /**
     * Interrupts a task that is assigned or running. It becomes paused, or failed if it is over its token limit.
     *
     * @param taskId the task
     * @return the state of the task
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task does not run
     */
    public Task.State pause(String taskId) {
        return pause(PauseTaskRequest.newBuilder().setTaskId(taskId).build()).getStatus();
    }

    /**
     * Interrupts a task that is assigned or running. With {@code wait_ms} it waits for the task's host to say that nothing
     * of it runs any more.
     *
     * @param request the task
     * @return the state of the task, and with {@code wait_ms} in {@code stopping} whether anything may still run; that is
     *     missing where the answer of a try that succeeded was lost
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task does not run
     */
    public PauseTaskResponse pause(PauseTaskRequest request) {
        String taskId = request.getTaskId();
        var done = PauseTaskResponse.newBuilder().setTaskId(taskId).setStatus(Task.State.paused).build();
        return calls.transition(
                done,
                () -> calls.timed(tasks, Duration.ofMillis(request.getWaitMs())).pauseTask(request),
                () -> get(taskId).getState() == Task.State.paused);
    }

    /**
     * Queues a paused or failed task again, or releases a held one. The call is not repeated while the server is
     * unavailable: a repeat could resume a new failure.
     *
     * @param taskId the task
     * @return the state of the task: queued or pending
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task is neither paused, failed nor held
     */
    public Task.State resume(String taskId) {
        return resume(ResumeTaskRequest.newBuilder().setTaskId(taskId).build());
    }

    /**
     * Queues a paused or failed task again with a new token limit, as {@link #resume(String)} does with the limit that the
     * task has. A task that failed over its limit needs one above its {@code tokens_used}.
     *
     * @param taskId the task
     * @param tokenLimit the tokens that the task may use from now on, over all its attempts and runs, 0 to 4,294,967,295
     * @return the state of the task: queued or pending
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task is neither paused, failed nor held
     * @throws IllegalArgumentException if the limit is outside that range
     */
    public Task.State resume(String taskId, long tokenLimit) {
        if (tokenLimit < 0 || tokenLimit > UINT32_MAX) {
            throw new IllegalArgumentException("tokenLimit: must be 0 to " + UINT32_MAX + ", is " + tokenLimit);
        }
        return resume(ResumeTaskRequest.newBuilder()
                .setTaskId(taskId)
                .setTokenLimit((int) tokenLimit)
                .build());
    }

    /**
     * Ends a paused or failed task as done.
     *
     * @param taskId the task
     * @param result the result of the task, a plain value, see {@link Json}; null for none
     * @return the state of the task
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task is neither paused nor failed, {@code
     *     too_large} for the result
     * @throws IllegalArgumentException if the result is not plain
     */
    public Task.State resolve(String taskId, Object result) {
        ResolveTaskRequest.Builder request = ResolveTaskRequest.newBuilder().setTaskId(taskId);
        if (result != null) {
            request.setResult(Json.value(result));
        }
        return resolve(request.build());
    }

    /**
     * Ends a paused or failed task as done, as {@link #resolve(String, Object)} does, for a {@code reason}.
     *
     * @param request the task, its result and the reason
     * @return the state of the task
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task is neither paused nor failed, {@code
     *     too_large} for the result
     */
    public Task.State resolve(ResolveTaskRequest request) {
        return transition(
                request.getTaskId(), Task.State.done, () -> calls.timed(tasks).resolveTask(request).getStatus());
    }

    private Task.State resume(ResumeTaskRequest request) {
        return calls.once(() -> calls.timed(tasks).resumeTask(request)).getStatus();
    }

    private Task.State transition(String taskId, Task.State state, Supplier<Task.State> call) {
        return calls.transition(state, call, () -> get(taskId).getState() == state);
    }
}
