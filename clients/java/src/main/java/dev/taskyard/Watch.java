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
import java.util.function.BooleanSupplier;

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
    /** A stream without a message for so long is dead: the server sends a bookmark every 15 s. */
    private static final long SILENCE_LIMIT_SECS = 45;

    /** The errors after which a stream is opened again: a server that goes away can cause any of these but the last. */
    private static final Set<String> BREAKS =
            Set.of("unavailable", "internal", "cancelled", "deadline_exceeded", "too_many_requests");

    private final TaskServiceStub stub;
    private final WatchTasksRequest filters;
    private final Outage outage;
    private final Runnable reconnect;
    private final BooleanSupplier renew;
    private final Queue<TaskEvent> unread = new ArrayDeque<>();
    /** The current tasks that were reported, by their hash as they stood. */
    private final Map<String, Integer> reported = new HashMap<>();

    /** Whether the current tasks are being listed, so that there is no cursor to resume from. */
    private boolean listing;

    private String resumeFrom;
    private String messageCursor;
    private String cursor;
    private volatile boolean ended;
    private Stream stream;
    private volatile boolean closed;

    /** Whether the token was read anew since a stream worked last. */
    private boolean renewed;

    /**
     * {@code reconnect} opens the connection again without the delay of gRPC. {@code renew} reads the token anew, and
     * returns whether there may be another one.
     */
    Watch(
            TaskServiceStub stub,
            WatchTasksRequest filters,
            Outage outage,
            Runnable reconnect,
            BooleanSupplier renew) {
        this.renew = renew;
        this.stub = stub;
        this.filters = filters;
        this.outage = outage;
        this.reconnect = reconnect;
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
        stream = new Stream();
        if (!closed) {
            stub.watchTasks(request(), stream);
        }
    }

    private synchronized Stream current() {
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
            outage.reset();
            renewed = false;
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
            listing = true;
        } else if (error.code().equals("unauthenticated") && !renewed && renew.getAsBoolean()) {
            renewed = true;
        } else if (!BREAKS.contains(error.code())) {
            throw error;
        }
        outage.backOff(error);
        reconnect.run();
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

    /** One stream. It requests one message at a time, so that a slow reader slows the server down and uses no memory. */
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
                next = arrived.poll(SILENCE_LIMIT_SECS, TimeUnit.SECONDS);
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
            String silence = "nothing was heard of the server for " + SILENCE_LIMIT_SECS + " s";
            throw TaskyardException.of(Status.UNAVAILABLE, silence);
        }

        void cancel() {
            if (call != null) {
                call.cancel("the watch was closed", null);
            }
            arrived.add(TaskyardException.of(Status.CANCELLED, "the watch was closed"));
        }
    }
}
