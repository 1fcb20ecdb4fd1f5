package dev.taskyard;

import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;

/** How a client makes its calls: over one connection, with its namespace and token, and again where a repeat is safe. */
final class Calls {
    /** A page of tasks has about 3 MB. A single task may be larger if the server is configured so. */
    private static final int MAX_RECEIVE_BYTES = 8 * 1024 * 1024;

    private static final int CLOSE_SECS = 5;

    private final TaskyardOptions options;
    private final Identity identity;
    private final ManagedChannel connection;
    private final Channel channel;
    private volatile boolean closed;

    /** The answer of a call, and whether a try before it may have been carried out. */
    record Answered<T>(T answer, boolean inDoubt) {}

    /** @throws IllegalArgumentException for options that no call can be made with */
    Calls(TaskyardOptions options) {
        this.options = options;
        identity = Identity.of(options);
        connection = Grpc.newChannelBuilder(identity.target(), identity.security())
                // The server permits a ping every 10 s. Proxies drop connections that are idle for a minute or more.
                .keepAliveTime(30, TimeUnit.SECONDS)
                .keepAliveTimeout(20, TimeUnit.SECONDS)
                .keepAliveWithoutCalls(true)
                .maxInboundMessageSize(MAX_RECEIVE_BYTES)
                .defaultServiceConfig(ReplicaResolver.ONE_AT_RANDOM)
                .build();
        channel = ClientInterceptors.intercept(connection, new Identification(identity));
    }

    <S> S stub(Function<Channel, S> factory) {
        return factory.apply(channel);
    }

    boolean isClosed() {
        return closed;
    }

    /** Ends the connection with all of its calls. {@code beforehand} is run once no new call can begin. */
    void close(Runnable beforehand) {
        closed = true;
        beforehand.run();
        connection.shutdownNow();
        try {
            connection.awaitTermination(CLOSE_SECS, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Throws {@code cancelled} once the client is closed. */
    void checkOpen() {
        if (closed) {
            throw TaskyardException.of(Status.CANCELLED, "the client is closed");
        }
    }

    /** The stub for one call, which must be answered within the timeout of the options. */
    <S extends AbstractStub<S>> S timed(S stub) {
        return timed(stub, Duration.ZERO);
    }

    /** The same for a call that the server may hold back for a while before it answers. */
    <S extends AbstractStub<S>> S timed(S stub, Duration heldBack) {
        return stub.withDeadlineAfter(options.timeout().plus(heldBack).toMillis(), TimeUnit.MILLISECONDS);
    }

    /** Makes a call that must not be repeated, unless it was not carried out since another server serves the namespace. */
    <T> T once(Supplier<T> call) {
        return repeated(call, TaskyardException::isElsewhere).answer();
    }

    private <T> T attempt(Supplier<T> call) {
        checkOpen();
        try {
            return call.get();
        } catch (StatusRuntimeException failed) {
            // A call on a connection that was closed meanwhile fails as if the server were unavailable.
            checkOpen();
            throw TaskyardException.of(failed);
        }
    }

    /** Makes a call, again and again while the server is unavailable, or takes no more calls of this caller. */
    <T> T repeated(Supplier<T> call) {
        return repeatedInDoubt(call).answer();
    }

    /** The same, with whether a try before the last may have been carried out. */
    <T> Answered<T> repeatedInDoubt(Supplier<T> call) {
        return repeated(call, this::isOutage);
    }

    private <T> Answered<T> repeated(Supplier<T> call, Predicate<TaskyardException> mayRepeat) {
        Outage outage = outage(false);
        for (boolean inDoubt = false; ; ) {
            try {
                return new Answered<>(attempt(call), inDoubt);
            } catch (TaskyardException error) {
                if (!mayRepeat.test(error)) {
                    throw error;
                }
                backOff(outage, error);
                inDoubt |= !error.isElsewhere() && !error.isTooMany();
            }
        }
    }

    /**
     * Makes a call that brings a task to a state, in which the same call is a conflict. It is repeated while the server is
     * unavailable.
     *
     * @param done the answer where a try has succeeded whose own answer was lost
     * @param isDone whether the task is in that state
     */
    <T> T transition(T done, Supplier<T> call, BooleanSupplier isDone) {
        Outage outage = outage(false);
        for (boolean inDoubt = false; ; ) {
            try {
                return attempt(call);
            } catch (TaskyardException error) {
                if (isOutage(error)) {
                    backOff(outage, error);
                    inDoubt |= !error.isElsewhere() && !error.isTooMany();
                } else if (inDoubt && error.code().equals("conflict") && isDone.getAsBoolean()) {
                    return done;
                } else {
                    throw error;
                }
            }
        }
    }

    /** An outage of this connection, which ends as soon as a lost connection is back. */
    Outage outage(boolean isStream) {
        return new Outage(
                options.patience(), () -> connection.getState(false) == ConnectivityState.READY, isStream);
    }

    /** How a stream of answers goes on after a break. */
    Resumption resumption() {
        return new Resumption(outage(true), this::reconnectAtOnce, this::renew);
    }

    /** Reads the token anew after a refusal. Returns whether there may be another one. */
    boolean renew() {
        return identity.renew();
    }

    /** Whether a call may work later. A server that stops ends some as cancelled. */
    private boolean isOutage(TaskyardException error) {
        boolean isOurs = closed || Thread.currentThread().isInterrupted() || Context.current().isCancelled();
        return error.code().equals("unavailable")
                || error.isTooMany()
                || error.code().equals("cancelled") && !isOurs;
    }

    /** Connects again without a delay. By itself gRPC waits up to two minutes between attempts. */
    void reconnectAtOnce() {
        connection.resetConnectBackoff();
    }

    private void backOff(Outage outage, TaskyardException error) {
        outage.backOff(error);
        reconnectAtOnce();
    }
}
