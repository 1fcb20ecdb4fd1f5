package dev.taskyard;

import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.Report;

/** A lease as its host knows it. {@link HostSession} decides by it; times are nanoseconds of its clock. */
final class HostLease {
    final LeaseKey key;
    long length;
    long expiresAt;

    /** What its handler is given. Null once the handler has begun, and where it never will. */
    Assignment assignment;

    /** Whether the start report was written, so that the server may have read it. */
    boolean isStartWritten;

    /** Whether it was given back before its handler began. */
    boolean isUnused;

    /** Whether it has ended, for the server or by its time. */
    boolean isLost;

    HostLease(LeaseKey key) {
        this.key = key;
    }

    /**
     * Whether the handler begins when the start report was answered, instead of when it was written. So it is for a task
     * with a target: the report may be lost with the stream, and the server may then hand out another task of the
     * target, which must not run at the same time (docs/rules.md, Acknowledged starts).
     */
    boolean beginsWhenAnswered() {
        return assignment != null && !assignment.getTask().getTarget().isEmpty();
    }

    /** Whether it stays held when the stream breaks. Before its handler it does only if the server may believe otherwise. */
    boolean outlivesBreak() {
        return assignment == null || beginsWhenAnswered() && isStartWritten;
    }

    /** Whether a report that was refused, or not answered, still has a meaning. */
    boolean needs(Report report) {
        if (report.hasStarted()) {
            return !isUnused && !isLost;
        }
        return report.hasReleased() || !isLost;
    }

    Assignment begin() {
        Assignment begun = assignment;
        assignment = null;
        return begun;
    }
}
