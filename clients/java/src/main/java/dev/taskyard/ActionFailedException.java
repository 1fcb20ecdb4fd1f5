package dev.taskyard;

import java.time.Duration;

/**
 * Thrown by a handler to fail its task with exactly this text. Any other exception fails the task with its class and text,
 * and with its stack trace.
 */
public class ActionFailedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String code;
    private final boolean retryable;
    private final Duration retryAfter;

    /**
     * A failure that the retry policy of the task may try again.
     *
     * @param error the text of the failure; the server keeps 10,000 characters
     */
    public ActionFailedException(String error) {
        this(error, null);
    }

    /**
     * A failure that the retry policy of the task may try again, unless the code is among its {@code
     * non_retryable_codes}.
     *
     * @param error the text of the failure
     * @param code the kind of failure; null for none
     */
    public ActionFailedException(String error, String code) {
        this(error, code, true, null);
    }

    ActionFailedException(String error, String code, boolean retryable, Duration retryAfter) {
        super(error);
        this.code = code;
        this.retryable = retryable;
        this.retryAfter = retryAfter;
    }

    /**
     * The kind of failure.
     *
     * @return the code, null for none
     */
    public String code() {
        return code;
    }

    /**
     * Whether another attempt can help.
     *
     * @return false where the failure is final
     */
    public boolean retryable() {
        return retryable;
    }

    /**
     * When the next attempt begins.
     *
     * @return how long after the failure; null where the retry policy decides
     */
    public Duration retryAfter() {
        return retryAfter;
    }
}
