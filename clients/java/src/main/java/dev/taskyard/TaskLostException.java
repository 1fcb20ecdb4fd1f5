package dev.taskyard;

/**
 * Thrown by {@link Taskyard#run} if the server no longer knows the task that it accepted: it was started anew without a store,
 * or has forgotten the task, which ended. Its code is {@code not_found}.
 */
public final class TaskLostException extends TaskyardException {
    private static final long serialVersionUID = 1L;

    TaskLostException(String taskId, Throwable cause) {
        super("task " + taskId + " is lost: the server was started anew without a store, or keeps it no longer", cause);
    }
}
