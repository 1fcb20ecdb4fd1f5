package dev.taskyard;

import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BooleanSupplier;

/**
 * One outage of the server after the other: how long the present one lasts, and how long to wait before the next try.
 *
 * <p>The delays grow from 0.1 s to 1 s, so that calls go on soon after an upgrade of a few seconds. Each is shortened at
 * random by up to a half, so that clients that lost the same server do not come back all at once.
 */
final class Outage {
    private static final long FIRST_DELAY_MS = 100;
    private static final long MAX_DELAY_MS = 1_000;

    /** A namespace that moves to another server is served there within a moment. */
    private static final long MIN_ELSEWHERE_MS = 20;

    private static final long MAX_ELSEWHERE_MS = 50;

    /** Who is told when to come again comes up to this much later, so that not all of them do at once. */
    private static final double MAX_SPREAD = 1.25;

    /** How often to look whether the connection is back. */
    private static final long LOOK_MS = 20;

    private final BooleanSupplier isConnected;
    private final boolean isStream;
    private final long patienceNanos;
    private final long maxDelayMs;
    private long delayMs;
    private long since;
    private boolean lasts;
    /** Whether there was a connection at the end of the last wait: it may have come back during the try after that. */
    private boolean wasConnectedBefore = true;

    /** {@code isConnected} ends a wait that began without a connection. */
    Outage(Duration patience, BooleanSupplier isConnected) {
        this(patience, isConnected, false);
    }

    /** A stream goes on at once, for a first time, if another server serves the namespace. */
    Outage(Duration patience, BooleanSupplier isConnected, boolean isStream) {
        this.isConnected = isConnected;
        this.isStream = isStream;
        patienceNanos = patience.toNanos();
        // A short patience must leave time for several tries.
        maxDelayMs = Math.max(1, Math.min(MAX_DELAY_MS, patience.toMillis() / 4));
        reset();
    }

    /** A call has worked: the outage is over. */
    void reset() {
        lasts = false;
        delayMs = Math.min(FIRST_DELAY_MS, maxDelayMs);
    }

    /**
     * Waits before the next try, or until a lost connection is back.
     *
     * @throws TaskyardException {@code error} once the patience is used up, {@code cancelled} if the thread is interrupted
     */
    void backOff(TaskyardException error) {
        long now = System.nanoTime();
        boolean isFirst = !lasts;
        if (isFirst) {
            lasts = true;
            since = now;
        }
        long leftNanos = since + patienceNanos - now;
        if (leftNanos <= 0) {
            throw error;
        }
        boolean hasAnswered = error.isElsewhere() || error.isTooMany();
        try {
            long until = now + Math.min(delayMsAfter(error, isFirst) * 1_000_000, leftNanos + 1_000_000);
            // A server that answers over its connection is waited for until the end.
            boolean wasConnected = hasAnswered || wasConnectedBefore && isConnected.getAsBoolean();
            for (long left = until - now; left > 0; left = until - System.nanoTime()) {
                Thread.sleep(Math.min(LOOK_MS, left / 1_000_000 + 1));
                if (!wasConnected && isConnected.getAsBoolean()) {
                    break;
                }
            }
            wasConnectedBefore = isConnected.getAsBoolean();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw TaskyardException.of(Status.CANCELLED, "interrupted while the server was unavailable");
        }
    }

    /** How long to wait, in milliseconds, if the patience allows it. */
    long delayMsAfter(TaskyardException error, boolean isFirst) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        if (error.isElsewhere()) {
            return isFirst && isStream ? 0 : random.nextLong(MIN_ELSEWHERE_MS, MAX_ELSEWHERE_MS + 1);
        }
        long delay = Math.round(delayMs * random.nextDouble(0.5, 1));
        delayMs = Math.min(delayMs * 2, maxDelayMs);
        if (!error.isTooMany()) {
            return delay;
        }
        long named = error.retryAfter().orElse(Duration.ZERO).toMillis();
        return Math.max(delay, Math.round(named * random.nextDouble(1, MAX_SPREAD)));
    }
}
