package dev.taskyard;

import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.ConnectRequest;
import dev.taskyard.v1.Drain;
import dev.taskyard.v1.DrainHostRequest;
import dev.taskyard.v1.DrainHostResponse;
import dev.taskyard.v1.Hello;
import dev.taskyard.v1.Machine;
import dev.taskyard.v1.Report;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One start of a host: it connects, reconnects, and ends. The rules are in {@link HostSession}; the clock is here, a stream
 * in {@link HostStream}.
 *
 * <p>One thread does all that waits: it opens streams, writes to them, sends heartbeats and ends leases in time. The threads
 * of gRPC bring what the server sends, those of the executor run handlers. They meet under one lock.
 */
final class HostRun {
    static final String LEASE_LOST = "lease_lost";
    static final String DRAINING = "draining";

    /** How long the last steps of an orderly end may take. */
    static final Duration CLOSE = Duration.ofSeconds(5);

    static final long NEVER = Long.MAX_VALUE;

    private static final long MAX_DELAY = TimeUnit.SECONDS.toNanos(5);

    /** Shorter, since leases outlive a break for a few seconds only. */
    private static final long MAX_DELAY_WITH_LEASES = TimeUnit.SECONDS.toNanos(1);

    /** How long a host tries to come back in short steps. After that the delays grow with the outage. */
    private static final long PROMPT = TimeUnit.SECONDS.toNanos(3);

    private static final long MIN_PROMPT_DELAY = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long MAX_PROMPT_DELAY = TimeUnit.MILLISECONDS.toNanos(100);

    /** How long a stream must live for the delay after its break to be the shortest again. */
    private static final long STABLE = TimeUnit.SECONDS.toNanos(5);

    /** How long interrupted handlers may take to return while the stream is open, and how long after the run. */
    private static final long INTERRUPT = TimeUnit.SECONDS.toNanos(5);

    private static final long ABANDON = TimeUnit.SECONDS.toNanos(1);

    /** Lets the server interrupt what runs at the end of a drain that it asked for. */
    private static final long DRAIN_SLACK = TimeUnit.SECONDS.toNanos(2);

    /** Who is told when to come again comes up to this much later, so that not all of them do at once. */
    private static final double MAX_SPREAD = 1.25;

    private static final Logger LOG = System.getLogger("dev.taskyard");

    final Calls calls;
    final String id;
    final HostSession session;
    final Emitter emitter;
    final HostArtifacts artifacts;
    final Handlers handlers;
    private final HostOptions options;
    private final Actions actions;
    private final String instance = UUID.randomUUID().toString();
    private final long start = System.nanoTime();
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private Executor executor;

    // The lock guards what follows.

    /** The stream that the server has welcomed; null without one. */
    HostStream connected;

    /** Whether the server has asked for the next stream. */
    boolean reconnects;

    /** Whether the token was read anew since a stream worked last. */
    boolean renewed;

    /** Why the host is not connected, as logged last. */
    String loggedCode = "";

    /** The DrainHost call of a host that drains by itself, null without one. */
    Future<DrainHostResponse> drainCall;

    private long hostInterruptsAt = NEVER;
    private long serverInterruptsAt = NEVER;
    private boolean hasInterrupted;

    /** When the run ends, whatever still runs. */
    private long overAt = NEVER;

    private boolean wasInterrupted;

    HostRun(Calls calls, String id, HostOptions options, Actions actions) {
        this.calls = calls;
        this.id = id;
        this.options = options;
        this.actions = actions;
        session = new HostSession(options.slots());
        emitter = new Emitter(session, lock, this::wake);
        artifacts = new HostArtifacts(calls, id, emitter);
        handlers = new Handlers(actions, artifacts, this::progressed, emitter, this::returned);
    }

    /** @throws TaskyardException if the server refuses the host for good, or the client is closed */
    void run() {
        ExecutorService own = options.executor() == null ? Handlers.threads(id) : null;
        executor = own == null ? options.executor() : own;
        try {
            stayConnected();
        } finally {
            leaveHandlers();
            if (own != null) {
                own.shutdown();
            }
            LOG.log(Level.INFO, "host {0} has left", id);
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Takes no more tasks, and lets those that run go on for the drain grace. */
    void drain() {
        lock();
        try {
            if (connected != null && !session.isDraining()) {
                // The server then hands out nothing more for the credit that it still has. Tasks that cross the call are
                // given back.
                drainCall = calls.stub(RuntimeHostServiceGrpc::newFutureStub)
                        .withDeadlineAfter(CLOSE.toMillis(), TimeUnit.MILLISECONDS)
                        .drainHost(DrainHostRequest.newBuilder().setHostId(id).build());
            }
            LOG.log(Level.INFO, "host {0} drains, {1} tasks run", id, session.active());
            hostInterruptsAt = now() + options.drainGrace().toNanos();
            session.drain();
            changed.signalAll();
        } finally {
            unlock();
        }
    }

    // Time and lock

    /** Nanoseconds since the run began. */
    long now() {
        return System.nanoTime() - start;
    }

    void lock() {
        lock.lock();
    }

    void unlock() {
        lock.unlock();
    }

    // The lock is held in these methods.

    /** Lets the thread of the run look for something to do. */
    void wake() {
        changed.signalAll();
    }

    boolean isOver() {
        return overAt <= now();
    }

    /** Waits until this time, a wake-up, or something that is due, which it does. */
    void await(long until) {
        long next = Math.min(Math.min(until, session.nextRetry()), session.nextExpiry().orElse(NEVER));
        next = Math.min(next, Math.min(overAt, hasInterrupted ? NEVER : interruptsAt()));
        try {
            if (next > now()) {
                changed.awaitNanos(next - now());
            }
        } catch (InterruptedException asked) {
            interrupted();
        }
        doDue();
    }

    /** Ends leases whose time is over, and interrupts what runs past the end of a drain. */
    void doDue() {
        long now = now();
        List<String> expired = handlers.stop(session.expire(now), LEASE_LOST);
        if (!expired.isEmpty()) {
            emitter.retry();
            LOG.log(Level.WARNING, "host {0}: leases were not renewed in time, their handlers are stopped: {1}", id, expired);
        }
        if (!hasInterrupted && interruptsAt() <= now) {
            hasInterrupted = true;
            if (!handlers.isEmpty()) {
                LOG.log(Level.WARNING, "host {0}: tasks still run, they are interrupted and given back: {1}",
                        id, handlers.actions());
            }
            handlers.stopAll(DRAINING);
            overAt = now + INTERRUPT;
        }
    }

    private long interruptsAt() {
        return Math.min(hostInterruptsAt, serverInterruptsAt);
    }

    /** Stops the handlers of leases that have ended. */
    void stopLost(Collection<LeaseKey> keys) {
        List<String> stopped = handlers.stop(keys, LEASE_LOST);
        if (!stopped.isEmpty()) {
            LOG.log(Level.WARNING, "host {0}: leases have ended, their handlers are stopped: {1}", id, stopped);
        }
    }

    /** The server asks the host to drain, or to come again. */
    void drainRequested(Drain drain) {
        LOG.log(Level.INFO, "host {0} is told to drain: {1}", id, drain.getReason());
        if (drain.getReconnect()) {
            // The server shuts down, or another one serves the namespace: it hands out nothing new and ends the stream.
            // Then the host connects again at once, and its tasks go on.
            reconnects = true;
            return;
        }
        serverInterruptsAt = NEVER;
        if (drain.hasDeadline()) {
            var end = Instant.ofEpochSecond(drain.getDeadline().getSeconds(), drain.getDeadline().getNanos());
            long left = Math.max(0, Duration.between(Instant.now(), end).toMillis());
            serverInterruptsAt = now() + TimeUnit.MILLISECONDS.toNanos(left) + DRAIN_SLACK;
        }
        session.drain();
        changed.signalAll();
    }

    ConnectRequest hello(Machine machine) {
        Hello.Builder hello = options.hello()
                .setHostId(id)
                .setInstance(instance)
                .addAllLeases(session.held())
                .addAllActions(actions.names())
                .setMachine(machine)
                .setCountsAccepted(true);
        return ConnectRequest.newBuilder().setHello(hello).build();
    }

    // The lock is not held in these methods.

    /** Runs the handlers of these tasks, which are prepared under the lock. */
    void execute(List<Handlers.Run> begun) {
        Handlers.execute(executor, begun);
    }

    List<Handlers.Run> prepared(List<Assignment> assignments) {
        return handlers.begin(assignments);
    }

    /** The figures of the machine, as the options say. */
    Machine machine() {
        if (options.machine() != null) {
            try {
                Machine machine = options.machine().get();
                if (machine != null) {
                    return machine;
                }
            } catch (RuntimeException failed) {
                LOG.log(Level.WARNING, "host " + id + ": the figures of the machine cannot be read", failed);
            }
        }
        lock();
        try {
            return Machine.newBuilder().setActiveWorkers(session.active()).build();
        } finally {
            unlock();
        }
    }

    private void progressed(Report report) {
        lock();
        try {
            session.progressReported(report);
            wake();
        } finally {
            unlock();
        }
    }

    private void returned(LeaseKey key, Report outcome) {
        lock();
        try {
            handlers.ended(key);
            session.handlerReturned(key, outcome);
            wake();
        } finally {
            unlock();
        }
    }

    /** The thread of the run was interrupted: the first time the host drains, the second time its tasks are interrupted. */
    private void interrupted() {
        if (wasInterrupted) {
            hostInterruptsAt = now();
        } else {
            wasInterrupted = true;
            drain();
        }
    }

    /** Opens one stream after the other, until the host has left or the server refuses it for good. */
    private void stayConnected() {
        long brokeAt = 0;
        for (int tries = 0; !mayLeave(); tries++) {
            long began = now();
            TaskyardException failure = new HostStream(this).use();
            if (failure == null) {
                return;
            }
            calls.checkOpen();
            checkReconnect(failure);
            if (tries == 0 || now() - began > STABLE) {
                tries = 0;
                brokeAt = now();
            }
            backOff(failure, tries == 0, now() - brokeAt);
            // Otherwise a connection that failed would wait for a delay of its own.
            calls.reconnectAtOnce();
        }
    }

    /** Whether the host drains and needs no stream any more. */
    private boolean mayLeave() {
        lock();
        try {
            return isOver() || session.isDraining() && session.active() == 0 && !session.holdsLeases();
        } finally {
            unlock();
        }
    }

    /** @throws TaskyardException if no further stream makes sense */
    private void checkReconnect(TaskyardException failure) {
        lock();
        try {
            switch (failure.code()) {
                case "conflict" -> {
                    if (!"deregistered".equals(failure.details().get("cause"))) {
                        throw failure;
                    }
                    LOG.log(Level.WARNING, "host {0} was deregistered: it stops what runs and registers anew", id);
                    stopLost(session.hostDeregistered());
                }
                case "unauthenticated" -> {
                    if (renewed || !calls.renew()) {
                        throw failure;
                    }
                    renewed = true;
                    logOutage(failure);
                }
                case "bad_request", "permission_denied", "unimplemented" -> throw failure;
                default -> logOutage(failure);
            }
        } finally {
            unlock();
        }
    }

    /** Once for each code in a row. */
    private void logOutage(TaskyardException failure) {
        if (!failure.code().equals(loggedCode)) {
            loggedCode = failure.code();
            LOG.log(Level.WARNING, "host {0} is not connected, trying on: {1}", id, failure.getMessage());
        }
    }

    /** Waits before the next stream. It ends early when the host begins to drain. */
    private void backOff(TaskyardException failure, boolean isFirst, long out) {
        lock();
        try {
            boolean isAsked = isFirst && (reconnects || failure.isElsewhere());
            reconnects = false;
            long limit = session.holdsLeases() ? MAX_DELAY_WITH_LEASES : MAX_DELAY;
            long until = now() + delayAfter(failure, isAsked, out, limit);
            boolean wasDraining = session.isDraining();
            while (now() < until && !isOver() && wasDraining == session.isDraining() && !calls.isClosed()) {
                await(until);
            }
        } finally {
            unlock();
        }
    }

    /**
     * How long a host waits that has been out for some time. Leases outlive a break for a few seconds only, so it is short at
     * first, and grows up to a limit, with full jitter.
     */
    static long delayAfter(TaskyardException failure, boolean isAsked, long out, long limit) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        if (failure.isTooMany() && failure.retryAfter().isPresent()) {
            return Math.round(failure.retryAfter().get().toNanos() * random.nextDouble(1, MAX_SPREAD));
        } else if (isAsked) {
            return 0;
        } else if (out < PROMPT) {
            return random.nextLong(MIN_PROMPT_DELAY, MAX_PROMPT_DELAY);
        }
        return random.nextLong(Math.min(limit, out / 2));
    }

    /** Interrupts the handlers that still run, and waits for them for a moment. */
    private void leaveHandlers() {
        lock();
        try {
            overAt = now();
            handlers.stopAll(DRAINING);
            // Nothing that they say is kept any more, in whatever thread they wait for it.
            session.hostDeregistered();
            emitter.retry();
            long until = now() + ABANDON;
            while (!handlers.isEmpty() && now() < until) {
                try {
                    changed.awaitNanos(until - now());
                } catch (InterruptedException again) {
                    wasInterrupted = true;
                    break;
                }
            }
            if (!handlers.isEmpty()) {
                LOG.log(Level.WARNING, "host {0} leaves without waiting for its handlers: {1}", id, handlers.actions());
            }
        } finally {
            unlock();
        }
    }
}
