package dev.taskyard;

import dev.taskyard.v1.Report;
import dev.taskyard.v1.ReportResult;
import dev.taskyard.v1.TaskFailed;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * The reports of a host: which are pending, which are sent and unanswered, and which are sent again. It packs them into
 * messages that the server accepts. It does not know leases; {@link HostSession} decides what is reported.
 */
final class Outbox {
    /** The kinds of reports, in the order in which those of one lease are sent. A lease has one pending of each at most. */
    enum Kind {
        STARTED,
        PROGRESS,
        FINAL;

        static Kind of(Report report) {
            return switch (report.getEventCase()) {
                case STARTED -> STARTED;
                case PROGRESS -> PROGRESS;
                default -> FINAL;
            };
        }
    }

    /** A report with the answer of the server. */
    record Answered(Report report, ReportResult result) {}

    private static final int DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024;

    /** The most that a message adds to the size of its reports, and a report to that of its fields. */
    private static final int ENVELOPE_BYTES = 32;

    private static final Logger LOG = System.getLogger("dev.taskyard");

    private int maxBytes = DEFAULT_MESSAGE_BYTES - ENVELOPE_BYTES;

    /** In the order in which the leases got their first pending report. */
    private Map<LeaseKey, Map<Kind, Report>> pending = new LinkedHashMap<>();

    /** What was sent, oldest first: the server answers in this order. */
    private final Deque<Report> unanswered = new ArrayDeque<>();

    /** Those that were refused for the time being. */
    private List<Report> deferred = new ArrayList<>();

    /** Sets the largest message that the server reads, in bytes; 0 for the documented default of 4 MiB. */
    void limitMessages(int bytes) {
        maxBytes = (bytes == 0 ? DEFAULT_MESSAGE_BYTES : bytes) - ENVELOPE_BYTES;
    }

    /** Whether a message with contents of so many bytes is one that the server reads. */
    boolean fits(int bytes) {
        return bytes + ENVELOPE_BYTES <= maxBytes;
    }

    /** About the most that a message carries. */
    int maxBytes() {
        return maxBytes;
    }

    boolean hasPending() {
        return !pending.isEmpty();
    }

    /** Makes a report pending. It replaces a pending one of the same kind and lease. */
    void add(Report report) {
        pending.computeIfAbsent(LeaseKey.of(report), key -> new EnumMap<>(Kind.class)).put(Kind.of(report), report);
    }

    /** Whether the last report of a lease is pending, and says that nothing runs for it. */
    boolean isReleasePending(LeaseKey key) {
        Report last = pending.getOrDefault(key, Map.of()).get(Kind.FINAL);
        return last != null && last.hasReleased();
    }

    /** Drops the pending reports of a lease. */
    void discard(LeaseKey key) {
        pending.remove(key);
    }

    /** Keeps a report that was refused for the time being, until {@link #takeDeferred}. */
    void defer(Report report) {
        deferred.add(report);
    }

    List<Report> takeDeferred() {
        List<Report> taken = deferred;
        deferred = new ArrayList<>();
        return taken;
    }

    /**
     * Takes the reports of the next message, as many as fit; empty if none are pending. They then wait for their answer. The
     * last report of a lease stays pending while {@code mustWait} says so.
     */
    List<Report> nextMessage(Predicate<LeaseKey> mustWait) {
        List<Report> message = new ArrayList<>();
        int size = 0;
        var leases = pending.entrySet().iterator();
        packing:
        while (leases.hasNext()) {
            Map.Entry<LeaseKey, Map<Kind, Report>> lease = leases.next();
            Map<Kind, Report> reports = lease.getValue();
            for (Kind kind : Kind.values()) {
                if (kind == Kind.FINAL && mustWait.test(lease.getKey())) {
                    continue;
                }
                Report report = fitted(reports, kind);
                if (report == null) {
                    continue;
                }
                size += report.getSerializedSize() + ENVELOPE_BYTES;
                if (!message.isEmpty() && size > maxBytes) {
                    break packing;
                }
                message.add(reports.remove(kind));
            }
            if (reports.isEmpty()) {
                leases.remove();
            }
        }
        unanswered.addAll(message);
        return message;
    }

    /** So many of the oldest unanswered reports, which the server has accepted; fewer if there are fewer. */
    List<Report> takeAccepted(long count) {
        List<Report> taken = new ArrayList<>();
        while (taken.size() < count && !unanswered.isEmpty()) {
            taken.add(unanswered.remove());
        }
        return taken;
    }

    /** The oldest unanswered reports with their answers, as far as reports wait for one. */
    List<Answered> takeAnswered(List<ReportResult> results) {
        List<Answered> answered = new ArrayList<>();
        for (Report report : takeAccepted(results.size())) {
            answered.add(new Answered(report, results.get(answered.size())));
        }
        return answered;
    }

    /** Takes out all unanswered reports, oldest first, since their stream is gone. */
    List<Report> takeUnanswered() {
        return takeAccepted(unanswered.size());
    }

    /** Makes sent reports pending again, before all others. A report that was added since is newer and stays. */
    void addAgain(Collection<Report> reports) {
        Map<LeaseKey, Map<Kind, Report>> newer = pending;
        pending = new LinkedHashMap<>();
        reports.forEach(this::add);
        newer.forEach((key, kinds) ->
                pending.computeIfAbsent(key, lease -> new EnumMap<>(Kind.class)).putAll(kinds));
    }

    /** The pending report of a kind. One that fits no message is dropped, or becomes a failure if it is an outcome. */
    private Report fitted(Map<Kind, Report> reports, Kind kind) {
        Report report = reports.get(kind);
        if (report == null || report.getSerializedSize() + ENVELOPE_BYTES <= maxBytes) {
            return report;
        }
        if (kind != Kind.FINAL) {
            LOG.log(Level.WARNING, "task {0}: its progress is too large to be reported", report.getTaskId());
            reports.remove(kind);
            return null;
        }
        String reason = "result of " + report.getSerializedSize() + " bytes does not fit a message to the server";
        reports.put(kind, failureInsteadOf(report, reason, "too_large"));
        return reports.get(kind);
    }

    /** The failure in place of an outcome that the server does not accept. It is final: another attempt would end the same. */
    static Report failureInsteadOf(Report report, String reason, String code) {
        TaskFailed failed =
                TaskFailed.newBuilder().setError(reason).setRetryable(false).setCode(code).build();
        return LeaseKey.of(report).report().setFailed(failed).build();
    }
}
