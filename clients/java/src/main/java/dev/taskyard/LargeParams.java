package dev.taskyard;

import com.google.protobuf.ByteString;
import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.ResumeTaskRequest;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import java.security.MessageDigest;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;

/**
 * Submissions whose params are too large for a message (docs/rules.md, Artifacts). The task is submitted with a reference in
 * their place and held, until they are an artifact of it. A repeat under the same idempotency key goes on where the first one
 * was.
 */
final class LargeParams {
    /** Up to this size, encoded, params are submitted as they are; a server may take fewer. */
    private static final int MAX_BYTES = 262_144;

    /** How the error begins of a task whose params the server does not take. */
    private static final Pattern REFUSED = Pattern.compile("(tasks\\[\\d+]\\.|child\\.)?(params|input):.*", Pattern.DOTALL);

    /** The errors after which a task may be left held, for a repeat to find. */
    private static final Set<String> BREAKS =
            Set.of("unavailable", "cancelled", "deadline_exceeded", "too_many_requests");

    private final Submitter submitter;
    private final Calls calls;
    private final Artifacts artifacts;
    private final TaskServiceBlockingStub tasks;

    LargeParams(Submitter submitter, Calls calls, Artifacts artifacts) {
        this.submitter = submitter;
        this.calls = calls;
        this.artifacts = artifacts;
        tasks = calls.stub(TaskServiceGrpc::newBlockingStub);
    }

    /** The error of a refused batch, with what to do if the params of a task are too large. */
    static TaskyardException ofBatch(TaskyardException error) {
        return refusesParams(error)
                ? error.withReason(
                        error.code(), error.reason() + "; submit this task by itself: submit makes an artifact of them")
                : error;
    }

    /**
     * Submits a task, which must have an idempotency key.
     *
     * @param isRepeatable whether the caller knows the key: what an outage leaves half is left to a repeat then, and
     *     cancelled otherwise
     */
    SubmitTaskResponse submit(SubmitTaskRequest request, boolean isRepeatable) {
        if (sizeOf(request) <= MAX_BYTES) {
            try {
                return submitter.submit(request);
            } catch (TaskyardException error) {
                if (!refusesParams(error)) {
                    throw error;
                }
            }
        }
        byte[] data = dataOf(request);
        SubmitTaskRequest held = held(request, data);
        SubmitTaskResponse accepted = null;
        try {
            accepted = submitter.submit(held);
            if (accepted.getExisting() || accepted.getState() != Task.State.pending) {
                // A repeat, or the unique key is taken: it has its params.
                return accepted;
            }
            String taskId = accepted.getTaskId();
            boolean isHeld = attach(taskId, data);
            Task.State state = isHeld && !request.getHold() ? release(taskId) : accepted.getState();
            return accepted.toBuilder().setState(state).build();
        } catch (TaskyardException error) {
            boolean isBroken = BREAKS.contains(error.code());
            if (isBroken ? !isRepeatable : accepted != null) {
                end(held, accepted, error);
            }
            throw error;
        }
    }

    /** The bytes of what a task has as params and input, encoded. */
    static int sizeOf(SubmitTaskRequest request) {
        return request.getParams().getSerializedSize() + request.getInput().getSerializedSize();
    }

    /** Whether a task was refused since its params are too large. */
    static boolean refusesParams(TaskyardException error) {
        return error.code().equals("too_large") && REFUSED.matcher(error.reason()).matches();
    }

    /** What the params or the input of a task are as an artifact. */
    static byte[] dataOf(SubmitTaskRequest request) {
        return request.hasInput()
                ? request.getInput().getData().toByteArray()
                : ByteString.copyFromUtf8(JsonText.of(sorted(Json.plain(request.getParams())))).toByteArray();
    }

    /** The same text for a repeat by another program, whatever the order of the keys. */
    private static Object sorted(Object plain) {
        if (plain instanceof Map<?, ?> map) {
            Map<String, Object> found = new TreeMap<>();
            map.forEach((key, value) -> found.put((String) key, sorted(value)));
            return found;
        }
        return plain instanceof List<?> list ? list.stream().map(LargeParams::sorted).toList() : plain;
    }

    /** The task with a reference to its params, and held. */
    static SubmitTaskRequest held(SubmitTaskRequest request, byte[] data) {
        MessageDigest hash = ArtifactUpload.newHash();
        hash.update(data);
        Artifact artifact = Artifact.newBuilder()
                .setName(References.PARAMS)
                .setSizeBytes(data.length)
                .setSha256(ArtifactUpload.hexOf(hash))
                .build();
        return request.toBuilder()
                .clearInput()
                .setParams(References.to(artifact, request.getInput().getEncoding(), null))
                .setHold(true)
                .build();
    }

    /** Attaches params. Returns false if an earlier try has let the task go. */
    private boolean attach(String taskId, byte[] data) {
        try {
            artifacts.attach(taskId, References.PARAMS, ArtifactContent.of(data), References.JSON);
            return true;
        } catch (TaskyardException error) {
            boolean isConflict = error.code().equals("conflict");
            if (isConflict && !isHeld(taskId)) {
                return false;
            } else if (isConflict || error.code().equals("unimplemented")) {
                throw noArtifact(error);
            }
            throw error;
        }
    }

    /** The error for params that cannot become an artifact, for the refusal of that. */
    static TaskyardException noArtifact(TaskyardException error) {
        String reason = "params: are so large that they would be an artifact, but " + error.reason();
        return error.withReason("too_large", reason);
    }

    /** Lets a task go that has its params. Returns its state. */
    private Task.State release(String taskId) {
        ResumeTaskRequest request = ResumeTaskRequest.newBuilder().setTaskId(taskId).build();
        AtomicBoolean isRepeat = new AtomicBoolean();
        try {
            return calls.repeated(() -> {
                // Later it could be a failure that is resumed.
                Task task = isRepeat.getAndSet(true) ? task(taskId) : null;
                return task != null && !task.getHold()
                        ? task.getState()
                        : calls.timed(tasks).resumeTask(request).getStatus();
            });
        } catch (TaskyardException error) {
            Task task = error.code().equals("conflict") ? task(taskId) : null;
            if (task == null || task.getHold()) {
                throw error;
            }
            return task.getState();
        }
    }

    /** Cancels a task that nobody can run without its params. One whose id was not told is found by its key. */
    private void end(SubmitTaskRequest held, SubmitTaskResponse accepted, TaskyardException error) {
        boolean isInterrupted = Thread.interrupted();
        try {
            var found = accepted != null ? accepted : calls.once(() -> calls.timed(tasks).submitTask(held));
            if (!found.getExisting()) {
                var request = CancelTaskRequest.newBuilder().setTaskId(found.getTaskId()).build();
                calls.once(() -> calls.timed(tasks).cancelTask(request));
            }
        } catch (TaskyardException late) {
            error.addSuppressed(late);
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private boolean isHeld(String taskId) {
        return task(taskId).getHold();
    }

    private Task task(String taskId) {
        GetTaskRequest request = GetTaskRequest.newBuilder().setTaskId(taskId).build();
        return calls.repeated(() -> calls.timed(tasks).getTask(request));
    }
}
