package dev.taskyard;

import dev.taskyard.v1.Cancellation;
import dev.taskyard.v1.HeldLease;
import dev.taskyard.v1.Lease;
import dev.taskyard.v1.OutputAck;
import dev.taskyard.v1.Report;
import dev.taskyard.v1.TaskReleased;
import dev.taskyard.v1.TaskStarted;

/**
 * The name of a lease. On the wire a fencing token is a double that holds a whole number.
 *
 * @param taskId the task
 * @param token the fencing token
 */
record LeaseKey(String taskId, long token) {
    static LeaseKey of(Report report) {
        return new LeaseKey(report.getTaskId(), (long) report.getFencingToken());
    }

    static LeaseKey of(Lease lease) {
        return new LeaseKey(lease.getTaskId(), (long) lease.getFencingToken());
    }

    static LeaseKey of(HeldLease lease) {
        return new LeaseKey(lease.getTaskId(), (long) lease.getFencingToken());
    }

    static LeaseKey of(Cancellation cancellation) {
        return new LeaseKey(cancellation.getTaskId(), (long) cancellation.getFencingToken());
    }

    static LeaseKey of(OutputAck ack) {
        return new LeaseKey(ack.getTaskId(), (long) ack.getFencingToken());
    }

    HeldLease held() {
        return HeldLease.newBuilder().setTaskId(taskId).setFencingToken(token).build();
    }

    /** A report on the lease, without its event. */
    Report.Builder report() {
        return Report.newBuilder().setTaskId(taskId).setFencingToken(token);
    }

    /** The report that the work begins. */
    Report started() {
        return report().setStarted(TaskStarted.getDefaultInstance()).build();
    }

    /** The report that nothing runs for the lease. */
    Report released() {
        return report().setReleased(TaskReleased.getDefaultInstance()).build();
    }
}
