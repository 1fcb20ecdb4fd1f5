package dev.taskyard;

import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskEvent;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceStub;
import dev.taskyard.v1.WatchEnd;
import dev.taskyard.v1.WatchTasksRequest;
import dev.taskyard.v1.WatchTasksResponse;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Queue;

/**
 * The events of the watched tasks, one after the other.
 *
 * <p>After a broken connection the watch continues without a gap or a repeat: each message carries a cursor, from which a
 * new stream resumes. There is no cursor while the current tasks are listed: a new stream then lists them again, and those
 * that were reported before are left out. If the server's log no longer reaches back to the cursor, all tasks are listed
 * again, as events of the kind {@code current}.
 *
 * <p>{@link #hasNext} waits for the next event. Use a watch in one thread only; {@link #close} may be called from any
 * thread.
 */
public final class Watch implements Iterator<TaskEvent>, AutoCloseable {
    private final TaskServiceStub stub;
    private final WatchTasksRequest filters;
    private final Resumption resumption;
    private final Queue<TaskEvent> unread = new ArrayDeque<>();
    /** The current tasks that were reported, by their hash as they stood. */
    private final Map<String, Integer> reported = new HashMap<>();

    /** Whether the current tasks are being listed, so that there is no cursor to resume from. */
    private boolean listing;

    private String resumeFrom;
    private String messageCursor;
    private String cursor;
    private volatile boolean ended;
    private ServerStream<WatchTasksRequest, WatchTasksResponse> stream;
    private volatile boolean closed;

    Watch(TaskServiceStub stub, WatchTasksRequest filters, Resumption resumption) {
        this.stub = stub;
        this.filters = filters;
        this.resumption = resumption;
        listing = filters.getIncludeCurrent();
        resumeFrom = filters.hasCursor() ? filters.getCursor() : null;
        messageCursor = resumeFrom;
        open();
    }

    /**
     * Waits for the next event.
     *
     * @return false once the watch is closed, or all watched tasks have ended if {@code until_ended} is set
     * @throws TaskyardException what the server refuses the watch with; {@code unavailable} after an outage longer than the
     *     client's patience; {@code cancelled} if the thread is interrupted
     */
    @Override
    public boolean hasNext() {
        while (unread.isEmpty() && !ended && !closed) {
            try {
                take(current().next());
            } catch (TaskyardException error) {
                if (closed) {
                    return false;
                }
                recover(error);
            }
        }
        return !unread.isEmpty() && !closed;
    }

    /**
     * The next event, for which it waits.
     *
     * @return the event, with the task just after it, without its {@code params}
     * @throws NoSuchElementException once {@link #hasNext} is false
     * @throws TaskyardException as {@link #hasNext}
     */
    @Override
    public TaskEvent next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the watch has ended");
        }
        TaskEvent event = unread.remove();
        if (event.getKind() == TaskEvent.Kind.current) {
            cursor = null;
        } else if (unread.isEmpty()) {
            cursor = resumeFrom;
        } else {
            // Events of one message share the cursor before it.
            cursor = messageCursor;
        }
        return event;
    }

    /**
     * The position after the last event, at which another watch with the same filters can continue. Events that the server
     * sent in the same message may then come again.
     *
     * @return the cursor; empty before the first event and while the current tasks are listed
     */
    public Optional<String> cursor() {
        return Optional.ofNullable(cursor);
    }

    /** Ends the watch. {@link #hasNext} then returns false, also in a thread that waits in it. */
    @Override
    public void close() {
        closed = true;
        synchronized (this) {
            stream.cancel();
        }
    }

    /** Whether there are no more events. */
    boolean isOver() {
        return ended || closed;
    }

    private synchronized void open() {
        if (stream != null) {
            stream.cancel();
        }
        stream = new ServerStream<>("an event");
        if (!closed) {
            stub.watchTasks(request(), stream);
        }
    }

    private synchronized ServerStream<WatchTasksRequest, WatchTasksResponse> current() {
        return stream;
    }

    private WatchTasksRequest request() {
        WatchTasksRequest.Builder request = filters.toBuilder().clearCursor().clearIncludeCurrent();
        if (listing) {
            request.setIncludeCurrent(true);
        } else if (resumeFrom != null) {
            request.setCursor(resumeFrom);
        }
        return request.build();
    }

    /** Keeps the events of a message that were not reported before. Then the cursor is that of the message. */
    private void take(WatchTasksResponse message) {
        if (message == null) {
            throw TaskyardException.of(Status.UNAVAILABLE, "the server ended the stream");
        }
        messageCursor = resumeFrom;
        for (TaskEvent event : message.getEventsList()) {
            if (event.getKind() == TaskEvent.Kind.current) {
                if (wasReported(event.getTask())) {
                    continue;
                }
            } else {
                endListing();
            }
            unread.add(event);
        }
        if (message.getBookmark()) {
            endListing();
        }
        if (message.hasCursor()) {
            resumeFrom = message.getCursor();
        }
        if (!message.hasEnd()) {
            resumption.works();
        } else if (message.getEnd().getReason() == WatchEnd.Reason.tasks_ended) {
            ended = true;
        } else {
            throw errorOf(message.getEnd());
        }
    }

    private void recover(TaskyardException error) {
        boolean restarts = error.code().equals("cursor_expired");
        resumption.await(error, restarts);
        if (restarts) {
            resumeFrom = null;
            listing = true;
        }
        open();
    }

    /** Whether a current task was reported before the stream broke, and has not changed since. */
    private boolean wasReported(Task task) {
        Integer before = reported.put(task.getTaskId(), task.hashCode());
        return before != null && before == task.hashCode();
    }

    /** All current tasks were listed: from here on the cursor is valid. */
    private void endListing() {
        listing = false;
        reported.clear();
    }

    /** Why the server ends a watch, as the error of a broken stream. */
    private static TaskyardException errorOf(WatchEnd end) {
        Status status = end.getReason() == WatchEnd.Reason.cursor_expired ? Status.OUT_OF_RANGE : Status.UNAVAILABLE;
        return TaskyardException.of(status, end.getMessage());
    }
}
