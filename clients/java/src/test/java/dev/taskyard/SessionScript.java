package dev.taskyard;

import com.google.protobuf.Value;
import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.Cancellation;
import dev.taskyard.v1.ConnectRequest;
import dev.taskyard.v1.Error;
import dev.taskyard.v1.HeartbeatAck;
import dev.taskyard.v1.HeldLease;
import dev.taskyard.v1.Lease;
import dev.taskyard.v1.NewChunk;
import dev.taskyard.v1.OutputAcks;
import dev.taskyard.v1.Progress;
import dev.taskyard.v1.Report;
import dev.taskyard.v1.ReportResult;
import dev.taskyard.v1.ReportResults;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskCompleted;
import dev.taskyard.v1.TaskFailed;
import dev.taskyard.v1.TaskParked;
import dev.taskyard.v1.Welcome;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Runs a script on a session. A script has one step a line. After {@code ->} stands everything that comes of the step; it is
 * compared as text. Each script begins on an open stream, with two slots and no leases.
 *
 * <p>Names: a, b and c are leases of tasks of the same names, a/2 is a later lease of the task a, a@page a lease of a task
 * with the target page. Leases last 60 s and outlive a break by 5 s. The time is 0 until {@code at SECONDS}.
 *
 * <pre>
 * welcome a             the server answers a Hello, and keeps the lease a
 * counting              from the next welcome on the server counts accepted reports
 * break                 the stream breaks
 * assign a              the server hands out a task
 * running a             the task was handed out, its handler has begun, and the server has answered
 * take                  the next messages, as reports (LEASE:EVENT) and credit
 * write                 the messages taken before are written
 * send                  take and write
 * beat                  take with a heartbeat that is due, as the leases that it lists
 * answer ok CODE        the server answers the oldest reports: one word for each
 * accept 2              the server counts so many accepted reports
 * progress a TEXT       the handler reports progress; huge does not fit a message, large just does
 * ended a OUTCOME       the handler returns: done by default, or failed, parked, huge or stopped
 * tokens a 5            the handler states its tokens
 * heartbeat             the next heartbeat, as the leases that it lists (LEASE:TOKENS)
 * ack 1 a               the server answers the heartbeat 1, and names the lease a as lost
 * cancel a              the server cancels the task
 * taking 100 a b        a stream begins that takes so many bytes of output ahead, and these tasks run
 * limit 100             from the next welcome on the server takes so many bytes of output ahead
 * say a TEXT            the handler says a chunk; long has 60 characters
 * flush a               from here on flushed says whether what the handler has said so far is kept, or never will be
 * kept a:2 b:CODE       the server answers the oldest message of output: how many chunks it keeps, or why not
 * expire, drain, deregister
 * held                  the leases of the next Hello
 * finished              whether nothing is left to do
 * </pre>
 */
final class SessionScript {
    static final int MESSAGE_BYTES = 500;

    private static final String LONG = "x".repeat(60);

    /** Fits a message, with little beside it. */
    private static final String LARGE = "x".repeat(MESSAGE_BYTES - 100);

    final HostSession session;
    List<ConnectRequest> unwritten = List.of();
    private final Map<LeaseKey, Integer> tokens = new HashMap<>();
    private boolean counting;
    private int limit;
    private int flushing;
    private long now;

    SessionScript(int slots) {
        session = new HostSession(slots);
        step("welcome");
    }

    /** Runs one step and returns what comes of it. */
    String step(String step) {
        String[] words = step.split(" ");
        List<String> names = List.of(words).subList(1, words.length);
        switch (words[0]) {
            case "at" -> now = (long) (Double.parseDouble(names.get(0)) * 1e9);
            case "welcome" -> {
                var welcome = Welcome.newBuilder().setReconnectGraceMs(5_000).setMaxMessageBytes(MESSAGE_BYTES)
                        .setCountsAccepted(counting).setOutputBytes(limit);
                names.forEach(name -> welcome.addKept(lease(name)));
                return stopped(session.streamOpened(welcome.build(), now));
            }
            case "counting" -> counting = true;
            case "break" -> session.streamClosed(now);
            case "assign" -> names.forEach(this::assign);
            case "running" -> {
                step("assign " + String.join(" ", names));
                step("send");
                session.reportsAnswered(answer(names.stream().map(name -> "ok").toList()));
            }
            case "take" -> {
                return taken(null);
            }
            case "beat" -> {
                return taken(session.nextHeartbeat(now, null, key -> Optional.empty()));
            }
            case "flush" -> flushing = session.output.last(key(names.get(0)));
            case "flushed" -> {
                return Boolean.toString(session.output.isKept(key(names.get(0)), flushing));
            }
            case "accept" -> {
                return begun(session.reportsAccepted(Integer.parseInt(names.get(0))));
            }
            case "write" -> {
                List<Assignment> begin = new ArrayList<>();
                unwritten.forEach(message -> begin.addAll(session.messageWritten(message)));
                return begun(begin);
            }
            case "send" -> {
                return joined(step("take"), step("write"));
            }
            case "answer" -> {
                var changes = session.reportsAnswered(answer(names));
                return joined(begun(changes.begin()), stopped(changes.stop()));
            }
            case "progress" -> {
                String text = switch (names.get(1)) {
                    case "huge" -> "x".repeat(MESSAGE_BYTES);
                    case "large" -> LARGE;
                    default -> names.get(1);
                };
                var progress = Progress.newBuilder().setMessage(text);
                session.progressReported(key(names.get(0)).report().setProgress(progress).build());
            }
            case "ended" -> session.handlerReturned(
                    key(names.get(0)), outcome(key(names.get(0)), names.size() > 1 ? names.get(1) : "done"));
            case "tokens" -> tokens.put(key(names.get(0)), Integer.parseInt(names.get(1)));
            case "heartbeat" -> {
                var heartbeat = session.nextHeartbeat(now, null, key -> Optional.ofNullable(tokens.get(key)));
                return held(heartbeat.getHeartbeat().getLeasesList());
            }
            case "ack" -> {
                var ack = HeartbeatAck.newBuilder().setSequence(Integer.parseInt(names.get(0)));
                names.stream().skip(1).forEach(name -> ack.addLost(key(name).held()));
                return stopped(session.heartbeatAcknowledged(ack.build()));
            }
            case "cancel" -> {
                LeaseKey key = key(names.get(0));
                return stopped(session.taskCancelled(Cancellation.newBuilder()
                        .setTaskId(key.taskId())
                        .setFencingToken(key.token())
                        .build()));
            }
            case "taking" -> {
                step("limit " + names.get(0));
                step("break");
                step("welcome");
                step("running " + String.join(" ", names.subList(1, names.size())));
            }
            case "limit" -> limit = Integer.parseInt(names.get(0));
            case "say" -> {
                var chunk = NewChunk.newBuilder().setText(names.get(1).replace("long", LONG)).build();
                return session.chunkSaid(key(names.get(0)), chunk).map(taken -> switch (taken) {
                    case YES -> "";
                    case NOT_YET -> "full";
                    case NEVER -> "no output";
                }).orElse("over");
            }
            case "kept" -> {
                return stopped(session.outputAnswered(acks(names), now));
            }
            case "expire" -> {
                return stopped(session.expire(now));
            }
            case "drain" -> session.drain();
            case "deregister" -> {
                return stopped(session.hostDeregistered());
            }
            case "held" -> {
                return held(session.held());
            }
            case "finished" -> {
                return String.valueOf(session.isFinished());
            }
            default -> throw new IllegalArgumentException("no such step: " + step);
        }
        return "";
    }

    private String taken(ConnectRequest heartbeat) {
        unwritten = session.nextMessages(heartbeat);
        return unwritten.stream().map(SessionScript::shown).collect(Collectors.joining(" | "));
    }

    private void assign(String name) {
        String[] parts = name.split("@");
        session.taskAssigned(Assignment.newBuilder()
                .setLease(lease(parts[0]))
                .setTask(Task.newBuilder().setTarget(parts.length > 1 ? parts[1] : ""))
                .build());
    }

    // From names to messages

    private static LeaseKey key(String name) {
        String[] parts = name.split("/");
        return new LeaseKey(parts[0], parts.length > 1 ? Long.parseLong(parts[1]) : 1);
    }

    private static Lease lease(String name) {
        LeaseKey key = key(name);
        return Lease.newBuilder()
                .setTaskId(key.taskId())
                .setFencingToken(key.token())
                .setLeaseSecs(60)
                .build();
    }

    private static Report outcome(LeaseKey key, String outcome) {
        var huge = Value.newBuilder().setStringValue("x".repeat(MESSAGE_BYTES));
        return switch (outcome) {
            case "stopped" -> null;
            case "failed" -> key.report().setFailed(TaskFailed.newBuilder().setError("no")).build();
            case "parked" -> key.report().setParked(TaskParked.getDefaultInstance()).build();
            case "huge" -> key.report().setCompleted(TaskCompleted.newBuilder().setResult(huge)).build();
            default -> key.report().setCompleted(TaskCompleted.getDefaultInstance()).build();
        };
    }

    private static ReportResults answer(List<String> codes) {
        var results = ReportResults.newBuilder();
        for (String code : codes) {
            var error = Error.newBuilder().setCode(code).setError("no").setRetryable(code.equals("unavailable"));
            results.addResults(code.equals("ok")
                    ? ReportResult.getDefaultInstance()
                    : ReportResult.newBuilder().setError(error).build());
        }
        return results.build();
    }

    private static OutputAcks acks(List<String> answers) {
        var acks = OutputAcks.newBuilder();
        for (String each : answers) {
            String[] parts = each.split(":");
            LeaseKey key = key(parts[0]);
            var ack = acks.addAcksBuilder().setTaskId(key.taskId()).setFencingToken(key.token());
            if (parts[1].matches("\\d+")) {
                ack.setTaken(Integer.parseInt(parts[1]));
            } else {
                ack.setError(Error.newBuilder().setCode(parts[1]).setError("no"));
            }
        }
        return acks.build();
    }

    // From messages to names

    private static String name(LeaseKey key) {
        return key.token() == 1 ? key.taskId() : key.taskId() + "/" + key.token();
    }

    private static String shown(ConnectRequest message) {
        List<String> parts = new ArrayList<>();
        message.getReports().getReportsList().forEach(report -> parts.add(name(LeaseKey.of(report)) + ":" + event(report)));
        int credit = message.getCredit().getCount() + message.getReports().getCredit();
        if (credit > 0) {
            parts.add("credit " + credit);
        }
        if (message.hasHeartbeat() || message.getReports().hasHeartbeat()) {
            var heartbeat = message.hasHeartbeat() ? message.getHeartbeat() : message.getReports().getHeartbeat();
            parts.add(("heartbeat " + held(heartbeat.getLeasesList())).strip());
        }
        for (var said : message.getOutput().getLeasesList()) {
            parts.add(said.getTaskId() + " says " + said.getNumber());
            said.getChunksList().forEach(chunk -> parts.add(chunk.getText().replace(LONG, "long")));
        }
        return String.join(" ", parts);
    }

    private static String event(Report report) {
        return switch (report.getEventCase()) {
            case STARTED -> "started";
            case PROGRESS -> report.getProgress().getMessage().replace(LARGE, "large");
            case COMPLETED -> "done";
            case FAILED -> report.getFailed().hasCode() ? "failed(" + report.getFailed().getCode() + ")" : "failed";
            case PARKED -> "parked";
            default -> "released";
        };
    }

    private static String held(List<HeldLease> held) {
        return held.stream()
                .map(lease -> name(LeaseKey.of(lease)) + (lease.hasTokensUsed() ? ":" + lease.getTokensUsed() : ""))
                .collect(Collectors.joining(" "));
    }

    private static String begun(List<Assignment> begin) {
        return withVerb("begin", begin.stream().map(each -> name(LeaseKey.of(each.getLease()))));
    }

    private static String stopped(List<LeaseKey> stop) {
        return withVerb("stop", stop.stream().map(SessionScript::name));
    }

    private static String withVerb(String verb, Stream<String> names) {
        String all = names.collect(Collectors.joining(" "));
        return all.isEmpty() ? "" : verb + " " + all;
    }

    private static String joined(String... parts) {
        return Arrays.stream(parts).filter(part -> !part.isEmpty()).collect(Collectors.joining(" | "));
    }
}
