package dev.taskyard;

import dev.taskyard.v1.Attempt;
import dev.taskyard.v1.Task;
import java.util.List;
import java.util.Optional;

/** Thrown by calls that wait for the output of a task, if it did not end as done. */
public class TaskFailedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final transient Task task;

    TaskFailedException(Task task) {
        super("task " + task.getTaskId() + " (" + task.getAction() + ") is " + task.getState()
                + (task.hasError() ? ": " + task.getError() : "")
                + (task.hasReason() ? ": " + task.getReason() : "") + attempts(task));
        this.task = task;
    }

    /** The exception of a task that did not end as done. */
    static TaskFailedException of(Task task) {
        return task.getState() == Task.State.cancelled ? new TaskCancelledException(task) : new TaskFailedException(task);
    }

    private static String attempts(Task task) {
        return task.getAttemptsCount() > 1 ? " (after " + task.getAttemptsCount() + " attempts)" : "";
    }

    /**
     * The task as it ended.
     *
     * @return the message
     */
    public Task task() {
        return task;
    }

    /**
     * The kind of failure, as the host reported it, or {@code timed_out}.
     *
     * @return the code, empty if there is none
     */
    public Optional<String> code() {
        return task.hasCode() ? Optional.of(task.getCode()) : Optional.empty();
    }

    /**
     * Why the task failed, for people.
     *
     * @return the text, empty if there is none
     */
    public String reason() {
        return task.getError();
    }

    /**
     * The attempts of the last run.
     *
     * @return the attempts, oldest first; empty for a task without a retry policy
     */
    public List<Attempt> attempts() {
        return task.getAttemptsList();
    }

    /**
     * Where in the code of the host the last attempt failed.
     *
     * @return the stack trace in the host's language, empty if there is none or the caller may not see it
     */
    public Optional<String> traceback() {
        return task.hasTraceback() ? Optional.of(task.getTraceback()) : Optional.empty();
    }
}
