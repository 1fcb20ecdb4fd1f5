package dev.taskyard;

import com.google.protobuf.Struct;
import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.Attempt;
import dev.taskyard.v1.Input;
import dev.taskyard.v1.Progress;
import dev.taskyard.v1.Report;
import dev.taskyard.v1.Task;
import java.time.Instant;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** A task as its handler sees it, with methods to report on it. It may be used by many threads. */
public final class RunningTask extends ResumableTask {
    private static final ThreadLocal<RunningTask> CURRENT = new ThreadLocal<>();
    private static final long UINT32_MAX = 0xFFFF_FFFFL;
    private static final int MAX_TEXT_CHARS = 10_000;

    private volatile Task task;
    private final LeaseKey key;
    private final Consumer<Report> reporter;
    private final Handlers.Sayer sayer;
    private final HostArtifacts.Held held;
    private final Map<String, Input> handed;
    private final Map<String, TaskInput> inputs = new ConcurrentHashMap<>();
    private volatile Struct details; // Those that were reported last, also by an earlier attempt.
    private volatile Integer tokensUsed;
    private volatile String stopReason;

    RunningTask(Assignment assignment, Consumer<Report> reporter, Handlers.Sayer sayer, HostArtifacts.Held held) {
        task = assignment.getTask();
        key = LeaseKey.of(assignment.getLease());
        this.reporter = reporter;
        this.sayer = sayer;
        this.held = held;
        handed = assignment.getInputsMap();
        details = task.getProgress().getDetails();
    }

    /**
     * The task whose handler runs in this thread. What its client submits in this thread has the task as its parent unless
     * it names another one.
     *
     * @return the task, empty outside of handlers
     */
    public static Optional<RunningTask> current() {
        return Optional.ofNullable(CURRENT.get());
    }

    /** Sets the task of this thread, null for none. */
    static void setCurrent(RunningTask task) {
        if (task == null) {
            CURRENT.remove();
        } else {
            CURRENT.set(task);
        }
    }

    /** The artifacts of the task. */
    HostArtifacts.Held held() {
        return held;
    }

    @Override
    Task handedOut() {
        return task;
    }

    @Override
    HeldSteps steps() {
        return held.steps;
    }

    @Override
    HeldChildren children() {
        return held.children;
    }

    /** Puts the params in their place, if they are an artifact. */
    void fetchParams() {
        task = held.filled(task);
    }

    /** The inputs as they came along. */
    Map<String, Input> handed() {
        return handed;
    }

    /** Puts an input in its place, with its result. */
    void fetchInput(String name) {
        inputs.put(name, held.input(name, handed.get(name)));
    }

    /**
     * The task as it was handed out.
     *
     * @return the message
     */
    public Task task() {
        return task;
    }

    /**
     * The id of the task.
     *
     * @return the id
     */
    public String id() {
        return task.getTaskId();
    }

    /**
     * The action to run.
     *
     * @return its name
     */
    public String action() {
        return task.getAction();
    }

    /**
     * The parameters of the action.
     *
     * @return a map of plain values, empty if there are none
     */
    public Map<String, Object> params() {
        return Json.plain(task.getParams());
    }

    /**
     * The input of the task, however it travels: whole numbers have all of their digits.
     *
     * @return a plain value; the same as {@link #params} for a task without an {@code input}
     * @throws NotRetryableException with the code {@code bad_input} if it has an encoding, or is not JSON
     */
    public Object input() {
        try {
            return Json.input(task);
        } catch (IllegalArgumentException unreadable) {
            throw new NotRetryableException("input: " + unreadable.getMessage(), "bad_input");
        }
    }

    /**
     * The tasks whose results are handed on to this one.
     *
     * @return the tasks by their names, empty if there are none
     */
    public Map<String, TaskInput> inputs() {
        return Collections.unmodifiableMap(inputs);
    }

    /**
     * The labels of the task.
     *
     * @return the labels, empty if there are none
     */
    public Map<String, String> labels() {
        return task.getLabelsMap();
    }

    /**
     * The task whose work submitted this one.
     *
     * @return its id, empty if there is none
     */
    public Optional<String> parentId() {
        return task.hasParentId() ? Optional.of(task.getParentId()) : Optional.empty();
    }

    /**
     * When the task fails unless it has ended.
     *
     * @return the time, empty if there is none
     */
    public Optional<Instant> deadline() {
        var deadline = task.getDeadline();
        return task.hasDeadline()
                ? Optional.of(Instant.ofEpochSecond(deadline.getSeconds(), deadline.getNanos()))
                : Optional.empty();
    }

    /**
     * Which execution this is within the run of the task.
     *
     * @return the number, from 1
     */
    public int attempt() {
        if (task.getAttemptsCount() == 0) {
            return 1;
        }
        Attempt last = task.getAttempts(task.getAttemptsCount() - 1);
        return last.hasEndedAt() ? last.getNumber() + 1 : last.getNumber();
    }

    /**
     * A number that grows with each hand-out of any task of the namespace. Send it along with side effects, so that what
     * they change can refuse those of an earlier execution, or of an earlier task.
     *
     * @return the number
     */
    public long fencingToken() {
        return key.token();
    }

    /**
     * Where the last attempt got to: the details of the progress that it reported last.
     *
     * @return a map of plain values, empty if there are none
     */
    public Map<String, Object> checkpoint() {
        return Json.plain(task.getProgress().getDetails());
    }

    /**
     * Whether the work is no longer wanted. The thread of the handler is then interrupted too.
     *
     * @return true once it is to stop
     */
    public boolean cancelled() {
        return stopReason != null;
    }

    /**
     * Why the work is no longer wanted.
     *
     * @return the reason of the server, such as {@code cancelled}, {@code paused} or {@code timed_out}; {@code lease_lost}
     *     if the lease has ended, {@code draining} if the host leaves; empty while it is wanted
     */
    public Optional<String> stopReason() {
        return Optional.ofNullable(stopReason);
    }

    /**
     * Ends the handler where the work is no longer wanted, for loops that wait for nothing.
     *
     * @throws InterruptedException if it is to stop
     */
    @Override
    public void check() throws InterruptedException {
        if (stopReason != null) {
            throw new InterruptedException("the task is to stop: " + stopReason);
        }
    }

    /**
     * Reports how far the work is. It does not wait: the report is sent soon, unless a later one replaces it.
     *
     * @param fraction the part that is done, 0 to 1; other numbers count as the nearer bound
     * @param message a text for people
     */
    public void progress(double fraction, String message) {
        progress(fraction, message, null);
    }

    /**
     * Reports how far the work is, with details of which the last are the {@link #checkpoint} of the next attempt.
     *
     * @param fraction the part that is done, 0 to 1; other numbers count as the nearer bound; null for none
     * @param message a text for people; null for none
     * @param details a map of plain values, see {@link Json}; null for those that were reported last, also by an earlier
     *     attempt
     * @throws IllegalArgumentException if they are not plain
     */
    public void progress(Double fraction, String message, Map<String, ?> details) {
        Progress.Builder progress = Progress.newBuilder();
        if (fraction != null && !fraction.isNaN()) {
            progress.setFraction(Math.min(1, Math.max(0, fraction)));
        }
        if (message != null) {
            progress.setMessage(cut(message));
        }
        if (details != null) {
            this.details = Json.struct(details);
        }
        Struct last = this.details;
        if (last.getFieldsCount() > 0) {
            progress.setDetails(last);
        }
        reporter.accept(report().setProgress(progress).build());
    }

    /**
     * Says something on the channel {@code output}, see {@link #emit(String, Object)}.
     *
     * @param said a string, bytes, or a plain value
     * @throws InterruptedException if the handler is to stop, or has returned
     */
    public void emit(Object said) throws InterruptedException {
        emit(Chunks.DEFAULT_CHANNEL, said);
    }

    /**
     * Adds to the output of the task, which anybody that may read its result can follow. It waits while the server keeps too
     * little of what this host has said. What was said is kept before the end of the task is.
     *
     * @param channel {@code output}, {@code stdout}, {@code stderr}, {@code log}, or a name of your own
     * @param said a string, which is said as text; a {@code byte[]} or a {@code ByteString}, as bytes; another plain value,
     *     see {@link Json}, as JSON. Text and bytes of more than 64 KiB become several chunks
     * @throws InterruptedException if the handler is to stop, or has returned
     * @throws TaskyardException {@code unimplemented} where the server takes no output
     * @throws IllegalArgumentException for a malformed channel, for what is not plain, and for JSON of more than 64 KiB
     */
    public void emit(String channel, Object said) throws InterruptedException {
        sayer.say(this, Chunks.of(channel, said));
    }

    /**
     * Puts an artifact of the task: a file, an image, or any other bytes under a name. The task has it once it is whole, in
     * the place of an earlier one of this name.
     *
     * @param name the name: letters, digits, {@code -}, {@code _} and {@code .}, at most 128 characters, not a {@code .}
     *     first
     * @param content its bytes, a file, or what has them
     * @param mediaType its media type, such as {@code image/png}; null for {@code application/octet-stream}
     * @return the artifact
     * @throws TaskyardException {@code lease_lost}, {@code too_large} for more bytes than a task may have, {@code conflict}
     *     if the server keeps no artifacts, {@code cancelled} if the handler is to stop
     * @throws java.io.UncheckedIOException if the content cannot be read
     * @throws Parked if the task is parked
     */
    public Artifact putArtifact(String name, ArtifactContent content, String mediaType) {
        steps().waits.check();
        return held.put(name, content, mediaType);
    }

    /**
     * Reads an artifact of the task, such as one that its submitter has attached, or that an earlier attempt put.
     *
     * @param name the name of the artifact
     * @return its bytes
     * @throws TaskyardException {@code not_found}, {@code lease_lost}, {@code cancelled} if the handler is to stop
     */
    public byte[] readArtifact(String name) {
        return held.read(name);
    }

    /**
     * Sets how many tokens of a language model this attempt has used so far. It sends nothing by itself: the next heartbeat
     * and every later report have the number. Once the task is over its token limit it fails, and its handler is stopped.
     *
     * @param count the number, 0 to 4,294,967,295
     * @throws IllegalArgumentException for another number
     */
    public void setTokensUsed(long count) {
        if (count < 0 || count > UINT32_MAX) {
            throw new IllegalArgumentException("tokensUsed: must be 0 to " + UINT32_MAX + ", is " + count);
        }
        tokensUsed = (int) count;
    }

    /**
     * The environment for a process that does the work: that of this process, with {@code TASKYARD_TASK_ID}, {@code
     * TASKYARD_ATTEMPT} and {@code TASKYARD_FENCING_TOKEN}. For a task with a trace context it also has {@code TRACEPARENT}
     * and {@code TASKYARD_TRACE_ID}.
     *
     * @return the variables
     */
    public Map<String, String> environment() {
        Map<String, String> variables = new HashMap<>(System.getenv());
        // These are of the trace of the host, not of the task.
        variables.keySet().removeIf(name -> name.matches("TRACEPARENT|TRACESTATE|TASKYARD_TRACE_ID"));
        variables.put("TASKYARD_TASK_ID", id());
        variables.put("TASKYARD_ATTEMPT", Integer.toString(attempt()));
        variables.put("TASKYARD_FENCING_TOKEN", Long.toString(fencingToken()));
        String[] trace = task.getTraceparent().split("-");
        if (trace.length > 1) {
            variables.put("TRACEPARENT", task.getTraceparent());
            variables.put("TASKYARD_TRACE_ID", trace[1]);
        }
        return variables;
    }

    LeaseKey key() {
        return key;
    }

    Optional<Integer> tokensUsed() {
        return Optional.ofNullable(tokensUsed);
    }

    /** A report with the tokens that were stated last, without its event. */
    Report.Builder report() {
        Report.Builder report = key.report();
        tokensUsed().ifPresent(report::setTokensUsed);
        return report;
    }

    /** The first reason counts. */
    void stop(String reason) {
        if (stopReason == null) {
            stopReason = reason;
        }
    }

    /** A text that the server keeps as a whole. */
    static String cut(String text) {
        return text.length() <= MAX_TEXT_CHARS ? text : text.substring(0, MAX_TEXT_CHARS);
    }
}
