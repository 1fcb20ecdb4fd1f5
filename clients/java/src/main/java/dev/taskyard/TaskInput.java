package dev.taskyard;

import dev.taskyard.v1.Task;

/** A task whose result is handed on to another one, as it stood when that was handed out, see {@link RunningTask#inputs}. */
public final class TaskInput {
    private final Task task;
    private final HostArtifacts.Held held;

    TaskInput(Task task, HostArtifacts.Held held) {
        this.task = task;
        this.held = held;
    }

    /**
     * What is handed on of the task: its id, state, result or output, error and artifacts. One that failed or was cancelled
     * has no result. The state of one that the server has forgotten is {@code unspecified}.
     *
     * @return the message, in which all other fields are absent
     */
    public Task task() {
        return task;
    }

    /**
     * What the task returned, whatever its size: whole numbers have all of their digits.
     *
     * @return a plain value, null if there is none
     * @throws IllegalArgumentException if it has an encoding, or is not JSON
     */
    public Object value() {
        return Json.output(task);
    }

    /**
     * Reads an artifact of the task.
     *
     * @param name the name of the artifact
     * @return its bytes
     * @throws TaskyardException {@code not_found}, {@code lease_lost}, {@code cancelled} if the handler is to stop
     */
    public byte[] readArtifact(String name) {
        return held.read(name);
    }
}
