package dev.taskyard;

import dev.taskyard.v1.BatchServiceGrpc;
import dev.taskyard.v1.BatchServiceGrpc.BatchServiceBlockingStub;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.CancelBatchRequest;
import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.CancelTaskResponse;
import dev.taskyard.v1.GetBatchRequest;
import dev.taskyard.v1.GetBatchResponse;
import dev.taskyard.v1.GetStatsRequest;
import dev.taskyard.v1.GetStatsResponse;
import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.ListTasksResponse;
import dev.taskyard.v1.PauseTaskRequest;
import dev.taskyard.v1.ResolveTaskRequest;
import dev.taskyard.v1.ResumeTaskRequest;
import dev.taskyard.v1.StatsServiceGrpc;
import dev.taskyard.v1.StatsServiceGrpc.StatsServiceBlockingStub;
import dev.taskyard.v1.SubmitBatchRequest;
import dev.taskyard.v1.SubmitBatchResponse;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import dev.taskyard.v1.WaitTaskRequest;
import dev.taskyard.v1.WaitTaskResponse;
import dev.taskyard.v1.WatchTasksRequest;
import io.grpc.Channel;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * The client: submit tasks, follow them, interrupt and end them, over one connection. It is safe for use by many threads;
 * close it when done.
 *
 * <p>Requests and answers are the messages of {@code dev.taskyard.v1}. {@link Json} creates their {@code params} and reads
 * their results. A call blocks until it is answered, for at most {@link TaskyardOptions#timeout}. A call that is safe to
 * repeat is repeated while the server is unavailable, for at most {@link TaskyardOptions#patience}.
 *
 * <p>Every method throws {@link TaskyardException} if the server refuses the call. Each lists its codes beside those that
 * any call may have: {@code bad_request}, {@code unauthenticated}, {@code permission_denied}, {@code unavailable}, {@code
 * deadline_exceeded}, {@code internal}, and {@code cancelled} if the client is closed or the thread is interrupted.
 */
public final class Taskyard implements AutoCloseable {
    /** The longest wait of one WaitTask call. Proxies end calls that are idle for a minute. */
    private static final Duration MAX_WAIT = Duration.ofSeconds(20);

    /** The largest number that a {@code uint32} field holds. */
    private static final long UINT32_MAX = 0xFFFF_FFFFL;

    private final TaskyardOptions options;
    private final Calls calls;
    private final TaskServiceBlockingStub tasks;
    private final BatchServiceBlockingStub batches;
    private final StatsServiceBlockingStub figures;
    private final Set<Watch> watches = ConcurrentHashMap.newKeySet();

    private Taskyard(TaskyardOptions options) {
        this.options = options;
        calls = new Calls(options);
        tasks = calls.stub(TaskServiceGrpc::newBlockingStub);
        batches = calls.stub(BatchServiceGrpc::newBlockingStub);
        figures = calls.stub(StatsServiceGrpc::newBlockingStub);
    }

    /**
     * Creates a client with the default options. It connects with its first call.
     *
     * @param address where the server is, or several with commas in between, see {@link TaskyardOptions#address}
     * @return the client
     * @throws IllegalArgumentException if the address has another form
     */
    public static Taskyard connect(String address) {
        return connect(TaskyardOptions.of(address));
    }

    /**
     * Creates a client. It connects with its first call.
     *
     * @param options where the server is, and what every call carries
     * @return the client
     * @throws IllegalArgumentException for credentials that cannot be used, for an unknown profile, and for a token that
     *     would leave this machine without encryption
     */
    public static Taskyard connect(TaskyardOptions options) {
        return new Taskyard(options);
    }

    /**
     * Creates a stub with the client's connection, namespace and token, for services without methods here: {@code
     * taskyard.stub(ScheduleServiceGrpc::newBlockingStub)}.
     *
     * <p>Its calls have no timeout and are not repeated. They throw StatusRuntimeException, which {@link
     * TaskyardException#of(io.grpc.StatusRuntimeException)} converts.
     *
     * @param <S> the type of the stub
     * @param factory creates the stub from a channel
     * @return the stub
     */
    public <S> S stub(Function<Channel, S> factory) {
        return calls.stub(factory);
    }

    /** How the client makes its calls. */
    Calls calls() {
        return calls;
    }

    /** Ends all calls and watches, then closes the connection. */
    @Override
    public void close() {
        calls.close(() -> watches.forEach(Watch::close));
    }

    // Submitting

    /**
     * Submits one task of the client's agent, as {@link #submit(SubmitTaskRequest)} does.
     *
     * @param action the kind of action to run
     * @param params the parameters of the action, a map of plain values, see {@link Json}
     * @return the acceptance, with the id of the task
     * @throws IllegalArgumentException if the params are not plain
     */
    public SubmitTaskResponse submit(String action, Map<String, ?> params) {
        return submit(SubmitTaskRequest.newBuilder()
                .setAction(action)
                .setParams(Json.struct(params))
                .build());
    }

    /**
     * Submits one task. Without an {@code agent_id} it gets the client's agent. Without an {@code idempotency_key} it gets a
     * random one, so that the task is made once however often the connection breaks.
     *
     * @param task the task
     * @return the acceptance, with the id of the task
     * @throws TaskyardException {@code queue_full}, {@code too_large} for the params, {@code already_exists} if another
     *     task has the key; after {@code unavailable} the task may exist
     */
    public SubmitTaskResponse submit(SubmitTaskRequest task) {
        SubmitTaskRequest.Builder request = task.toBuilder();
        if (request.getAgentId().isEmpty()) {
            request.setAgentId(options.agent());
        }
        if (request.getIdempotencyKey().isEmpty()) {
            request.setIdempotencyKey(newKey());
        }
        SubmitTaskRequest complete = request.build();
        return calls.repeated(() -> calls.timed(tasks).submitTask(complete));
    }

    /**
     * Submits several tasks of the client's agent as a batch, as {@link #submitBatch(SubmitBatchRequest)} does.
     *
     * @param tasks the tasks, at most the server's {@code maxBatchSize} (50)
     * @return the batch, with one outcome for each task
     */
    public SubmitBatchResponse submitBatch(List<BatchTask> tasks) {
        return submitBatch(SubmitBatchRequest.newBuilder().addAllTasks(tasks).build());
    }

    /**
     * Submits several tasks of one agent as a batch. Each is admitted or refused by itself, see the outcomes; {@link
     * TaskyardException#of(dev.taskyard.v1.Error)} converts their errors. Missing agents and keys are set as for {@link
     * #submit(SubmitTaskRequest)}.
     *
     * @param batch the tasks
     * @return the batch, with one outcome for each task
     * @throws TaskyardException {@code batch_too_large}, {@code too_large} for the params of a task, {@code bad_request} if
     *     any task is malformed; then no task was submitted
     */
    public SubmitBatchResponse submitBatch(SubmitBatchRequest batch) {
        SubmitBatchRequest.Builder request = batch.toBuilder();
        if (request.getAgentId().isEmpty()) {
            request.setAgentId(options.agent());
        }
        for (BatchTask.Builder task : request.getTasksBuilderList()) {
            if (task.getIdempotencyKey().isEmpty()) {
                task.setIdempotencyKey(newKey());
            }
        }
        SubmitBatchRequest complete = request.build();
        var answered = calls.repeatedInDoubt(() -> calls.timed(batches).submitBatch(complete));
        SubmitBatchResponse answer = answered.answer();
        var accepted = answer.getTasksList().stream().filter(task -> task.hasTaskId() && !task.hasError());
        Optional<String> first = accepted.map(task -> task.getTaskId()).findFirst();
        if (answered.inDoubt() && first.isPresent()) {
            // The first try may have succeeded. The tasks then belong to its batch, not to the one of this answer.
            String batchId = get(first.get()).getBatchId();
            return batchId.isEmpty() ? answer : answer.toBuilder().setBatchId(batchId).build();
        }
        return answer;
    }

    // Reading

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
     * Waits until a task has ended, without a limit.
     *
     * @param taskId the task
     * @return the task as it ended
     * @throws TaskyardException {@code not_found}
     */
    public Task await(String taskId) {
        while (true) {
            WaitTaskResponse answer = waitFor(taskId, MAX_WAIT);
            if (answer.getEnded()) {
                return answer.getTask();
            }
        }
    }

    /**
     * Waits until a task has ended.
     *
     * @param taskId the task
     * @param timeout how long to wait at most
     * @return the task as it ended; empty if it has not ended within the timeout
     * @throws TaskyardException {@code not_found}
     */
    public Optional<Task> await(String taskId, Duration timeout) {
        // The conversion limits longer timeouts to the largest number of nanoseconds.
        long until = System.nanoTime() + TimeUnit.NANOSECONDS.convert(timeout);
        while (true) {
            Duration left = Duration.ofNanos(Math.max(0, until - System.nanoTime()));
            WaitTaskResponse answer = waitFor(taskId, left.compareTo(MAX_WAIT) < 0 ? left : MAX_WAIT);
            if (answer.getEnded()) {
                return Optional.of(answer.getTask());
            }
            if (System.nanoTime() - until >= 0) {
                return Optional.empty();
            }
        }
    }

    /**
     * Lists the retained tasks that match all filters of the request, in order of submission unless it says otherwise;
     * with {@code history}, all tasks that the server keeps.
     *
     * @param filters the filters; an absent filter matches all
     * @return the tasks, read page after page as the stream is consumed
     */
    public Stream<Task> list(ListTasksRequest filters) {
        Function<String, ListTasksResponse> page = token -> {
            ListTasksRequest request =
                    token == null ? filters : filters.toBuilder().setPageToken(token).build();
            return calls.repeated(() -> calls.timed(tasks).listTasks(request));
        };
        return Stream.iterate(
                        page.apply(null),
                        Objects::nonNull,
                        last -> last.hasNextPageToken() ? page.apply(last.getNextPageToken()) : null)
                .flatMap(found -> found.getTasksList().stream());
    }

    /**
     * One batch as it stands.
     *
     * @param batchId the batch
     * @return the batch with all of its retained tasks
     * @throws TaskyardException {@code not_found}
     */
    public GetBatchResponse getBatch(String batchId) {
        GetBatchRequest.Builder request = GetBatchRequest.newBuilder().setBatchId(batchId);
        GetBatchResponse.Builder whole = null;
        while (true) {
            GetBatchResponse page = calls.repeated(() -> calls.timed(batches).getBatch(request.build()));
            if (whole == null) {
                whole = page.toBuilder();
            } else {
                whole.addAllTasks(page.getTasksList());
            }
            if (!page.hasNextPageToken()) {
                return whole.setCount(whole.getTasksCount()).clearNextPageToken().build();
            }
            request.setPageToken(page.getNextPageToken());
        }
    }

    /**
     * The figures of the client's namespace.
     *
     * @return the figures
     */
    public GetStatsResponse stats() {
        return calls.repeated(() -> calls.timed(figures).getStats(GetStatsRequest.getDefaultInstance()));
    }

    /**
     * Watches the tasks that match all filters of the request, from now on or after its cursor. Close the watch when done.
     *
     * @param filters the filters; an absent filter matches all
     * @return the watch, which continues after broken connections
     */
    public Watch watch(WatchTasksRequest filters) {
        calls.checkOpen();
        watches.removeIf(Watch::isOver);
        Watch watch = new Watch(
                calls.stub(TaskServiceGrpc::newStub), filters, calls.outage(true), calls::reconnectAtOnce, calls::renew);
        watches.add(watch);
        if (calls.isClosed()) {
            watch.close();
        }
        return watch;
    }

    // Interrupting and ending

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
     * theirs has, and so on.
     *
     * @param request the task
     * @return the state of the task, and with {@code cancel_children} how many further tasks were cancelled; that number is
     *     missing where the answer of a try that succeeded was lost
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task has ended
     */
    public CancelTaskResponse cancel(CancelTaskRequest request) {
        String taskId = request.getTaskId();
        var done = CancelTaskResponse.newBuilder().setTaskId(taskId).setStatus(Task.State.cancelled).build();
        return calls.transition(
                done,
                () -> calls.timed(tasks).cancelTask(request),
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
        CancelBatchRequest request = CancelBatchRequest.newBuilder().setBatchId(batchId).build();
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
        PauseTaskRequest request = PauseTaskRequest.newBuilder().setTaskId(taskId).build();
        return transition(
                taskId, Task.State.paused, () -> calls.timed(tasks).pauseTask(request).getStatus());
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
        ResolveTaskRequest complete = request.build();
        return transition(
                taskId, Task.State.done, () -> calls.timed(tasks).resolveTask(complete).getStatus());
    }

    private Task.State resume(ResumeTaskRequest request) {
        return calls.once(() -> calls.timed(tasks).resumeTask(request)).getStatus();
    }

    private Task.State transition(String taskId, Task.State state, Supplier<Task.State> call) {
        return calls.transition(state, call, () -> get(taskId).getState() == state);
    }

    private WaitTaskResponse waitFor(String taskId, Duration wait) {
        WaitTaskRequest request = WaitTaskRequest.newBuilder()
                .setTaskId(taskId)
                .setTimeoutMs((int) wait.toMillis())
                .build();
        return calls.repeated(() -> calls.timed(tasks, wait).waitTask(request));
    }

    private static String newKey() {
        return UUID.randomUUID().toString();
    }
}
