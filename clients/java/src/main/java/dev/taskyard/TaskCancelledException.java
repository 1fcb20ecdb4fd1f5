package dev.taskyard;

import dev.taskyard.v1.Task;

/** Thrown by calls that wait for the output of a task, if it was cancelled. */
public final class TaskCancelledException extends TaskFailedException {
    private static final long serialVersionUID = 1L;

    TaskCancelledException(Task task) {
        super(task);
    }
}
