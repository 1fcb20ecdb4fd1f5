package dev.taskyard;

import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskEvent;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceStub;
import dev.taskyard.v1.WatchEnd;
import dev.taskyard.v1.WatchTasksRequest;
import dev.taskyard.v1.WatchTasksResponse;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * What happens to tasks, one event after the other, over as many streams as it takes.
 *
 * <p>Each message of a watch carries the cursor to resume from, so a new stream goes on just where the last one broke:
 * nothing is missed, nothing told twice. Only while the current tasks are being told there is no such place; they are then
 * told anew, less those already told. Where the server's log no longer reaches back so far, the watch begins anew with the
 * current tasks, by events of the kind {@code current}.
 *
 * <p>{@link #hasNext} waits for the next event. Use a watch in one thread; {@link #close} may be called from any.
 */
public final class Watch implements Iterator<TaskEvent>, AutoCloseable {
    /** A stream that says nothing for so long is dead: a bookmark comes every 15 s. */
    private static final long QUIET_SECS = 45;

    /** How a stream ends that may be opened again: a server that goes away shows as any of these. */
    private static final Set<String> BROKEN = Set.of("unavailable", "internal", "cancelled", "deadline_exceeded");

    private final TaskServiceStub stub;
    private final WatchTasksRequest asked;
    private final Outage outage;
    private final Runnable reconnect;
    private final Queue<TaskEvent> unread = new ArrayDeque<>();
    private final Map<String, Integer> told = new HashMap<>();
    private boolean telling;
    private String resumeFrom;
    private String messageCursor;
    private String cursor;
    private volatile boolean ended;
    private Stream stream;
    private volatile boolean closed;

    /** {@code reconnect} has the connection made again at once, without the time that gRPC would wait. */
    Watch(TaskServiceStub stub, WatchTasksRequest asked, Outage outage, Runnable reconnect) {
        this.stub = stub;
        this.asked = asked;
        this.outage = outage;
        this.reconnect = reconnect;
        telling = asked.getIncludeCurrent();
        resumeFrom = asked.hasCursor() ? asked.getCursor() : null;
        messageCursor = resumeFrom;
        open();
    }

    /**
     * Waits for the next event; false once all watched tasks have ended, if that was asked for, or the watch was closed.
     *
     * @throws TaskyardException what the server refuses the watch with, {@code unavailable} after an outage longer than the
     *     client's patience
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
            // What the server sent together shares one place.
            cursor = messageCursor;
        }
        return event;
    }

    /**
     * Where another watch with the same filters goes on after the last event; events that the server sent together with it
     * may come again. Empty where there is no such place: before the first event, and while the current tasks are told.
     */
    public Optional<String> cursor() {
        return Optional.ofNullable(cursor);
    }

    /** Ends the watch. Whoever waits for an event is told that there are no more. */
    @Override
    public void close() {
        closed = true;
        synchronized (this) {
            stream.cancel();
        }
    }

    /** Whether it will tell nothing more. */
    boolean isOver() {
        return ended || closed;
    }

    private synchronized void open() {
        if (stream != null) {
            stream.cancel();
        }
        stream = new Stream();
        if (!closed) {
            stub.watchTasks(request(), stream);
        }
    }

    private synchronized Stream current() {
        return stream;
    }

    private WatchTasksRequest request() {
        WatchTasksRequest.Builder request = asked.toBuilder().clearCursor().clearIncludeCurrent();
        if (telling) {
            request.setIncludeCurrent(true);
        } else if (resumeFrom != null) {
            request.setCursor(resumeFrom);
        }
        return request.build();
    }

    /** Keeps the events of a message that were not told yet; then the cursor moves on. */
    private void take(WatchTasksResponse message) {
        messageCursor = resumeFrom;
        for (TaskEvent event : message.getEventsList()) {
            if (event.getKind() == TaskEvent.Kind.current) {
                if (isTold(event.getTask())) {
                    continue;
                }
            } else {
                allTold();
            }
            unread.add(event);
        }
        if (message.getBookmark()) {
            allTold();
        }
        if (message.hasCursor()) {
            resumeFrom = message.getCursor();
        }
        if (!message.hasEnd()) {
            outage.over();
        } else if (message.getEnd().getReason() == WatchEnd.Reason.tasks_ended) {
            ended = true;
        } else {
            throw errorOf(message.getEnd());
        }
    }

    private void recover(TaskyardException error) {
        if (Thread.currentThread().isInterrupted()) {
            throw error;
        }
        if (error.code().equals("cursor_expired")) {
            resumeFrom = null;
            telling = true;
        } else if (!BROKEN.contains(error.code())) {
            throw error;
        }
        outage.bear(error);
        reconnect.run();
        open();
    }

    /** Whether a current task was told already as it stands, before the stream broke. */
    private boolean isTold(Task task) {
        Integer before = told.put(task.getTaskId(), task.hashCode());
        return before != null && before == task.hashCode();
    }

    /** The current tasks are through: from here on the cursor is a place to resume from. */
    private void allTold() {
        telling = false;
        told.clear();
    }

    /** Why the server ends a watch, as what a stream that breaks throws. */
    private static TaskyardException errorOf(WatchEnd end) {
        Status status = end.getReason() == WatchEnd.Reason.cursor_expired ? Status.OUT_OF_RANGE : Status.UNAVAILABLE;
        return TaskyardException.of(status, end.getMessage());
    }

    /** One stream: hands over one message at a time, so that a slow reader slows down the server and not the memory. */
    private static final class Stream implements ClientResponseObserver<WatchTasksRequest, WatchTasksResponse> {
        private final BlockingQueue<Object> arrived = new LinkedBlockingQueue<>();
        private ClientCallStreamObserver<WatchTasksRequest> call;

        @Override
        public void beforeStart(ClientCallStreamObserver<WatchTasksRequest> call) {
            this.call = call;
            call.disableAutoRequestWithInitial(1);
        }

        @Override
        public void onNext(WatchTasksResponse message) {
            arrived.add(message);
        }

        @Override
        public void onError(Throwable failed) {
            arrived.add(TaskyardException.of(failed));
        }

        @Override
        public void onCompleted() {
            arrived.add(TaskyardException.of(Status.UNAVAILABLE, "the server ended the stream"));
        }

        WatchTasksResponse next() {
            Object next;
            try {
                next = arrived.poll(QUIET_SECS, TimeUnit.SECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw TaskyardException.of(Status.CANCELLED, "interrupted while waiting for an event");
            }
            if (next instanceof WatchTasksResponse message) {
                call.request(1);
                return message;
            } else if (next instanceof TaskyardException error) {
                throw error;
            }
            throw TaskyardException.of(Status.UNAVAILABLE, "nothing was heard of the server for " + QUIET_SECS + " s");
        }

        void cancel() {
            if (call != null) {
                call.cancel("the watch was closed", null);
            }
            arrived.add(TaskyardException.of(Status.CANCELLED, "the watch was closed"));
        }
    }
}
