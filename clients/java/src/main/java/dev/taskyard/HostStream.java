package dev.taskyard;

import dev.taskyard.v1.Cancellation;
import dev.taskyard.v1.ConnectRequest;
import dev.taskyard.v1.ConnectResponse;
import dev.taskyard.v1.DeregisterHostRequest;
import dev.taskyard.v1.HeartbeatAck;
import dev.taskyard.v1.Machine;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import dev.taskyard.v1.Welcome;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/**
 * One stream of a host (docs/rules.md, Host stream). The thread of {@link HostRun} writes reports, credit and heartbeats; the
 * threads of gRPC read. Neither waits for the other.
 */
final class HostStream implements ClientResponseObserver<ConnectRequest, ConnectResponse> {
    /** How long the server may take to answer a Hello. */
    private static final long WELCOME = TimeUnit.SECONDS.toNanos(10);

    /** That of a server that names none. */
    private static final long DEFAULT_INTERVAL = TimeUnit.SECONDS.toNanos(20);

    private static final long MIN_INTERVAL = TimeUnit.MILLISECONDS.toNanos(10);
    private static final Logger LOG = System.getLogger("dev.taskyard");

    private final HostRun run;
    private ClientCallStreamObserver<ConnectRequest> call;

    // The lock of the run guards what follows.

    private long helloSentAt;
    private boolean isWelcome;

    /** How the stream has ended, null while it is open. */
    private TaskyardException broke;

    private long interval;
    private long nextHeartbeat;

    /** When the last heartbeat was answered, or the Hello was sent. */
    private long acknowledgedAt;

    private long leaseLength;

    HostStream(HostRun run) {
        this.run = run;
    }

    /** Opens the stream and uses it until it ends. Returns null if the host has left in order, else how the stream broke. */
    TaskyardException use() {
        Machine machine = run.machine();
        run.lock();
        ConnectRequest hello;
        try {
            hello = run.hello(machine);
            helloSentAt = run.now();
        } finally {
            run.unlock();
        }
        run.calls.stub(RuntimeHostServiceGrpc::newStub).connect(this);
        call.onNext(hello);
        try {
            return exchange();
        } finally {
            run.lock();
            try {
                run.connected = null;
                broke = broke == null ? unavailable("the host has closed the stream") : broke;
                run.session.streamClosed(run.now());
            } finally {
                run.unlock();
            }
            call.cancel("the host has closed the stream", null);
        }
    }

    // What the server sends, on threads of gRPC

    @Override
    public void beforeStart(ClientCallStreamObserver<ConnectRequest> call) {
        this.call = call;
        call.setOnReadyHandler(this::wake);
    }

    @Override
    public void onNext(ConnectResponse message) {
        List<Handlers.Run> begun = List.of();
        run.lock();
        try {
            if (broke == null) {
                begun = received(message);
                run.emitter.retry();
                run.wake();
            }
        } finally {
            run.unlock();
        }
        run.execute(begun);
    }

    @Override
    public void onError(Throwable failed) {
        ended(TaskyardException.of(failed));
    }

    @Override
    public void onCompleted() {
        ended(unavailable("the server ended the stream"));
    }

    private void wake() {
        run.lock();
        run.wake();
        run.unlock();
    }

    private void ended(TaskyardException reason) {
        run.lock();
        try {
            broke = broke == null ? reason : broke;
            run.wake();
        } finally {
            run.unlock();
        }
    }

    /** Handles one message, under the lock. Returns the handlers that begin. */
    private List<Handlers.Run> received(ConnectResponse message) {
        if (!isWelcome) {
            if (message.hasWelcome()) {
                welcomed(message.getWelcome());
            } else {
                broke = unavailable("the server's first word was no welcome");
            }
            return List.of();
        }
        if (message.hasAcknowledgedHeartbeat()) {
            acknowledged(HeartbeatAck.newBuilder().setSequence(message.getAcknowledgedHeartbeat()).build());
        }
        List<Handlers.Run> begun = List.of();
        if (message.getAcceptedReports() != 0) {
            // What is counted comes before the message.
            run.doDue();
            begun = run.prepared(run.session.reportsAccepted(message.getAcceptedReports()));
        }
        switch (message.getMessageCase()) {
            case ASSIGNMENTS -> message.getAssignments().getAssignmentsList().forEach(run.session::taskAssigned);
            case REPORT_RESULTS -> {
                run.doDue();
                var changes = run.session.reportsAnswered(message.getReportResults());
                run.stopLost(changes.stop());
                begun = Stream.concat(begun.stream(), run.prepared(changes.begin()).stream()).toList();
            }
            case OUTPUT_ACKS -> run.stopLost(run.session.outputAnswered(message.getOutputAcks(), run.now()));
            case HEARTBEAT_ACK -> acknowledged(message.getHeartbeatAck());
            case HEARTBEAT_INTERVAL -> {
                interval = intervalOf(message.getHeartbeatInterval().getHeartbeatIntervalMs(), interval);
                nextHeartbeat = run.now();
            }
            case CANCELLATIONS -> message.getCancellations().getCancellationsList().forEach(this::cancelled);
            case DRAIN -> run.drainRequested(message.getDrain());
            default -> {
                // Of a newer server, or nothing but what is counted.
            }
        }
        return begun;
    }

    private void acknowledged(HeartbeatAck ack) {
        acknowledgedAt = run.now();
        run.stopLost(run.session.heartbeatAcknowledged(ack));
    }

    private void welcomed(Welcome welcome) {
        isWelcome = true;
        run.artifacts.maxPayloadBytes = welcome.getMaxPayloadBytes();
        run.stopLost(run.session.streamOpened(welcome, helloSentAt));
        interval = intervalOf(welcome.getHeartbeatIntervalMs(), DEFAULT_INTERVAL);
        leaseLength = TimeUnit.SECONDS.toNanos(Integer.toUnsignedLong(welcome.getLeaseSecs()));
        acknowledgedAt = helloSentAt;
        nextHeartbeat = run.now() + interval;
        run.connected = this;
        run.loggedCode = "";
        run.renewed = false;
        LOG.log(Level.INFO, "host {0} is connected by {1}: {2} leases kept, {3} lost",
                run.id, welcome.getSession(), welcome.getKeptCount(), welcome.getLostCount());
    }

    private void cancelled(Cancellation cancellation) {
        String task = cancellation.getTaskId();
        LOG.log(Level.DEBUG, "task {0} is to be stopped: {1}", task, cancellation.getMessage());
        run.handlers.stop(run.session.taskCancelled(cancellation), cancellation.getReason().name());
    }

    // What the host sends, on the thread of the run

    /** Writes until the stream ends. Returns null if the host has left in order, else how the stream broke. */
    private TaskyardException exchange() {
        while (true) {
            boolean beats;
            List<ConnectRequest> messages = List.of();
            run.lock();
            try {
                run.doDue();
                if (run.isOver()) {
                    return null;
                } else if (broke != null) {
                    return broke;
                }
                long silentAt = silentAt();
                if (run.now() > silentAt) {
                    return unavailable(isWelcome ? "no heartbeat was answered in time" : "no answer to the hello");
                }
                boolean isReady = isWelcome && call.isReady();
                beats = isReady && run.now() >= (run.session.heartbeatMayRide() ? ridesFrom() : nextHeartbeat);
                if (isReady && !beats) {
                    messages = run.session.nextMessages(null);
                    if (messages.isEmpty() && run.session.isDraining() && run.session.isFinished()) {
                        break;
                    }
                }
                if (!beats && messages.isEmpty()) {
                    run.await(isReady ? Math.min(nextHeartbeat, silentAt + 1) : silentAt + 1);
                    continue;
                }
            } finally {
                run.unlock();
            }
            (beats ? beat() : messages).forEach(this::write);
        }
        leave();
        return null;
    }

    /** When the stream is given up: no Welcome has come, or no heartbeat was answered for an interval and a lease. */
    private long silentAt() {
        return isWelcome ? acknowledgedAt + interval + leaseLength : helloSentAt + WELCOME;
    }

    /** When a heartbeat may come with reports: in the last quarter of its interval, so that a busy host writes none alone. */
    private long ridesFrom() {
        return nextHeartbeat - interval / 4;
    }

    /** The messages to write now, with a heartbeat. */
    private List<ConnectRequest> beat() {
        Machine machine = run.machine();
        run.lock();
        try {
            nextHeartbeat = run.now() + interval;
            return run.session.nextMessages(
                    run.session.nextHeartbeat(run.now(), machine, run.handlers::tokensUsed));
        } finally {
            run.unlock();
        }
    }

    private void write(ConnectRequest message) {
        if (!send(message)) {
            return;
        }
        List<Handlers.Run> begun;
        run.lock();
        try {
            // What lay in a buffer while the process stood still may be over by now (docs/rules.md, Stalls).
            run.doDue();
            begun = run.prepared(run.session.messageWritten(message));
        } finally {
            run.unlock();
        }
        run.execute(begun);
    }

    /** Returns false if the stream has ended, for which the reader has the reason. */
    private boolean send(ConnectRequest message) {
        try {
            call.onNext(message);
            return true;
        } catch (IllegalStateException | StatusRuntimeException over) {
            return false;
        }
    }

    /**
     * Deregisters the host, which the server then does not expect back, and ends the stream. Both calls of a leaving host
     * name it by its id alone: after the end of the stream they could reach the next host with that id.
     */
    private void leave() {
        try {
            if (run.drainCall != null) {
                run.drainCall.get(HostRun.CLOSE.toMillis(), TimeUnit.MILLISECONDS);
            }
            run.calls
                    .stub(RuntimeHostServiceGrpc::newBlockingStub)
                    .withDeadlineAfter(HostRun.CLOSE.toMillis(), TimeUnit.MILLISECONDS)
                    .deregisterHost(DeregisterHostRequest.newBuilder().setHostId(run.id).build());
        } catch (ExecutionException | TimeoutException | StatusRuntimeException failed) {
            LOG.log(Level.DEBUG, "host " + run.id + " stays registered", failed);
        } catch (InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
        run.lock();
        try {
            if (broke == null) {
                call.onCompleted();
            }
            long until = run.now() + HostRun.CLOSE.toNanos();
            while (broke == null && run.now() < until && !Thread.currentThread().isInterrupted()) {
                run.await(until);
            }
        } finally {
            run.unlock();
        }
    }

    private static long intervalOf(int ms, long other) {
        return ms == 0 ? other : Math.max(MIN_INTERVAL, TimeUnit.MILLISECONDS.toNanos(Integer.toUnsignedLong(ms)));
    }

    private static TaskyardException unavailable(String reason) {
        return TaskyardException.of(Status.UNAVAILABLE, reason);
    }
}
