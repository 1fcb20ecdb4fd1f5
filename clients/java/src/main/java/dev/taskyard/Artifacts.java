package dev.taskyard;

import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.ArtifactServiceGrpc;
import dev.taskyard.v1.ArtifactServiceGrpc.ArtifactServiceBlockingStub;
import dev.taskyard.v1.ArtifactServiceGrpc.ArtifactServiceStub;
import dev.taskyard.v1.AttachArtifactRequest;
import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.ReadArtifactRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.UUID;

/** The artifacts of tasks: values of any size under names, see {@link Taskyard#artifacts}. */
public final class Artifacts {
    private final Calls calls;
    private final ArtifactServiceBlockingStub artifacts;
    private final ArtifactServiceStub streams;
    private final TaskServiceBlockingStub tasks;

    /** Takes the bytes of an artifact. */
    private interface Taker<T> {
        T take(InputStream bytes) throws IOException;
    }

    Artifacts(Calls calls) {
        this.calls = calls;
        artifacts = calls.stub(ArtifactServiceGrpc::newBlockingStub);
        streams = calls.stub(ArtifactServiceGrpc::newStub);
        tasks = calls.stub(TaskServiceGrpc::newBlockingStub);
    }

    /**
     * Reads an artifact, over broken connections, and checks its hash. One whose place another one takes meanwhile is read
     * anew.
     *
     * @param taskId the task
     * @param name the name of the artifact
     * @return its bytes
     * @throws TaskyardException {@code not_found}; {@code unavailable} after an outage longer than the client's patience
     */
    public byte[] read(String taskId, String name) {
        try {
            return taken(taskId, name, InputStream::readAllBytes);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
    }

    /**
     * Opens an artifact. Its bytes come as they are read, over broken connections.
     *
     * @param taskId the task
     * @param name the name of the artifact
     * @return its bytes, to be closed. Reading them throws {@link TaskyardException} as {@link #read} does, and {@link
     *     IOException} if they are not those of the artifact, since another one has taken its place
     * @throws TaskyardException {@code not_found}
     */
    public InputStream stream(String taskId, String name) {
        return stream(taskId, find(taskId, name));
    }

    /**
     * Saves an artifact in a file, which is there only once it is whole.
     *
     * @param taskId the task
     * @param name the name of the artifact
     * @param file the file; one that is there already is replaced
     * @throws TaskyardException as {@link #read}
     * @throws UncheckedIOException if the file cannot be written
     */
    public void save(String taskId, String name, Path file) {
        Path beside = file.resolveSibling("." + file.getFileName() + "." + UUID.randomUUID());
        try {
            try {
                taken(taskId, name, bytes -> Files.copy(bytes, beside, StandardCopyOption.REPLACE_EXISTING));
                Files.move(beside, file, StandardCopyOption.REPLACE_EXISTING);
            } finally {
                Files.deleteIfExists(beside);
            }
        } catch (IOException unwritable) {
            throw new UncheckedIOException(unwritable);
        }
    }

    /**
     * Gives a held task an artifact, which its host can read. Resume the task then.
     *
     * @param taskId the task
     * @param name the name: letters, digits, {@code -}, {@code _} and {@code .}, at most 128 characters, not a {@code .}
     *     first; an artifact of this name is replaced
     * @param content its bytes, a file, or what has them
     * @param mediaType its media type, such as {@code image/png}; null for {@code application/octet-stream}
     * @return the artifact
     * @throws TaskyardException {@code not_found}, {@code conflict} if the task is not held or the server keeps no artifacts,
     *     {@code too_large}
     * @throws UncheckedIOException if the content cannot be read
     */
    public Artifact attach(String taskId, String name, ArtifactContent content, String mediaType) {
        return ArtifactUpload.send(content, mediaType, part -> {
            AttachArtifactRequest request = AttachArtifactRequest.newBuilder()
                    .setTaskId(taskId)
                    .setName(name)
                    .setOffset(part.offset())
                    .setSizeBytes(part.size())
                    .setSha256(part.sha256())
                    .setContent(part.content())
                    .build();
            return calls.repeated(() -> calls.timed(artifacts).attachArtifact(request)).getArtifact();
        });
    }

    /** A task that has ended with its output, also where its result is an artifact. */
    Task whole(Task ended) {
        return References.whole(ended, () -> read(ended.getTaskId(), References.RESULT));
    }

    /** Takes all of an artifact, anew if another one has taken its place meanwhile. */
    private <T> T taken(String taskId, String name, Taker<T> taker) throws IOException {
        String before = null;
        ArtifactStream.ReplacedException problem = null;
        while (true) {
            Artifact artifact = find(taskId, name);
            if (artifact.getSha256().equals(before)) {
                throw problem.thrown();
            }
            before = artifact.getSha256();
            try (InputStream bytes = stream(taskId, artifact)) {
                return taker.take(bytes);
            } catch (ArtifactStream.ReplacedException replaced) {
                problem = replaced;
            }
        }
    }

    private Artifact find(String taskId, String name) {
        GetTaskRequest request = GetTaskRequest.newBuilder().setTaskId(taskId).build();
        return calls.repeated(() -> calls.timed(tasks).getTask(request)).getArtifactsList().stream()
                .filter(each -> each.getName().equals(name))
                .findFirst()
                .orElseThrow(() -> TaskyardException.of(Status.NOT_FOUND, "artifact not found"));
    }

    private InputStream stream(String taskId, Artifact artifact) {
        ReadArtifactRequest.Builder request =
                ReadArtifactRequest.newBuilder().setTaskId(taskId).setName(artifact.getName());
        ArtifactStream.Opener opener = (offset, stream) -> {
            calls.checkOpen();
            streams.readArtifact(request.setOffset(offset).build(), stream);
        };
        return new ArtifactStream(opener, calls.resumption(), artifact.getSha256());
    }
}
