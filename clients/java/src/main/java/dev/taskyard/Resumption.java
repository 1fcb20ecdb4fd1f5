package dev.taskyard;

import java.util.Set;
import java.util.function.BooleanSupplier;

/** When what is read from the server goes on over another stream, after one that broke. */
final class Resumption {
    /** The errors after which a stream is opened again: a server that goes away can cause any of these but the last. */
    private static final Set<String> BREAKS =
            Set.of("unavailable", "internal", "cancelled", "deadline_exceeded", "too_many_requests");

    private final Outage outage;
    private final Runnable reconnect;
    private final BooleanSupplier renew;

    /** Whether the token was read anew since a stream worked last. */
    private boolean renewed;

    /**
     * {@code reconnect} opens the connection again without the delay of gRPC. {@code renew} reads the token anew, and
     * returns whether there may be another one.
     */
    Resumption(Outage outage, Runnable reconnect, BooleanSupplier renew) {
        this.outage = outage;
        this.reconnect = reconnect;
        this.renew = renew;
    }

    /** A stream works. */
    void works() {
        outage.reset();
        renewed = false;
    }

    /**
     * Waits until the next stream may be opened.
     *
     * @param restarts whether the reader begins anew after this error
     * @throws TaskyardException the error, if it is not one of a break, or the patience is over
     */
    void await(TaskyardException error, boolean restarts) {
        if (Thread.currentThread().isInterrupted()) {
            throw error;
        }
        if (error.code().equals("unauthenticated") && !renewed && renew.getAsBoolean()) {
            renewed = true;
        } else if (!restarts && !BREAKS.contains(error.code())) {
            throw error;
        }
        outage.backOff(error);
        reconnect.run();
    }
}
