package dev.taskyard;

import com.google.protobuf.ByteString;
import com.google.protobuf.Value;
import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.ArtifactServiceGrpc;
import dev.taskyard.v1.ArtifactServiceGrpc.ArtifactServiceBlockingStub;
import dev.taskyard.v1.ArtifactServiceGrpc.ArtifactServiceStub;
import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.ChildServiceGrpc;
import dev.taskyard.v1.ChildServiceGrpc.ChildServiceBlockingStub;
import dev.taskyard.v1.FetchArtifactRequest;
import dev.taskyard.v1.FetchInputRequest;
import dev.taskyard.v1.Input;
import dev.taskyard.v1.InputServiceGrpc;
import dev.taskyard.v1.InputServiceGrpc.InputServiceBlockingStub;
import dev.taskyard.v1.Payload;
import dev.taskyard.v1.StepServiceGrpc;
import dev.taskyard.v1.StepServiceGrpc.StepServiceBlockingStub;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskCompleted;
import dev.taskyard.v1.UploadArtifactRequest;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.security.MessageDigest;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Artifacts of the tasks of a host, of their inputs and children, under their leases; and params and results that are
 * artifacts since they are too large (docs/rules.md, Artifacts).
 */
final class HostArtifacts {
    private final Calls calls;
    private final String hostId;
    private final Emitter emitter;
    private final ArtifactServiceBlockingStub artifacts;
    private final ArtifactServiceStub streams;
    private final InputServiceBlockingStub inputs;
    private final StepServiceBlockingStub stepCalls;
    private final ChildServiceBlockingStub childCalls;

    /** The most bytes of a result that is no artifact; 0 where the server takes no artifacts. */
    volatile int maxPayloadBytes;

    HostArtifacts(Calls calls, String hostId, Emitter emitter) {
        this.calls = calls;
        this.hostId = hostId;
        this.emitter = emitter;
        artifacts = calls.stub(ArtifactServiceGrpc::newBlockingStub);
        streams = calls.stub(ArtifactServiceGrpc::newStub);
        inputs = calls.stub(InputServiceGrpc::newBlockingStub);
        stepCalls = calls.stub(StepServiceGrpc::newBlockingStub);
        childCalls = calls.stub(ChildServiceGrpc::newBlockingStub);
    }

    /** Those of a task under its lease. */
    Held of(Assignment assignment) {
        var artifacts = assignment.getTask().getArtifactsList();
        return new Held(LeaseKey.of(assignment.getLease()), "", artifacts);
    }

    /** The artifacts of one task, or of an input of it. */
    final class Held {
        private final LeaseKey lease;
        private final String input;

        /** The steps of the task. */
        final HeldSteps steps;

        /** The children of the task. */
        final HeldChildren children;

        /** The hashes of all artifacts by their names. */
        private final Map<String, String> sums = new ConcurrentHashMap<>();

        private Held(LeaseKey lease, String input, List<Artifact> artifacts) {
            this.lease = lease;
            this.input = input;
            steps = new HeldSteps(calls, stepCalls, hostId, lease, this, emitter);
            children = new HeldChildren(calls, childCalls, hostId, lease, this);
            artifacts.forEach(each -> sums.put(each.getName(), each.getSha256()));
        }

        Artifact put(String name, ArtifactContent content, String mediaType) {
            Artifact put = put("", name, content, mediaType);
            sums.put(name, put.getSha256());
            return put;
        }

        /** Uploads an artifact of a child of the task that is held, or of the task itself where {@code child} is empty. */
        Artifact put(String child, String name, ArtifactContent content, String mediaType) {
            return ArtifactUpload.send(content, mediaType, part -> {
                UploadArtifactRequest request = UploadArtifactRequest.newBuilder()
                        .setHostId(hostId)
                        .setTaskId(lease.taskId())
                        .setFencingToken(lease.token())
                        .setName(name)
                        .setOffset(part.offset())
                        .setSizeBytes(part.size())
                        .setSha256(part.sha256())
                        .setContent(part.content())
                        .setChild(child)
                        .build();
                return calls.repeated(() -> calls.timed(artifacts).uploadArtifact(request)).getArtifact();
            });
        }

        /** Reads an artifact, anew where the task has put another one in its place meanwhile. */
        byte[] read(String name) {
            FetchArtifactRequest.Builder request = FetchArtifactRequest.newBuilder()
                    .setHostId(hostId)
                    .setTaskId(lease.taskId())
                    .setFencingToken(lease.token())
                    .setName(name)
                    .setInput(input);
            ArtifactStream.Opener opener = (offset, stream) -> {
                calls.checkOpen();
                streams.fetchArtifact(request.setOffset(offset).build(), stream);
            };
            while (true) {
                String sum = sums.get(name);
                try (InputStream bytes = new ArtifactStream(opener, calls.resumption(), sum)) {
                    return bytes.readAllBytes();
                } catch (ArtifactStream.ReplacedException replaced) {
                    if (sum == null || sum.equals(sums.get(name))) {
                        throw replaced.thrown();
                    }
                } catch (IOException impossible) {
                    throw new UncheckedIOException(impossible);
                }
            }
        }

        /**
         * The task with its params in their place, if these are an artifact.
         *
         * @throws IllegalArgumentException if they are no JSON, or not those of the task
         */
        Task filled(Task task) {
            var reference = References.in(task.getParams(), References.PARAMS, task).orElse(null);
            if (reference == null) {
                return task;
            }
            byte[] data = read(References.PARAMS);
            MessageDigest hash = ArtifactUpload.newHash();
            hash.update(data);
            if (!ArtifactUpload.hexOf(hash).equals(reference.sha256())) {
                throw new IllegalArgumentException("params: the artifact has other bytes than its hash says");
            }
            Task.Builder filled = task.toBuilder().clearParams();
            Payload payload = reference.payload(ByteString.copyFrom(data));
            if (reference.encoding().isEmpty() && Json.plain(payload) instanceof Map<?, ?> map) {
                try {
                    return filled.setParams(Json.structOf(map)).build();
                } catch (Json.InexactException withLongNumbers) {
                    return filled.setInput(payload).build();
                }
            }
            return filled.setInput(payload).build();
        }

        /** An input or a child of the task, with its result where that did not come along, or is an artifact. */
        TaskInput input(String name, Input given) {
            Input handed = given.getOmitted() ? fetch(name) : given;
            Task.Builder task = Task.newBuilder()
                    .setTaskId(handed.getTaskId())
                    .setState(handed.getState())
                    .addAllArtifacts(handed.getArtifactsList());
            if (handed.hasResult()) {
                task.setResult(handed.getResult());
            }
            if (handed.hasOutput()) {
                task.setOutput(handed.getOutput());
            }
            if (handed.hasError()) {
                task.setError(handed.getError());
            }
            Held held = new Held(lease, name, handed.getArtifactsList());
            return new TaskInput(References.whole(task.build(), () -> held.read(References.RESULT)), held);
        }

        private Input fetch(String name) {
            FetchInputRequest request = FetchInputRequest.newBuilder()
                    .setHostId(hostId)
                    .setTaskId(lease.taskId())
                    .setFencingToken(lease.token())
                    .setName(name)
                    .build();
            return calls.repeated(() -> calls.timed(inputs).fetchInput(request));
        }

        /** The most bytes of params or a result that are no artifact; 0 where the server takes no artifacts. */
        int maxPayloadBytes() {
            return maxPayloadBytes;
        }

        /** Whether a result is to be an artifact. */
        boolean isTooLarge(Value result, Payload output) {
            return maxPayloadBytes > 0 && result.getSerializedSize() + output.getSerializedSize() > maxPayloadBytes;
        }

        /** The report of a result, which becomes an artifact if it is too large. */
        TaskCompleted shrunk(TaskCompleted report) {
            if (!isTooLarge(report.getResult(), report.getOutput())) {
                return report;
            }
            Payload output = report.hasOutput() ? report.getOutput() : null;
            Value reference = putValue(References.RESULT, report.getResult(), output);
            return TaskCompleted.newBuilder().setResult(reference).build();
        }

        /** Puts an artifact of a value, or of the output in its place unless that is null. Returns the reference to it. */
        Value putValue(String name, Value value, Payload output) {
            ByteString data =
                    output != null ? output.getData() : ByteString.copyFromUtf8(JsonText.of(Json.plain(value)));
            Artifact put = put(name, ArtifactContent.of(data.toByteArray()), References.JSON);
            String encoding = output == null ? "" : output.getEncoding();
            String href = "/tasks/" + lease.taskId() + "/artifacts/" + name;
            return Value.newBuilder()
                    .setStructValue(References.to(put, encoding, href))
                    .build();
        }
    }
}
