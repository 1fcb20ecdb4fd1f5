package dev.taskyard;

/**
 * Runs tasks of an action. Its thread is interrupted when the work is no longer wanted: the task was cancelled, paused or is
 * past its deadline or run timeout, its lease is lost, or the host leaves. A handler should then end soon, by an {@link
 * InterruptedException} for instance; what it returns or throws is discarded.
 *
 * <p>The handler of a task with a target begins once the server has accepted the start of the task, so that two tasks of a
 * target never run at the same time.
 */
@FunctionalInterface
public interface Handler {
    /**
     * Runs a task.
     *
     * @param task the task
     * @return its result, a plain value (see {@link Json}) or an {@link Exact}; null for none
     * @throws ActionFailedException to fail the task with its text, also a {@link RetryException} or a {@link
     *     NotRetryableException}
     * @throws Exception anything else fails the task with its class, text and stack trace
     */
    Object run(RunningTask task) throws Exception;
}
