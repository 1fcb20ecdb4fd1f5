package dev.taskyard;

import dev.taskyard.v1.BatchServiceGrpc;
import dev.taskyard.v1.BatchServiceGrpc.BatchServiceBlockingStub;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.CancelBatchRequest;
import dev.taskyard.v1.CancelTaskRequest;
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
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
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
 * The client: submit tasks, follow them and end them, over one connection. Safe for use by many threads; close it when
 * done.
 *
 * <p>Requests and answers are the messages of {@code dev.taskyard.v1}; {@link Json} makes their {@code params} and reads
 * their results. A call waits for its answer. Where a repeat is safe, it is repeated while the server is unavailable, for
 * up to {@link TaskyardOptions#patience}.
 *
 * <p>Every method throws {@link TaskyardException} for what the server refuses: beside the codes that it names
 * {@code bad_request}, {@code unauthenticated}, {@code permission_denied}, {@code unavailable}, {@code deadline_exceeded},
 * {@code internal}, and {@code cancelled} once the client is closed or the thread is interrupted.
 */
public final class Taskyard implements AutoCloseable {
    /** How long one WaitTask waits: proxies end calls that are quiet for a minute. */
    private static final Duration WAIT_PIECE = Duration.ofSeconds(20);

    /** A page of tasks holds about 3 MB; a single task may be larger where the server is configured so. */
    private static final int MAX_RECEIVE_BYTES = 8 * 1024 * 1024;

    private static final int CLOSE_SECS = 5;
    private static final Metadata.Key<String> NAMESPACE =
            Metadata.Key.of("taskyard-namespace", Metadata.ASCII_STRING_MARSHALLER);
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final TaskyardOptions options;
    private final ManagedChannel connection;
    private final Channel channel;
    private final TaskServiceBlockingStub tasks;
    private final BatchServiceBlockingStub batches;
    private final StatsServiceBlockingStub figures;
    private final Set<Watch> watches = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    private Taskyard(TaskyardOptions options) {
        this.options = options;
        connection = Grpc.newChannelBuilder(options.address(), options.credentials())
                // The server permits a ping every 10 s; proxies drop connections that are quiet for a minute or more.
                .keepAliveTime(30, TimeUnit.SECONDS)
                .keepAliveTimeout(20, TimeUnit.SECONDS)
                .keepAliveWithoutCalls(true)
                .maxInboundMessageSize(MAX_RECEIVE_BYTES)
                .build();
        Metadata headers = new Metadata();
        headers.put(NAMESPACE, options.namespace());
        if (options.token() != null) {
            headers.put(AUTHORIZATION, "Bearer " + options.token());
        }
        channel = ClientInterceptors.intercept(connection, MetadataUtils.newAttachHeadersInterceptor(headers));
        tasks = TaskServiceGrpc.newBlockingStub(channel);
        batches = BatchServiceGrpc.newBlockingStub(channel);
        figures = StatsServiceGrpc.newBlockingStub(channel);
    }

    /** A client of the server at {@code HOST:PORT}. It connects with its first call. */
    public static Taskyard connect(String address) {
        return connect(TaskyardOptions.of(address));
    }

    /** The same with options. */
    public static Taskyard connect(TaskyardOptions options) {
        return new Taskyard(options);
    }

    /**
     * A stub for what this class does not do, in the client's namespace and name:
     * {@code taskyard.stub(ScheduleServiceGrpc::newBlockingStub)}.
     *
     * <p>Its calls have no time limit and are not repeated; they throw StatusRuntimeException, of which {@link
     * TaskyardException#of} tells the code.
     */
    public <S> S stub(Function<Channel, S> make) {
        return make.apply(channel);
    }

    /** Ends the connection, with all calls and watches. */
    @Override
    public void close() {
        closed = true;
        watches.forEach(Watch::close);
        connection.shutdownNow();
        try {
            connection.awaitTermination(CLOSE_SECS, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    // Submitting

    /** Submits one task of the client's agent: an action and its params. As {@link #submit(SubmitTaskRequest)}. */
    public SubmitTaskResponse submit(String action, Map<String, ?> params) {
        return submit(SubmitTaskRequest.newBuilder()
                .setAction(action)
                .setParams(Json.struct(params))
                .build());
    }

    /**
     * Submits one task. Without an agent it is the client's; without an {@code idempotency_key} it is given one, and is
     * made once, however often the connection breaks.
     *
     * @throws TaskyardException also {@code queue_full}, {@code too_large} for the params, {@code already_exists} for a key
     *     of another task; after {@code unavailable} the task may exist all the same
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
        return repeated(() -> timed(tasks).submitTask(complete)).answer();
    }

    /** Submits several tasks of the client's agent as a batch. As {@link #submitBatch(SubmitBatchRequest)}. */
    public SubmitBatchResponse submitBatch(List<BatchTask> tasks) {
        return submitBatch(SubmitBatchRequest.newBuilder().addAllTasks(tasks).build());
    }

    /**
     * Submits several tasks of one agent, each admitted by itself; the answer says how each fared. Keys as for {@link
     * #submit}.
     *
     * @throws TaskyardException also {@code batch_too_large}, {@code too_large} for the params of a task; then nothing was
     *     submitted, nor where any task is malformed
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
        Answered<SubmitBatchResponse> answered = repeated(() -> timed(batches).submitBatch(complete));
        SubmitBatchResponse answer = answered.answer();
        var accepted = answer.getTasksList().stream().filter(task -> task.hasTaskId() && !task.hasError());
        Optional<String> first = accepted.map(task -> task.getTaskId()).findFirst();
        if (answered.tries() > 1 && first.isPresent()) {
            // The try before may have worked: its batch then holds the tasks, not the one that was answered.
            String holder = get(first.get()).getBatchId();
            return holder.isEmpty() ? answer : answer.toBuilder().setBatchId(holder).build();
        }
        return answer;
    }

    // Looking

    /** One task as it stands. Throws {@code not_found}. */
    public Task get(String taskId) {
        GetTaskRequest request = GetTaskRequest.newBuilder().setTaskId(taskId).build();
        return repeated(() -> timed(tasks).getTask(request)).answer();
    }

    /** The task once it has ended, however long that takes. Throws {@code not_found}. */
    public Task await(String taskId) {
        while (true) {
            WaitTaskResponse answer = waitFor(taskId, WAIT_PIECE);
            if (answer.getEnded()) {
                return answer.getTask();
            }
        }
    }

    /** The task once it has ended; empty if it has not within the time. Throws {@code not_found}. */
    public Optional<Task> await(String taskId, Duration timeout) {
        // The longest there is, for what is longer.
        long until = System.nanoTime() + TimeUnit.NANOSECONDS.convert(timeout);
        while (true) {
            Duration left = Duration.ofNanos(Math.max(0, until - System.nanoTime()));
            WaitTaskResponse answer = waitFor(taskId, left.compareTo(WAIT_PIECE) < 0 ? left : WAIT_PIECE);
            if (answer.getEnded()) {
                return Optional.of(answer.getTask());
            }
            if (System.nanoTime() - until >= 0) {
                return Optional.empty();
            }
        }
    }

    /** The retained tasks that match the request's filters, in order of submission, page after page as they are read. */
    public Stream<Task> list(ListTasksRequest filters) {
        Function<String, ListTasksResponse> page = token -> {
            ListTasksRequest request =
                    token == null ? filters : filters.toBuilder().setPageToken(token).build();
            return repeated(() -> timed(tasks).listTasks(request)).answer();
        };
        return Stream.iterate(
                        page.apply(null),
                        Objects::nonNull,
                        last -> last.hasNextPageToken() ? page.apply(last.getNextPageToken()) : null)
                .flatMap(found -> found.getTasksList().stream());
    }

    /** How a batch stands, with all of its retained tasks. Throws {@code not_found}. */
    public GetBatchResponse getBatch(String batchId) {
        GetBatchRequest.Builder request = GetBatchRequest.newBuilder().setBatchId(batchId);
        GetBatchResponse.Builder whole = null;
        while (true) {
            GetBatchResponse page = repeated(() -> timed(batches).getBatch(request.build())).answer();
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

    /** The figures of the client's namespace. */
    public GetStatsResponse stats() {
        return repeated(() -> timed(figures).getStats(GetStatsRequest.getDefaultInstance()))
                .answer();
    }

    /**
     * What happens to the tasks that match the request's filters, from now on or after its cursor. Broken connections are
     * resumed without gap or repeat, see {@link Watch}. Close it when done.
     */
    public Watch watch(WatchTasksRequest filters) {
        checkOpen();
        watches.removeIf(Watch::isOver);
        Watch watch = new Watch(
                TaskServiceGrpc.newStub(channel), filters, new Outage(options.patience()), this::reconnectAtOnce);
        watches.add(watch);
        if (closed) {
            watch.close();
        }
        return watch;
    }

    // Ending and interrupting

    /** Cancels a task at once. Throws {@code not_found}, and {@code conflict} if it has ended. */
    public Task.State cancel(String taskId) {
        CancelTaskRequest request = CancelTaskRequest.newBuilder().setTaskId(taskId).build();
        return move(taskId, Task.State.cancelled, () -> timed(tasks).cancelTask(request).getStatus());
    }

    /** Cancels every task of a batch that has not ended; how many that were. Throws {@code not_found}. */
    public int cancelBatch(String batchId) {
        CancelBatchRequest request = CancelBatchRequest.newBuilder().setBatchId(batchId).build();
        return repeated(() -> timed(batches).cancelBatch(request)).answer().getCancelled();
    }

    /**
     * Interrupts a task that is assigned or running; it becomes paused, or failed if it is over its token budget. Throws
     * {@code not_found}, and {@code conflict} if it does not run.
     */
    public Task.State pause(String taskId) {
        PauseTaskRequest request = PauseTaskRequest.newBuilder().setTaskId(taskId).build();
        return move(taskId, Task.State.paused, () -> timed(tasks).pauseTask(request).getStatus());
    }

    /**
     * Queues a paused or failed task again, or releases a held one; it becomes queued or pending. It is not repeated by
     * itself: that could resume a new failure. Throws {@code not_found}, and {@code conflict} if the task is neither paused,
     * failed nor held.
     */
    public Task.State resume(String taskId) {
        ResumeTaskRequest request = ResumeTaskRequest.newBuilder().setTaskId(taskId).build();
        return once(() -> timed(tasks).resumeTask(request)).getStatus();
    }

    /**
     * Ends a paused or failed task as done, with a result unless that is null. Throws {@code not_found}, {@code conflict} if
     * it is neither, and {@code too_large} for the result.
     */
    public Task.State resolve(String taskId, Object result) {
        ResolveTaskRequest.Builder request = ResolveTaskRequest.newBuilder().setTaskId(taskId);
        if (result != null) {
            request.setResult(Json.value(result));
        }
        return move(taskId, Task.State.done, () -> timed(tasks).resolveTask(request.build()).getStatus());
    }

    // Calls

    /** What a call answered, and how many tries it took. */
    private record Answered<T>(T answer, int tries) {}

    private WaitTaskResponse waitFor(String taskId, Duration piece) {
        WaitTaskRequest request = WaitTaskRequest.newBuilder()
                .setTaskId(taskId)
                .setTimeoutMs((int) piece.toMillis())
                .build();
        long millis = options.timeout().plus(piece).toMillis();
        return repeated(() -> tasks.withDeadlineAfter(millis, TimeUnit.MILLISECONDS).waitTask(request))
                .answer();
    }

    /** A call that leads a task to a state, after which the same call would be a conflict. */
    private Task.State move(String taskId, Task.State aim, Supplier<Task.State> call) {
        Outage outage = new Outage(options.patience());
        for (int tries = 1; ; tries++) {
            try {
                return once(call);
            } catch (TaskyardException error) {
                if (error.code().equals("unavailable")) {
                    bear(outage, error);
                } else if (tries > 1 && error.code().equals("conflict") && get(taskId).getState() == aim) {
                    // After a lost answer it is the call's own doing.
                    return aim;
                } else {
                    throw error;
                }
            }
        }
    }

    private <T> Answered<T> repeated(Supplier<T> call) {
        Outage outage = new Outage(options.patience());
        for (int tries = 1; ; tries++) {
            try {
                return new Answered<>(once(call), tries);
            } catch (TaskyardException error) {
                if (!error.code().equals("unavailable")) {
                    throw error;
                }
                bear(outage, error);
            }
        }
    }

    private <T> T once(Supplier<T> call) {
        checkOpen();
        try {
            return call.get();
        } catch (StatusRuntimeException failed) {
            // What a call meets when the connection is closed looks like an outage.
            checkOpen();
            throw TaskyardException.of(failed);
        }
    }

    private void bear(Outage outage, TaskyardException error) {
        outage.bear(error);
        reconnectAtOnce();
    }

    /** gRPC would let up to two minutes pass between attempts to connect. */
    private void reconnectAtOnce() {
        connection.resetConnectBackoff();
    }

    private <S extends AbstractStub<S>> S timed(S stub) {
        return stub.withDeadlineAfter(options.timeout().toMillis(), TimeUnit.MILLISECONDS);
    }

    private void checkOpen() {
        if (closed) {
            throw TaskyardException.of(Status.CANCELLED, "the client is closed");
        }
    }

    private static String newKey() {
        return UUID.randomUUID().toString();
    }
}
