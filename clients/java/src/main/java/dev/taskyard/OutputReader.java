package dev.taskyard;

import dev.taskyard.v1.OutputChunk;
import dev.taskyard.v1.OutputServiceGrpc.OutputServiceStub;
import dev.taskyard.v1.ReadOutputRequest;
import dev.taskyard.v1.ReadOutputResponse;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Queue;

/**
 * What a task has said, one chunk after the other: live or later, the same. After a broken connection it goes on without a
 * gap or a repeat. {@link #dropped} says how much is missing that the server has dropped to make room.
 *
 * <p>{@link #hasNext} waits for the next chunk. Use a reader in one thread only; {@link #close} may be called from any
 * thread.
 */
public final class OutputReader implements Iterator<OutputChunk>, AutoCloseable {
    private final OutputServiceStub stub;
    private final Resumption resumption;
    private final Queue<OutputChunk> unread = new ArrayDeque<>();
    private ReadOutputRequest request;
    private ServerStream<ReadOutputRequest, ReadOutputResponse> stream;
    private long dropped;
    private volatile boolean ended;
    private volatile boolean closed;

    OutputReader(OutputServiceStub stub, ReadOutputRequest request, Resumption resumption) {
        this.stub = stub;
        this.request = request;
        this.resumption = resumption;
        open();
    }

    /**
     * Waits for the next chunk.
     *
     * @return false once all is read, with {@code follow} not before the task has ended; false if the reader is closed
     * @throws TaskyardException what the server refuses with, such as {@code not_found}; {@code unavailable} after an outage
     *     longer than the client's patience; {@code cancelled} if the thread is interrupted
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
                resumption.await(error, false);
                open();
            }
        }
        return !unread.isEmpty() && !closed;
    }

    /**
     * The next chunk, for which it waits.
     *
     * @return the chunk
     * @throws NoSuchElementException once {@link #hasNext} is false
     * @throws TaskyardException as {@link #hasNext}
     */
    @Override
    public OutputChunk next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the output has ended");
        }
        return unread.remove();
    }

    /**
     * How many chunks are missing so far, since the server has dropped them to make room.
     *
     * @return the number, which {@link #hasNext} may change
     */
    public long dropped() {
        return dropped;
    }

    /** Ends the reading. {@link #hasNext} then returns false, also in a thread that waits in it. */
    @Override
    public void close() {
        closed = true;
        synchronized (this) {
            stream.cancel();
        }
    }

    /** Whether there is nothing more. */
    boolean isOver() {
        return ended || closed;
    }

    private synchronized void open() {
        if (stream != null) {
            stream.cancel();
        }
        stream = new ServerStream<>("output");
        if (!closed) {
            stub.readOutput(request, stream);
        }
    }

    private synchronized ServerStream<ReadOutputRequest, ReadOutputResponse> current() {
        return stream;
    }

    private void take(ReadOutputResponse message) {
        if (message == null) {
            ended = true;
            return;
        }
        resumption.works();
        long first = Integer.toUnsignedLong(message.getFirstSequence());
        if (message.getChunksCount() > 0) {
            // The server may still have more than it promises.
            first = Math.min(first, Integer.toUnsignedLong(message.getChunks(0).getSequence()));
        }
        long after = Integer.toUnsignedLong(request.getAfter());
        dropped += Math.max(0, first - 1 - after);
        after = Math.max(Math.max(after, first - 1), Integer.toUnsignedLong(message.getNextAfter()));
        unread.addAll(message.getChunksList());
        request = request.toBuilder().setAfter((int) after).build();
    }
}
