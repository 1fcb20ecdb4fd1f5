package dev.taskyard;

import dev.taskyard.v1.ConnectRequest;
import dev.taskyard.v1.Credit;
import dev.taskyard.v1.Heartbeat;
import dev.taskyard.v1.HeldLease;
import dev.taskyard.v1.Machine;
import dev.taskyard.v1.Report;
import dev.taskyard.v1.Reports;
import dev.taskyard.v1.RuntimeHost;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.IntPredicate;

/** How what a host has to say is put into the messages of its stream. */
final class HostMessages {
    private HostMessages() {}

    /** A heartbeat that lists leases; {@code machine} is null for figures as before. */
    static ConnectRequest heartbeat(
            int sequence,
            List<LeaseKey> listed,
            Machine machine,
            boolean draining,
            Function<LeaseKey, Optional<Integer>> tokensUsed) {
        Heartbeat.Builder heartbeat = Heartbeat.newBuilder().setSequence(sequence);
        for (LeaseKey key : listed) {
            HeldLease.Builder lease = key.held().toBuilder();
            tokensUsed.apply(key).ifPresent(lease::setTokensUsed);
            heartbeat.addLeases(lease);
        }
        if (machine != null) {
            heartbeat.setMachine(machine);
        }
        if (draining) {
            heartbeat.setStatus(RuntimeHost.Status.STATUS_BUSY);
        }
        return ConnectRequest.newBuilder().setHeartbeat(heartbeat).build();
    }

    /**
     * The messages of a heartbeat, of reports and of credit, of each if there is any. A server that counts accepted reports
     * gets all of it in the message of reports.
     *
     * @param heartbeat null for none
     * @param counts whether the server counts accepted reports
     * @param fits whether a message with contents of so many bytes is one that the server reads
     */
    static List<ConnectRequest> of(
            ConnectRequest heartbeat, List<Report> reported, int credit, boolean counts, IntPredicate fits) {
        Reports.Builder reports = Reports.newBuilder().addAllReports(reported);
        boolean joins = counts && !reported.isEmpty();
        if (joins) {
            reports.setCredit(credit);
        }
        boolean rides = joins
                && heartbeat != null
                && fits.test(reports.build().getSerializedSize() + heartbeat.getSerializedSize());
        List<ConnectRequest> messages = new ArrayList<>();
        if (rides) {
            reports.setHeartbeat(heartbeat.getHeartbeat());
        } else if (heartbeat != null) {
            messages.add(heartbeat);
        }
        if (!reported.isEmpty()) {
            messages.add(ConnectRequest.newBuilder().setReports(reports).build());
        }
        if (credit > 0 && !joins) {
            messages.add(ConnectRequest.newBuilder().setCredit(Credit.newBuilder().setCount(credit)).build());
        }
        return messages;
    }
}
