package dev.taskyard;

import dev.taskyard.v1.Task;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeoutException;

/** A child of a running task, see {@link RunningTask#child(String, dev.taskyard.v1.SubmitTaskRequest)}. */
public final class Child {
    private static final Set<Task.State> ENDS =
            Set.of(Task.State.done, Task.State.failed, Task.State.cancelled, Task.State.rejected);

    private final ResumableTask parent;
    private final String name;
    private final String id;

    Child(ResumableTask parent, String name, String id) {
        this.parent = parent;
        this.name = name;
        this.id = id;
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
     * Its id, for {@link RunningTask#join}, and for what a task comes after or is handed.
     *
     * @return the id
     */
    public String id() {
        return id;
    }

    /**
     * What it returned, as {@link #result(Class, Duration)} without a limit.
     *
     * @param <T> the type
     * @param type the type of the result: a plain one, see {@link Json}; {@code Object.class} for any
     * @return the result, null if there is none
     * @throws InterruptedException if the handler is to stop
     * @throws ChildFailedException if it failed or was cancelled
     * @throws Parked if it has not ended yet
     */
    public <T> T result(Class<T> type) throws InterruptedException {
        try {
            return result(type, null);
        } catch (TimeoutException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /**
     * What it returned, whatever the size. Until it has ended the task is parked, as by {@link RunningTask#join}.
     *
     * <p>It may be called again, after a timeout too, and by several threads: the waits of a run are named {@code child NAME},
     * {@code child NAME 2} and so on, in the order in which they begin, by which a later run finds them again. Threads whose
     * order may differ, and which have different limits, wait by {@link RunningTask#join} under names of their own first.
     *
     * @param <T> the type
     * @param type the type of the result: a plain one, see {@link Json}, such as {@code Map.class} or {@code String.class};
     *     {@code Object.class} for any
     * @param timeout how long to wait at most, up to 366 days; null for as long as it takes
     * @return the result, null if there is none
     * @throws InterruptedException if the handler is to stop
     * @throws ChildFailedException if it failed or was cancelled
     * @throws Parked if it has not ended yet
     * @throws TimeoutException if it has not ended in time
     * @throws TaskyardException {@code lease_lost}, {@code cancelled} if the handler is to stop
     * @throws IllegalArgumentException if the result is not of this type
     */
    public <T> T result(Class<T> type, Duration timeout) throws InterruptedException, TimeoutException {
        parent.check();
        TaskInput found = parent.children().fetch(name);
        while (!ENDS.contains(found.task().getState())) {
            try {
                parent.join(List.of(id), parent.steps().waits.nameOf(name), timeout);
            } catch (TimeoutException late) {
                // Without a limit it is another thread's wait, whose place this one has in this run.
                if (timeout != null) {
                    throw late;
                }
            }
            found = parent.children().fetch(name);
        }
        if (found.task().getState() != Task.State.done) {
            throw new ChildFailedException(name, found.task());
        }
        try {
            return type.cast(HeldSteps.converted(found.value(), type));
        } catch (IllegalArgumentException unfit) {
            throw new IllegalArgumentException("child '" + name + "': its result does not fit: " + unfit.getMessage(), unfit);
        }
    }
}
