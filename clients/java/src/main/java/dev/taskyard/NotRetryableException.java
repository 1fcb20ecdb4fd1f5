package dev.taskyard;

/** Thrown by a handler to fail its task for good, whatever the retry policy allows. */
public final class NotRetryableException extends ActionFailedException {
    private static final long serialVersionUID = 1L;

    /**
     * A final failure.
     *
     * @param reason why, as text for people
     */
    public NotRetryableException(String reason) {
        this(reason, null);
    }

    /**
     * A final failure of some kind.
     *
     * @param reason why, as text for people
     * @param code the kind of failure; null for none
     */
    public NotRetryableException(String reason, String code) {
        super(reason, code, false, null);
    }
}
