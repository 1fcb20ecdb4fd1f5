package dev.taskyard;

import com.google.protobuf.ByteString;
import dev.taskyard.v1.FetchStepsRequest;
import dev.taskyard.v1.RecordStepRequest;
import dev.taskyard.v1.Step;
import dev.taskyard.v1.StepServiceGrpc.StepServiceBlockingStub;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskCompleted;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/** The steps of a task under its lease: those of earlier attempts are found by their names, others are recorded. */
final class HeldSteps {
    static final String NAME_RULE = "its name must have 1 to 256 characters, and not be blank";

    private static final int MAX_NAME = 256;

    /** What names a step of a task. */
    record Key(Step.Kind kind, String name) {
        /** A server of an older version names no kind. */
        static Key of(Step step) {
            return new Key(step.hasKind() ? step.getKind() : Step.Kind.work, step.getName());
        }
    }

    /** What the run waits for. */
    final HeldWaits waits = new HeldWaits(this);

    private final Calls calls;
    private final String hostId;
    private final LeaseKey lease;
    private final HostArtifacts.Held held;
    private final StepServiceBlockingStub steps;
    private final Emitter emitter;

    /** The names of this run. */
    private final Set<String> used = ConcurrentHashMap.newKeySet();

    /** Held during the fetch. */
    private final ReentrantLock fetching = new ReentrantLock();

    /** Those of earlier attempts and runs, null until they are fetched. */
    private Map<Key, Step> recorded;

    HeldSteps(
            Calls calls,
            StepServiceBlockingStub steps,
            String hostId,
            LeaseKey lease,
            HostArtifacts.Held held,
            Emitter emitter) {
        this.calls = calls;
        this.hostId = hostId;
        this.lease = lease;
        this.held = held;
        this.steps = steps;
        this.emitter = emitter;
    }

    /** Does a step of a task, see {@link RunningTask#step(String, Class, Callable)}. */
    <T> T run(Task task, String name, Class<T> type, Callable<? extends T> work) throws Exception {
        if (!isName(name)) {
            throw failed(name, NAME_RULE, null);
        }
        waits.begin();
        try {
            return runOnce(task, name, type, work);
        } finally {
            waits.finish();
        }
    }

    private <T> T runOnce(Task task, String name, Class<T> type, Callable<? extends T> work) throws Exception {
        if (!used.add(name)) {
            throw failed(name, "this run has it already: each step needs a name of its own", null);
        }
        RecordStepRequest.Builder request;
        T value;
        boolean isDone = false;
        try {
            Step found = earlier(task).get(new Key(Step.Kind.work, name));
            if (found != null) {
                T kept = type.cast(converted(valueOf(task, found), type));
                isDone = true;
                return kept;
            }
            long began = System.nanoTime();
            Object result = within(name, work);
            long took = System.nanoTime() - began;
            request = RecordStepRequest.newBuilder()
                    .setHostId(hostId)
                    .setTaskId(lease.taskId())
                    .setFencingToken(lease.token())
                    .setName(name)
                    .setDurationMs((int) TimeUnit.NANOSECONDS.toMillis(took));
            value = type.cast(put(request, result, type));
            // A later run that finds the step does not say it again.
            emitter.flush(lease);
            isDone = true;
        } finally {
            if (!isDone) {
                // Nothing was sent, so that it may be tried again.
                used.remove(name);
            }
        }
        record(request);
        return value;
    }

    private static <T> T within(String name, Callable<? extends T> work) throws Exception {
        String before = HeldWaits.setStep(name);
        try {
            return work.call();
        } finally {
            HeldWaits.setStep(before);
        }
    }

    static boolean isName(String name) {
        return !name.isBlank() && name.codePointCount(0, name.length()) <= MAX_NAME;
    }

    /** The steps of earlier attempts and runs by their names. They are fetched once, and only if there are any. */
    Map<Key, Step> earlier(Task task) {
        if (task.getSteps() == 0) {
            return Map.of();
        }
        fetching.lock();
        try {
            if (recorded == null) {
                FetchStepsRequest request = FetchStepsRequest.newBuilder()
                        .setHostId(hostId)
                        .setTaskId(lease.taskId())
                        .setFencingToken(lease.token())
                        .build();
                Map<Key, Step> found = new HashMap<>();
                calls.repeated(() -> calls.timed(steps).fetchSteps(request))
                        .getStepsList()
                        .forEach(step -> found.put(Key.of(step), step));
                recorded = found;
            }
            return recorded;
        } finally {
            fetching.unlock();
        }
    }

    /** The value of a recorded step, also where that is an artifact. */
    private Object valueOf(Task task, Step step) {
        String artifact = artifactOf(step.getName());
        var reference = step.hasOutput()
                ? null
                : References.in(step.getResult().getStructValue(), artifact, task).orElse(null);
        // A step may return what looks like a reference.
        if (reference != null && References.hasBytes(task, artifact, reference)) {
            return Json.plain(reference.payload(ByteString.copyFrom(held.read(artifact))));
        }
        return step.hasOutput() ? Json.plain(step.getOutput()) : Json.plain(step.getResult());
    }

    /** Puts a result into the request, and returns what a later run finds in its place. */
    private static Object put(RecordStepRequest.Builder request, Object result, Class<?> type) {
        try {
            TaskCompleted completed = (result instanceof Exact exact ? exact : Exact.of(result)).completed();
            if (completed.hasOutput()) {
                request.setOutput(completed.getOutput());
            }
            if (completed.hasResult()) {
                request.setResult(completed.getResult());
            }
            Object kept = completed.hasOutput() ? Json.plain(completed.getOutput()) : Json.plain(completed.getResult());
            return converted(kept, type);
        } catch (IllegalArgumentException malformed) {
            throw failed(request.getName(), "its result cannot be kept: " + malformed.getMessage(), "bad_result");
        }
    }

    /** Returns once the server keeps a step. A result that is too large becomes an artifact. */
    private void record(RecordStepRequest.Builder request) {
        if (!held.isTooLarge(request.getResult(), request.getOutput())) {
            try {
                send(request);
                return;
            } catch (TaskyardException refused) {
                // There is no room for it among the other steps either. One step too many stays so.
                if (!refused.code().equals("too_large") || refused.reason().startsWith("name:")) {
                    throw refused;
                }
            }
        }
        try {
            String artifact = artifactOf(request.getName());
            var payload = request.hasOutput() ? request.getOutput() : null;
            request.setResult(held.putValue(artifact, request.getResult(), payload)).clearOutput();
        } catch (TaskyardException refused) {
            if (Set.of("lease_lost", "cancelled").contains(refused.code())) {
                throw refused;
            }
            String reason = "its result is too large, and cannot be an artifact: " + refused.getMessage();
            throw failed(request.getName(), reason, "bad_result");
        }
        send(request);
    }

    private void send(RecordStepRequest.Builder request) {
        RecordStepRequest built = request.build();
        calls.repeated(() -> calls.timed(steps).recordStep(built));
    }

    /** A plain value as one of a type: whole numbers are Longs once they were sent. */
    static Object converted(Object value, Class<?> type) {
        if (value == null || type.isInstance(value)) {
            return value;
        }
        if (value instanceof Number number) {
            BigDecimal exact = new BigDecimal(number.toString());
            try {
                if (type == Integer.class) {
                    return exact.intValueExact();
                } else if (type == Long.class) {
                    return exact.longValueExact();
                } else if (type == BigInteger.class) {
                    return exact.toBigIntegerExact();
                } else if (type == Double.class) {
                    return number.doubleValue();
                } else if (type == BigDecimal.class) {
                    return exact;
                }
            } catch (ArithmeticException larger) {
                throw new IllegalArgumentException(number + " is no " + type.getSimpleName(), larger);
            }
        }
        throw new IllegalArgumentException(
                "as a plain value it is a " + value.getClass().getSimpleName() + ", no " + type.getSimpleName());
    }

    /** The name of the artifact that the result of a step is. */
    private static String artifactOf(String name) {
        MessageDigest hash = ArtifactUpload.newHash();
        hash.update(name.getBytes(StandardCharsets.UTF_8));
        return "step-" + ArtifactUpload.hexOf(hash).substring(0, 16) + ".json";
    }

    private static NotRetryableException failed(String name, String reason, String code) {
        return new NotRetryableException("step '" + name + "': " + reason, code);
    }
}
