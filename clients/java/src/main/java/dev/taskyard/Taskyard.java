package dev.taskyard;

import dev.taskyard.v1.BatchServiceGrpc;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.GetBatchRequest;
import dev.taskyard.v1.GetBatchResponse;
import dev.taskyard.v1.GetStatsRequest;
import dev.taskyard.v1.GetStatsResponse;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.ListTasksResponse;
import dev.taskyard.v1.OutputServiceGrpc;
import dev.taskyard.v1.ReadOutputRequest;
import dev.taskyard.v1.StatsServiceGrpc;
import dev.taskyard.v1.StatsServiceGrpc.StatsServiceBlockingStub;
import dev.taskyard.v1.SubmitBatchRequest;
import dev.taskyard.v1.SubmitBatchResponse;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
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
import java.util.function.Function;
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
public final class Taskyard extends RunCalls implements AutoCloseable {
    private final TaskyardOptions options;
    private final StatsServiceBlockingStub figures;
    private final Artifacts artifacts;
    private final LargeParams submissions;
    private final Results results;
    private final Set<Watch> watches = ConcurrentHashMap.newKeySet();
    private final Set<OutputReader> readers = ConcurrentHashMap.newKeySet();

    private Taskyard(TaskyardOptions options) {
        super(new Calls(options));
        this.options = options;
        figures = calls.stub(StatsServiceGrpc::newBlockingStub);
        artifacts = new Artifacts(calls);
        submissions = new LargeParams(new Submitter(calls, options.timeout()), calls, artifacts);
        results = new Results(calls, artifacts);
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

    /**
     * The artifacts of tasks: values of any size under names.
     *
     * @return the calls that read and attach them
     */
    public Artifacts artifacts() {
        return artifacts;
    }

    /** How the client makes its calls. */
    Calls calls() {
        return calls;
    }

    /** Ends all calls and watches, then closes the connection. */
    @Override
    public void close() {
        calls.close(() -> {
            watches.forEach(Watch::close);
            readers.forEach(OutputReader::close);
        });
    }

    // Submitting

    /**
     * Submits one task of the client's agent, as {@link #submit(SubmitTaskRequest)} does.
     *
     * @param action the kind of action to run
     * @param params the parameters of the action, a map of plain values, see {@link Json}
     * @return the acceptance, with the id of the task
     * @throws IllegalArgumentException if the params are not plain, or have a whole number beyond 2<sup>53</sup>
     */
    public SubmitTaskResponse submit(String action, Map<String, ?> params) {
        return submit(SubmitTaskRequest.newBuilder()
                .setAction(action)
                .setParams(Json.struct(params))
                .build());
    }

    /**
     * Submits one task of the client's agent whose whole numbers count to the last digit.
     *
     * @param action the kind of action to run
     * @param input the input of the action
     * @return the acceptance, with the id of the task
     * @throws IllegalArgumentException if the input is not plain
     */
    public SubmitTaskResponse submit(String action, Exact input) {
        return submit(input.putInto(SubmitTaskRequest.newBuilder().setAction(action)).build());
    }

    /**
     * Submits one task. Without an {@code agent_id} it gets the client's agent. Without an {@code idempotency_key} it gets a
     * random one, so that the task is made once however often the connection breaks. In the thread of a handler it gets the
     * handler's task as its {@code parent_id} unless it has one.
     *
     * <p>Tasks that are submitted by many threads at the same time share a stream. Params of more than 256 KiB become an
     * artifact of the task, and its handler sees the value.
     *
     * @param task the task
     * @return the acceptance, with the id of the task
     * @throws TaskyardException {@code queue_full}, {@code too_large} for params that are too large for an artifact too, or
     *     where the server keeps none, {@code already_exists} if another task has the key, {@code not_found} for a task in {@code after}; after {@code unavailable} the task may exist
     */
    public SubmitTaskResponse submit(SubmitTaskRequest task) {
        SubmitTaskRequest.Builder request = task.toBuilder();
        if (request.getAgentId().isEmpty()) {
            request.setAgentId(options.agentId());
        }
        if (request.getIdempotencyKey().isEmpty()) {
            request.setIdempotencyKey(newKey());
        }
        if (!request.hasParentId()) {
            RunningTask.current().ifPresent(parent -> request.setParentId(parent.id()));
        }
        return submissions.submit(request.build(), !task.getIdempotencyKey().isEmpty());
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
     * @throws TaskyardException {@code batch_too_large}, {@code too_large} for the params of a task, which {@link
     *     #submit(SubmitTaskRequest)} takes, {@code bad_request} if any task is malformed; then no task was submitted
     */
    public SubmitBatchResponse submitBatch(SubmitBatchRequest batch) {
        SubmitBatchRequest.Builder request = batch.toBuilder();
        if (request.getAgentId().isEmpty()) {
            request.setAgentId(options.agentId());
        }
        for (BatchTask.Builder task : request.getTasksBuilderList()) {
            if (task.getIdempotencyKey().isEmpty()) {
                task.setIdempotencyKey(newKey());
            }
            if (!task.hasParentId()) {
                RunningTask.current().ifPresent(parent -> task.setParentId(parent.id()));
            }
        }
        SubmitBatchRequest complete = request.build();
        Calls.Answered<SubmitBatchResponse> answered;
        try {
            answered = calls.repeatedInDoubt(() -> calls.timed(batches).submitBatch(complete));
        } catch (TaskyardException error) {
            throw LargeParams.ofBatch(error);
        }
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
     * Waits until a task has ended, without a limit.
     *
     * @param taskId the task
     * @return the task as it ended; a result that is an artifact, since it is too large for a message, is its {@code output}
     * @throws TaskyardException {@code not_found}
     */
    public Task await(String taskId) {
        return results.await(taskId);
    }

    /**
     * Waits until a task has ended.
     *
     * @param taskId the task
     * @param timeout how long to wait at most
     * @return the task as it ended, as of {@link #await(String)}; empty if it has not ended within the timeout
     * @throws TaskyardException {@code not_found}
     */
    public Optional<Task> await(String taskId, Duration timeout) {
        return results.await(taskId, timeout);
    }

    /**
     * Waits until a task has ended, without a limit, and returns its output.
     *
     * @param taskId the task
     * @return its output or result as a plain value, null if it has none
     * @throws TaskFailedException if it did not end as done; a {@link TaskCancelledException} if it was cancelled
     * @throws TaskyardException {@code not_found}
     */
    public Object result(String taskId) {
        return Results.output(results.await(taskId));
    }

    /**
     * Submits one task of the client's agent and returns its output, as {@link #run(SubmitTaskRequest)} does.
     *
     * @param action the kind of action to run
     * @param params the parameters of the action, a map of plain values, see {@link Json}
     * @return its output or result as a plain value, null if it has none
     * @throws TaskFailedException if it did not end as done
     */
    public Object run(String action, Map<String, ?> params) {
        return run(SubmitTaskRequest.newBuilder().setAction(action).setParams(Json.struct(params)).build());
    }

    /**
     * Submits one task, waits until it has ended, without another limit than its deadline, and returns its output. If the
     * thread is interrupted meanwhile, the task is cancelled, unless it had its unique key before ({@code existing}).
     *
     * @param task the task, as for {@link #submit(SubmitTaskRequest)}
     * @return its output or result as a plain value, null if it has none
     * @throws TaskFailedException if it did not end as done; a {@link TaskCancelledException} if it was cancelled
     * @throws TaskLostException if the server no longer knows the task
     */
    public Object run(SubmitTaskRequest task) {
        SubmitTaskResponse accepted = submit(task);
        String taskId = accepted.getTaskId();
        return results.outputOrCancel(taskId, accepted.getExisting() ? () -> {} : () -> cancel(taskId));
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
        Watch watch = new Watch(calls.stub(TaskServiceGrpc::newStub), filters, calls.resumption());
        watches.add(watch);
        if (calls.isClosed()) {
            watch.close();
        }
        return watch;
    }

    /**
     * Reads what a task says, live or later. Close the reader when done.
     *
     * @param request the task; {@code follow} to go on until it has ended, {@code after} to begin behind the {@code sequence}
     *     of a chunk, {@code channels} for these alone
     * @return the reader, which goes on after broken connections
     */
    public OutputReader output(ReadOutputRequest request) {
        calls.checkOpen();
        readers.removeIf(OutputReader::isOver);
        OutputReader reader = new OutputReader(calls.stub(OutputServiceGrpc::newStub), request, calls.resumption());
        readers.add(reader);
        if (calls.isClosed()) {
            reader.close();
        }
        return reader;
    }

    private static String newKey() {
        return UUID.randomUUID().toString();
    }
}
