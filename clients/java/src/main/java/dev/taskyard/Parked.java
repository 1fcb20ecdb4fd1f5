package dev.taskyard;

/**
 * Unwinds a handler whose task waits without a slot, see {@link RunningTask#ask}. Let it through: the handler begins again
 * once something came. It is no exception, so that {@code catch (Exception e)} lets it through; {@code finally} blocks run.
 */
public final class Parked extends Error {
    private static final long serialVersionUID = 1L;

    Parked(String text) {
        // It tells of nothing that went wrong, so that its place is of no interest.
        super(text, null, false, false);
    }

    /** Whether a handler ends like this that lets it through, also out of another thread. */
    static boolean isIn(Throwable failure) {
        for (Throwable each = failure; each != null; each = each.getCause()) {
            if (each instanceof Parked) {
                return true;
            }
        }
        return false;
    }
}
