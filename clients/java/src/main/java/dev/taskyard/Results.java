package dev.taskyard;

import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import dev.taskyard.v1.WaitTaskRequest;
import dev.taskyard.v1.WaitTaskResponse;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** How a client waits for the ends of tasks. */
final class Results {
    /** The longest wait of one WaitTask call. Proxies end calls that are idle for a minute. */
    private static final Duration MAX_WAIT = Duration.ofSeconds(20);

    private final Calls calls;
    private final Artifacts artifacts;
    private final TaskServiceBlockingStub tasks;

    Results(Calls calls, Artifacts artifacts) {
        this.calls = calls;
        this.artifacts = artifacts;
        tasks = calls.stub(TaskServiceGrpc::newBlockingStub);
    }

    Task await(String taskId) {
        while (true) {
            WaitTaskResponse answer = waitFor(taskId, MAX_WAIT);
            if (answer.getEnded()) {
                return artifacts.whole(answer.getTask());
            }
        }
    }

    Optional<Task> await(String taskId, Duration timeout) {
        // The conversion limits longer timeouts to the largest number of nanoseconds.
        long until = System.nanoTime() + TimeUnit.NANOSECONDS.convert(timeout);
        while (true) {
            Duration left = Duration.ofNanos(Math.max(0, until - System.nanoTime()));
            WaitTaskResponse answer = waitFor(taskId, left.compareTo(MAX_WAIT) < 0 ? left : MAX_WAIT);
            if (answer.getEnded()) {
                return Optional.of(artifacts.whole(answer.getTask()));
            }
            if (System.nanoTime() - until >= 0) {
                return Optional.empty();
            }
        }
    }

    /** The output of a task that ended. */
    static Object output(Task ended) {
        if (ended.getState() != Task.State.done) {
            throw TaskFailedException.of(ended);
        }
        return Json.output(ended);
    }

    /** Waits for the output of a task that was submitted for it. {@code cancel} is run if nobody will have it. */
    Object outputOrCancel(String taskId, Runnable cancel) {
        try {
            return output(await(taskId));
        } catch (TaskyardException error) {
            if (error.code().equals("not_found")) {
                throw new TaskLostException(taskId, error);
            }
            if (Thread.interrupted()) {
                try {
                    cancel.run();
                } catch (TaskyardException late) {
                    error.addSuppressed(late);
                } finally {
                    Thread.currentThread().interrupt();
                }
            }
            throw error;
        }
    }

    private WaitTaskResponse waitFor(String taskId, Duration wait) {
        WaitTaskRequest request = WaitTaskRequest.newBuilder()
                .setTaskId(taskId)
                .setTimeoutMs((int) wait.toMillis())
                .build();
        return calls.repeated(() -> calls.timed(tasks, wait).waitTask(request));
    }
}
