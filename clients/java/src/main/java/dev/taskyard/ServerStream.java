package dev.taskyard;

import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * One stream of messages of the server. It requests one message at a time, so that a slow reader slows the server down and
 * uses no memory.
 */
final class ServerStream<Q, A> implements ClientResponseObserver<Q, A> {
    /** A stream without a message for so long is dead: the server sends a sign of life every 15 s. */
    private static final long SILENCE_LIMIT_SECS = 45;

    /** An answer, an error, or the end of the stream. */
    private record Arrived<A>(A message, TaskyardException error) {}

    private final BlockingQueue<Arrived<A>> arrived = new LinkedBlockingQueue<>();
    private final String awaited;
    private ClientCallStreamObserver<Q> call;

    /** {@code awaited} says for people what is waited for. */
    ServerStream(String awaited) {
        this.awaited = awaited;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<Q> call) {
        this.call = call;
        call.disableAutoRequestWithInitial(1);
    }

    @Override
    public void onNext(A message) {
        arrived.add(new Arrived<>(message, null));
    }

    @Override
    public void onError(Throwable failed) {
        arrived.add(new Arrived<>(null, TaskyardException.of(failed)));
    }

    @Override
    public void onCompleted() {
        arrived.add(new Arrived<>(null, null));
    }

    /**
     * Waits for the next message; null once the server has ended the stream in order.
     *
     * @throws TaskyardException how it broke; {@code unavailable} after a silence, {@code cancelled} if the thread is
     *     interrupted
     */
    A next() {
        Arrived<A> next;
        try {
            next = arrived.poll(SILENCE_LIMIT_SECS, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw TaskyardException.of(Status.CANCELLED, "interrupted while waiting for " + awaited);
        }
        if (next == null) {
            String silence = "nothing was heard of the server for " + SILENCE_LIMIT_SECS + " s";
            throw TaskyardException.of(Status.UNAVAILABLE, silence);
        } else if (next.error() != null) {
            throw next.error();
        } else if (next.message() != null) {
            call.request(1);
        }
        return next.message();
    }

    void cancel() {
        if (call != null) {
            call.cancel("the stream was closed", null);
        }
        arrived.add(new Arrived<>(null, TaskyardException.of(Status.CANCELLED, "the stream was closed")));
    }
}
