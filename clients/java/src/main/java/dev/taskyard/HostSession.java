package dev.taskyard;

import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.Cancellation;
import dev.taskyard.v1.ConnectRequest;
import dev.taskyard.v1.Error;
import dev.taskyard.v1.HeartbeatAck;
import dev.taskyard.v1.HeldLease;
import dev.taskyard.v1.Lease;
import dev.taskyard.v1.Machine;
import dev.taskyard.v1.NewChunk;
import dev.taskyard.v1.Output;
import dev.taskyard.v1.OutputAcks;
import dev.taskyard.v1.Report;
import dev.taskyard.v1.ReportResults;
import dev.taskyard.v1.Welcome;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Function;

/**
 * The rules of the host stream, without clock or connection (docs/rules.md, Host stream): which leases a host holds over all
 * of its streams, when they end, which handlers begin and stop.
 *
 * <p>Times are passed in, in nanoseconds of a clock that never goes back; messages come in and go out. {@link HostRun}
 * carries them, and begins and stops handlers as the session tells it. It is not safe for use by many threads.
 *
 * <p>The life of a lease: it is handed out, its handler begins, its handler returns, its last report is answered, and it is
 * forgotten. It takes a slot from the hand-out until its handler has returned, also if it is lost in between.
 */
final class HostSession {
    /** What follows from an answer: the tasks whose handlers begin, and the leases whose handlers must be stopped. */
    record Changes(List<Assignment> begin, List<LeaseKey> stop) {}

    private static final Logger LOG = System.getLogger("dev.taskyard");

    private final int slots;

    /** In the order of their hand-out. */
    private final Map<LeaseKey, HostLease> leases = new LinkedHashMap<>();

    /** The leases that take a slot. */
    private final Set<LeaseKey> busy = new HashSet<>();

    private final Outbox outbox = new Outbox();
    final OutputBox output = new OutputBox();
    private final SentHeartbeats heartbeats = new SentHeartbeats();
    private boolean draining;

    /** Whether the server counts accepted reports, and reads what comes with reports. */
    private boolean countsAccepted;

    /** How many tasks the server may still hand out. */
    private int credit;

    /**
     * When the last answered heartbeat or Hello was sent. A lease that is handed out afterwards counts from then. Its
     * arrival would be too late: it may come long after the claim.
     */
    private long confirmedAt;

    /** How long leases outlive a break of the stream. */
    private long grace;

    HostSession(int slots) {
        this.slots = slots;
    }

    // State

    boolean isDraining() {
        return draining;
    }

    /** The number of tasks whose handlers run or are about to begin. */
    int active() {
        return busy.size();
    }

    /** Whether there are leases that are not lost. */
    boolean holdsLeases() {
        return leases.values().stream().anyMatch(lease -> !lease.isLost);
    }

    /** Whether nothing runs, and no report is pending or unanswered. */
    boolean isFinished() {
        return leases.isEmpty();
    }

    /** Whether a lease is not held any more. */
    boolean isOver(LeaseKey key) {
        HostLease lease = leases.get(key);
        return lease == null || lease.isLost;
    }

    /** The leases that a Hello lists: all that are not lost, also an ended one until its last report is answered. */
    List<HeldLease> held() {
        return live().stream().map(LeaseKey::held).toList();
    }

    /** When the next lease ends unless it is renewed; empty without leases. */
    OptionalLong nextExpiry() {
        return leases.values().stream()
                .filter(lease -> !lease.isLost)
                .mapToLong(lease -> lease.expiresAt)
                .min();
    }

    /** When output that was refused for the time being is to be sent again; {@link Long#MAX_VALUE} if there is none. */
    long nextRetry() {
        return output.retryAt();
    }

    // Streams. What they return are the leases whose handlers must be stopped.

    /** A stream begins whose Hello was sent at {@code sentAt}. Leases that the Welcome does not keep are lost. */
    List<LeaseKey> streamOpened(Welcome welcome, long sentAt) {
        confirmedAt = sentAt;
        grace = millis(welcome.getReconnectGraceMs());
        countsAccepted = welcome.getCountsAccepted();
        outbox.limitMessages(welcome.getMaxMessageBytes());
        Map<LeaseKey, Lease> kept = new HashMap<>();
        welcome.getKeptList().forEach(lease -> kept.put(LeaseKey.of(lease), lease));
        List<LeaseKey> lost = new ArrayList<>();
        for (HostLease lease : leases.values()) {
            if (kept.containsKey(lease.key)) {
                lease.length = secs(kept.get(lease.key).getLeaseSecs());
                lease.expiresAt = sentAt + lease.length;
            } else {
                lost.add(lease.key);
            }
        }
        List<LeaseKey> stop = lose(lost);
        output.streamOpened(welcome.getOutputBytes());
        // Another server may accept what was refused for the time being.
        addDeferred();
        return stop;
    }

    /** The stream broke at {@code now}. Leases end after the grace period unless a new one keeps them. */
    void streamClosed(long now) {
        for (HostLease lease : List.copyOf(leases.values())) {
            lease.expiresAt = Math.min(lease.expiresAt, now + grace);
            if (!lease.outlivesBreak()) {
                busy.remove(lease.key);
                forget(lease.key);
            }
        }
        outbox.addAgain(outbox.takeUnanswered().stream().filter(this::isNeeded).toList());
        output.streamClosed();
        heartbeats.clear();
        credit = 0;
    }

    /** Ends the leases whose time is over at {@code now}. What was refused of output for a while may be sent again. */
    List<LeaseKey> expire(long now) {
        output.retry(now);
        List<LeaseKey> expired = leases.values().stream()
                .filter(lease -> !lease.isLost && lease.expiresAt <= now)
                .map(lease -> lease.key).toList();
        return lose(expired);
    }

    // What the server sends

    /** A task is handed out. Its start report is pending; a draining host gives it back instead. */
    void taskAssigned(Assignment assignment) {
        LeaseKey key = LeaseKey.of(assignment.getLease());
        credit = Math.max(0, credit - 1);
        if (leases.containsKey(key)) {
            return;
        }
        HostLease lease = new HostLease(key);
        lease.length = secs(assignment.getLease().getLeaseSecs());
        lease.expiresAt = confirmedAt + lease.length;
        lease.assignment = assignment;
        leases.put(key, lease);
        if (draining) {
            giveBack(lease);
        } else {
            busy.add(key);
            outbox.add(key.started());
        }
    }

    /** A heartbeat is answered: the leases that it listed are renewed from when it was sent, but for those that are lost. */
    List<LeaseKey> heartbeatAcknowledged(HeartbeatAck ack) {
        SentHeartbeats.Sent heartbeat = heartbeats.take(ack.getSequence()).orElse(null);
        if (heartbeat == null) {
            return List.of();
        }
        confirmedAt = heartbeat.sentAt();
        List<LeaseKey> stop = lose(ack.getLostList().stream().map(LeaseKey::of).toList());
        for (LeaseKey key : heartbeat.listed()) {
            HostLease lease = leases.get(key);
            if (lease != null) {
                lease.expiresAt = Math.max(lease.expiresAt, heartbeat.sentAt() + lease.length);
            }
        }
        return stop;
    }

    /** So many of the oldest unanswered reports are accepted. Returns the tasks whose handlers begin. Expire before. */
    List<Assignment> reportsAccepted(int count) {
        List<Assignment> begin = new ArrayList<>();
        outbox.takeAccepted(Integer.toUnsignedLong(count)).forEach(report -> accepted(report).ifPresent(begin::add));
        return begin;
    }

    /**
     * The oldest unanswered reports have these results: those of a message, or the refused ones. Call {@link #expire}
     * before, so that no handler begins under a lease that is over.
     */
    Changes reportsAnswered(ReportResults results) {
        List<Assignment> begin = new ArrayList<>();
        List<LeaseKey> lost = new ArrayList<>();
        for (Outbox.Answered each : outbox.takeAnswered(results.getResultsList())) {
            Report report = each.report();
            Error error = each.result().getError();
            if (!each.result().hasError()) {
                accepted(report).ifPresent(begin::add);
            } else if (!error.getCode().equals("lease_lost") && !error.getCode().equals("not_found")) {
                refused(report, error);
            } else if (report.hasReleased()) {
                forget(LeaseKey.of(report));
            } else {
                lost.add(LeaseKey.of(report));
            }
        }
        return new Changes(begin, lose(lost));
    }

    /** The oldest message of output has this answer. */
    List<LeaseKey> outputAnswered(OutputAcks acks, long now) {
        List<OutputBox.Refused> over = output.answered(acks.getAcksList(), now);
        over.forEach(each -> LOG.log(Level.WARNING, "task {0}: output was refused as {1}: {2}",
                each.key().taskId(), each.code(), each.reason()));
        return lose(over.stream().map(OutputBox.Refused::key).toList());
    }

    /** A task is to be stopped. It is reported as released once nothing runs for the lease, at once if nothing does now. */
    List<LeaseKey> taskCancelled(Cancellation cancellation) {
        LeaseKey key = LeaseKey.of(cancellation);
        List<LeaseKey> stop = lose(List.of(key));
        if (!leases.containsKey(key)) {
            HostLease lease = new HostLease(key);
            lease.isLost = true;
            leases.put(key, lease);
            outbox.add(key.released());
        }
        return stop;
    }

    /** The server has ended all leases of the host. */
    List<LeaseKey> hostDeregistered() {
        return lose(live());
    }

    // What the host does

    /** The progress of a handler. It replaces an earlier one that is still pending. */
    void progressReported(Report report) {
        LeaseKey key = LeaseKey.of(report);
        if (busy.contains(key) && !isOver(key)) {
            outbox.add(report);
        }
    }

    /** A handler says a chunk. Empty if its lease is over. */
    Optional<OutputBox.Taken> chunkSaid(LeaseKey key, NewChunk chunk) {
        return isOver(key) || !busy.contains(key) ? Optional.empty() : Optional.of(output.add(key, chunk));
    }

    /** The outcome of a handler: its last report, or null if it was stopped before it had one. */
    void handlerReturned(LeaseKey key, Report outcome) {
        busy.remove(key);
        HostLease lease = leases.get(key);
        if (lease != null) {
            outbox.add(lease.isLost || outcome == null ? key.released() : outcome);
        }
    }

    /** Takes no more tasks: gives no more credit, and gives back the tasks whose handlers have not begun. */
    void drain() {
        draining = true;
        leases.values().stream().filter(lease -> lease.assignment != null).forEach(this::giveBack);
    }

    /**
     * The heartbeat to send now. Reports that were refused for the time being are pending again.
     *
     * @param machine the figures of the machine, null for those of before
     * @param tokensUsed how many tokens the handler of a lease stated last, empty if it stated none
     */
    ConnectRequest nextHeartbeat(long now, Machine machine, Function<LeaseKey, Optional<Integer>> tokensUsed) {
        addDeferred();
        List<LeaseKey> listed = live();
        return HostMessages.heartbeat(heartbeats.add(now, listed), listed, machine, draining, tokensUsed);
    }

    /** Whether there are reports to send with which a heartbeat may come. */
    boolean heartbeatMayRide() {
        return countsAccepted && outbox.hasPending();
    }

    /**
     * The messages to write next: the heartbeat, one of reports, if any are pending, credit for the slots that are free,
     * then one of output. Credit follows the reports that freed its slots, and does not wait for the reports after them.
     * Reports wait for the output of their own task alone.
     *
     * @param heartbeat of {@link #nextHeartbeat}, null for none
     */
    List<ConnectRequest> nextMessages(ConnectRequest heartbeat) {
        int free = draining ? 0 : Math.max(0, slots - busy.size() - credit);
        credit += free;
        List<Report> reports = outbox.nextMessage(output::isBehind);
        List<ConnectRequest> messages = HostMessages.of(heartbeat, reports, free, countsAccepted, outbox::fits);
        Output said = output.nextMessage(outbox.maxBytes());
        if (said != null) {
            messages.add(ConnectRequest.newBuilder().setOutput(said).build());
        }
        return messages;
    }

    /** A message was written to the stream. Returns the tasks whose handlers begin. Call {@link #expire} before. */
    List<Assignment> messageWritten(ConnectRequest message) {
        List<Assignment> begin = new ArrayList<>();
        for (Report report : message.getReports().getReportsList()) {
            HostLease lease = leases.get(LeaseKey.of(report));
            // The task may have been cancelled or given back while the message was written.
            if (report.hasStarted() && lease != null && lease.assignment != null) {
                lease.isStartWritten = true;
                if (!lease.beginsWhenAnswered()) {
                    begin.add(lease.begin());
                }
            }
        }
        return begin;
    }

    // Leases

    private List<LeaseKey> live() {
        return leases.values().stream().filter(lease -> !lease.isLost).map(lease -> lease.key).toList();
    }

    /** Ends these leases. Returns those whose handlers run and are not stopped yet. */
    private List<LeaseKey> lose(Collection<LeaseKey> keys) {
        List<LeaseKey> stop = new ArrayList<>();
        for (LeaseKey key : keys) {
            HostLease lease = leases.get(key);
            if (lease == null || lease.isLost) {
                continue;
            }
            lease.isLost = true;
            output.discard(key);
            if (!busy.contains(key)) {
                // The outcome no longer matters. A release still does: a target may wait for it.
                if (!outbox.isReleasePending(key)) {
                    forget(key);
                }
            } else if (lease.assignment != null) {
                giveBack(lease);
            } else {
                outbox.discard(key);
                stop.add(key);
            }
        }
        return stop;
    }

    private void forget(LeaseKey key) {
        leases.remove(key);
        outbox.discard(key);
        output.discard(key);
    }

    /** Returns a task whose handler has not begun, and now never will. */
    private void giveBack(HostLease lease) {
        busy.remove(lease.key);
        lease.assignment = null;
        lease.isUnused = true;
        outbox.discard(lease.key);
        outbox.add(lease.key.released());
    }

    private void addDeferred() {
        outbox.takeDeferred().stream().filter(this::isNeeded).forEach(outbox::add);
    }

    private boolean isNeeded(Report report) {
        HostLease lease = leases.get(LeaseKey.of(report));
        return lease != null && lease.needs(report);
    }

    private Optional<Assignment> accepted(Report report) {
        HostLease lease = leases.get(LeaseKey.of(report));
        if (Outbox.Kind.of(report) == Outbox.Kind.FINAL) {
            forget(LeaseKey.of(report));
        } else if (report.hasStarted() && lease != null && lease.assignment != null) {
            return Optional.of(lease.begin());
        }
        return Optional.empty();
    }

    /** A report was refused though its lease has not ended. Without an end of some kind the lease would hold its task forever. */
    private void refused(Report report, Error error) {
        HostLease lease = leases.get(LeaseKey.of(report));
        if (lease == null || !lease.needs(report)) {
            return;
        }
        LOG.log(Level.WARNING, "task {0}: a report was refused as {1}: {2}",
                report.getTaskId(), error.getCode(), error.getError());
        boolean isStart = report.hasStarted();
        if (Outbox.Kind.of(report) != Outbox.Kind.FINAL && !(isStart && lease.assignment != null)) {
            return;
        }
        if (error.getRetryable()) {
            outbox.defer(report);
        } else if (isStart) {
            giveBack(lease);
        } else if (report.hasCompleted()) {
            outbox.add(Outbox.failureInsteadOf(report, "result refused: " + error.getError(), error.getCode()));
        } else if (report.hasParked()) {
            outbox.add(Outbox.failureInsteadOf(report, "park refused: " + error.getError(), error.getCode()));
        } else if (report.hasFailed()) {
            outbox.add(lease.key.released());
        } else {
            forget(lease.key);
        }
    }

    private static long millis(int unsigned) {
        return Integer.toUnsignedLong(unsigned) * 1_000_000;
    }

    private static long secs(int unsigned) {
        return Integer.toUnsignedLong(unsigned) * 1_000_000_000;
    }
}
