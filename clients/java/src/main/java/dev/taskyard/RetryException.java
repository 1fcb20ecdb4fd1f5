package dev.taskyard;

import java.time.Duration;
import java.util.Objects;

/**
 * Thrown by a handler to have its task tried again after a delay of its own, in the place of the delay of the retry policy.
 * A task without a policy then has as many attempts as the server's {@code maxDeliveries} (5) allows.
 */
public final class RetryException extends ActionFailedException {
    private static final long serialVersionUID = 1L;

    /** The server refuses more. */
    private static final Duration MAX = Duration.ofHours(24);

    /**
     * Another attempt after a delay.
     *
     * @param reason why, as text for people
     * @param after how long after the failure the next attempt begins, 0 to 24 hours, rounded to milliseconds
     * @throws IllegalArgumentException for another delay
     */
    public RetryException(String reason, Duration after) {
        this(reason, after, null);
    }

    /**
     * Another attempt after a delay, unless the code is among the {@code non_retryable_codes} of the retry policy.
     *
     * @param reason why, as text for people
     * @param after how long after the failure the next attempt begins, 0 to 24 hours, rounded to milliseconds
     * @param code the kind of failure; null for none
     * @throws IllegalArgumentException for another delay
     */
    public RetryException(String reason, Duration after, String code) {
        super(reason, code, true, checked(after));
    }

    private static Duration checked(Duration after) {
        Objects.requireNonNull(after, "after");
        if (after.isNegative() || after.compareTo(MAX) > 0) {
            throw new IllegalArgumentException("after: must be 0 to 24 hours, is " + after);
        }
        return after;
    }
}
