package dev.taskyard;

import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How long something has not worked, and whether that is longer than the caller has patience for.
 *
 * <p>The delays between tries grow from 0.1 s to 3 s, each shortened at random by up to a half, so that clients that lost
 * the same server do not come back all at once.
 */
final class Outage {
    private static final long FIRST_DELAY_MS = 100;
    private static final long MAX_DELAY_MS = 3_000;

    private final long patienceNanos;
    private final long mostMs;
    private long delayMs;
    private long since;
    private boolean lasts;

    Outage(Duration patience) {
        patienceNanos = patience.toNanos();
        // However short the patience, there is room for several tries.
        mostMs = Math.max(1, Math.min(MAX_DELAY_MS, patience.toMillis() / 4));
        over();
    }

    /** It works. */
    void over() {
        lasts = false;
        delayMs = Math.min(FIRST_DELAY_MS, mostMs);
    }

    /** Waits before the next try; throws the error once patience is at its end. */
    void bear(TaskyardException error) {
        long now = System.nanoTime();
        if (!lasts) {
            lasts = true;
            since = now;
        }
        long leftNanos = since + patienceNanos - now;
        if (leftNanos <= 0) {
            throw error;
        }
        double jittered = delayMs * ThreadLocalRandom.current().nextDouble(0.5, 1);
        delayMs = Math.min(delayMs * 2, mostMs);
        try {
            Thread.sleep(Math.min(Math.round(jittered), leftNanos / 1_000_000 + 1));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw TaskyardException.of(Status.CANCELLED, "interrupted while the server was unavailable");
        }
    }
}
