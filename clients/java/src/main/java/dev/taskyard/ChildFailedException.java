package dev.taskyard;

import dev.taskyard.v1.Task;

/** Thrown by {@link Child#result(Class)} for a child that did not end as done. */
public final class ChildFailedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String name;
    private final String id;
    private final Task.State state;
    private final String reason;

    ChildFailedException(String name, Task ended) {
        this(name, ended.getTaskId(), ended.getState(), ended.hasError() ? ended.getError() : "no reason given");
    }

    private ChildFailedException(String name, String id, Task.State state, String reason) {
        super("the child '" + name + "' (" + id + ") is " + state + ": " + reason);
        this.name = name;
        this.id = id;
        this.state = state;
        this.reason = reason;
    }

    /**
     * Its name among the children of the task.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Its id.
     *
     * @return the id
     */
    public String id() {
        return id;
    }

    /**
     * How it ended.
     *
     * @return failed or cancelled
     */
    public Task.State state() {
        return state;
    }

    /**
     * Why it did.
     *
     * @return a text for people
     */
    public String reason() {
        return reason;
    }
}
