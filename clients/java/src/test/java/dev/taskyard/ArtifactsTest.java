package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.api.HttpBody;
import com.google.protobuf.ByteString;
import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.ArtifactServiceGrpc;
import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.ReadArtifactRequest;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Artifacts of tasks, with a real server behind a proxy that breaks. */
@Timeout(60)
class ArtifactsTest {
    @TempDir
    Path folder;

    private final TaskyardOptions options = LiveServer.options();
    private final Taskyard taskyard = Taskyard.connect(options);
    private CuttingProxy proxy;
    private Taskyard broken;

    @BeforeEach
    void connect() throws IOException {
        proxy = new CuttingProxy(Integer.parseInt(options.address().split(":")[1]));
        broken = Taskyard.connect(TaskyardOptions.of(proxy.address()).withNamespace(options.namespace()));
    }

    @AfterEach
    void close() throws IOException {
        broken.close();
        taskyard.close();
        proxy.close();
    }

    private RunningHost worker(Handler handler) {
        return new RunningHost(new Host(broken, "worker").action("work", handler));
    }

    private String held() {
        var task = SubmitTaskRequest.newBuilder().setAction("work").setHold(true);
        return taskyard.submit(task.build()).getTaskId();
    }

    private static byte[] someBytes(int count) {
        byte[] data = new byte[count];
        for (int n = 0; n < count; n++) {
            data[n] = (byte) (n % 251);
        }
        return data;
    }

    /** The bytes, which cut all connections after their first part. */
    private ArtifactContent cutting(byte[] data) {
        AtomicBoolean isCut = new AtomicBoolean();
        return () -> new FilterInputStream(new ByteArrayInputStream(data)) {
            @Override
            public byte[] readNBytes(int count) throws IOException {
                byte[] read = super.readNBytes(count);
                if (read.length < count && !isCut.getAndSet(true)) {
                    proxy.cut();
                }
                return read;
            }
        };
    }

    @Test
    void handlersPutArtifactsThatAnybodyReadsAcrossBrokenConnections() throws IOException {
        byte[] data = someBytes(3 * ArtifactUpload.PART_BYTES + 5);
        try (RunningHost host = worker(task -> {
            Artifact put = task.putArtifact("shot.png", cutting(data), "image/png");
            task.putArtifact("empty", ArtifactContent.of(new byte[0]), null);
            proxy.cut();
            return Map.of("sum", put.getSha256(), "size", task.readArtifact("shot.png").length);
        })) {
            String id = taskyard.submit("work", Map.of()).getTaskId();
            Task ended = taskyard.await(id);
            assertEquals(2, ended.getArtifactsCount());
            Artifact shot = ended.getArtifacts(0);
            assertEquals(
                    Map.of("sum", shot.getSha256(), "size", (long) data.length), Json.plain(ended.getResult()));
            assertEquals(List.of("shot.png", "image/png"), List.of(shot.getName(), shot.getMediaType()));
            assertEquals(1, shot.getAttempt());
            assertTrue(shot.hasCreatedAt());
            assertEquals("application/octet-stream", ended.getArtifacts(1).getMediaType());
            assertArrayEquals(data, broken.artifacts().read(id, "shot.png"));
            assertEquals(0, broken.artifacts().read(id, "empty").length);
            broken.artifacts().save(id, "shot.png", folder.resolve("saved"));
            assertArrayEquals(data, Files.readAllBytes(folder.resolve("saved")));

            ByteArrayOutputStream read = new ByteArrayOutputStream();
            try (InputStream bytes = broken.artifacts().stream(id, "shot.png")) {
                read.write(bytes.read());
                read.write(bytes.readNBytes(100_000));
                proxy.cut();
                bytes.transferTo(read);
            }
            assertArrayEquals(data, read.toByteArray());
        }
    }

    @Test
    void anArtifactThatWasAttachedIsThereForTheHandler() throws IOException {
        String id = held();
        Path file = Files.writeString(folder.resolve("page.html"), "<h1>");
        Artifact attached = taskyard.artifacts().attach(id, "page.html", ArtifactContent.of(file), "text/html");
        assertEquals("text/html", attached.getMediaType());
        assertFalse(attached.hasAttempt());
        taskyard.resume(id);
        var refused = assertThrows(
                TaskyardException.class,
                () -> taskyard.artifacts().attach(id, "page.html", ArtifactContent.of(someBytes(1)), null));
        assertEquals("conflict", refused.code());
        try (RunningHost host = worker(task -> {
            var none = assertThrows(TaskyardException.class, () -> task.readArtifact("none"));
            String before = new String(task.readArtifact("page.html"), StandardCharsets.UTF_8);
            task.putArtifact("page.html", ArtifactContent.of(someBytes(2)), null);
            return List.of(none.code(), before, task.readArtifact("page.html").length);
        })) {
            assertEquals(List.of("not_found", "<h1>", 2L), taskyard.result(id));
        }
    }

    @Test
    void anArtifactThatCannotBeReadIsAnErrorAndLeavesNoFile() throws IOException {
        String id = held();
        for (String task : List.of(id, "tsk_none")) {
            var none = assertThrows(TaskyardException.class, () -> taskyard.artifacts().read(task, "none"));
            assertEquals("not_found", none.code());
            Path file = folder.resolve("none");
            assertThrows(TaskyardException.class, () -> taskyard.artifacts().save(task, "none", file));
        }
        var malformed = assertThrows(
                TaskyardException.class,
                () -> taskyard.artifacts().attach(id, "../none", ArtifactContent.of(someBytes(1)), null));
        assertEquals("bad_request", malformed.code());
        taskyard.artifacts().attach(id, "some", ArtifactContent.of(someBytes(1)), null);
        Path nowhere = folder.resolve("none").resolve("some");
        assertThrows(UncheckedIOException.class, () -> taskyard.artifacts().save(id, "some", nowhere));
        try (var left = Files.list(folder)) {
            assertEquals(0, left.count());
        }
    }

    @Test
    void aStreamOfAnArtifactWhosePlaceAnotherOneTakesEndsWithAnError() throws IOException {
        String id = held();
        byte[] later = someBytes(7);
        taskyard.artifacts().attach(id, "data", ArtifactContent.of(someBytes(2 * ArtifactUpload.PART_BYTES)), null);
        try (InputStream bytes = taskyard.artifacts().stream(id, "data")) {
            taskyard.artifacts().attach(id, "data", ArtifactContent.of(later), null);
            assertThrows(ArtifactStream.ReplacedException.class, bytes::readAllBytes);
        }
        assertArrayEquals(later, taskyard.artifacts().read(id, "data"));
    }

    /** A server whose task shows these hashes of its artifact, one after the other, and the last one from then on. */
    private static Server replacing(byte[] bytes, String... sums) throws IOException {
        AtomicInteger shown = new AtomicInteger();
        return Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new TaskServiceGrpc.TaskServiceImplBase() {
                    @Override
                    public void getTask(GetTaskRequest request, StreamObserver<Task> answer) {
                        String sum = sums[Math.min(shown.getAndIncrement(), sums.length - 1)];
                        var artifact = Artifact.newBuilder().setName("data").setSha256(sum);
                        answer.onNext(Task.newBuilder().addArtifacts(artifact).build());
                        answer.onCompleted();
                    }
                })
                .addService(new ArtifactServiceGrpc.ArtifactServiceImplBase() {
                    @Override
                    public void readArtifact(ReadArtifactRequest request, StreamObserver<HttpBody> answer) {
                        answer.onNext(HttpBody.newBuilder().setData(ByteString.copyFrom(bytes)).build());
                        answer.onCompleted();
                    }
                })
                .build()
                .start();
    }

    @Test
    void anArtifactWhosePlaceAnotherOneTakesIsReadAnew() throws IOException {
        byte[] later = someBytes(7);
        MessageDigest hash = ArtifactUpload.newHash();
        hash.update(later);
        String sum = ArtifactUpload.hexOf(hash);
        for (boolean isSaved : List.of(false, true)) {
            Server server = replacing(later, "00", sum);
            try (Taskyard client = Taskyard.connect("127.0.0.1:" + server.getPort())) {
                Path file = folder.resolve("later");
                if (isSaved) {
                    client.artifacts().save("tsk_1", "data", file);
                }
                assertArrayEquals(later, isSaved ? Files.readAllBytes(file) : client.artifacts().read("tsk_1", "data"));
            } finally {
                server.shutdownNow();
            }
        }
        Server server = replacing(later, "00");
        try (Taskyard client = Taskyard.connect("127.0.0.1:" + server.getPort())) {
            var other = assertThrows(TaskyardException.class, () -> client.artifacts().read("tsk_1", "data"));
            assertEquals("internal", other.code());
        } finally {
            server.shutdownNow();
        }
    }

    @Test
    void anUploadOfWhichTheServerHasLostSomeBeginsAnewAFewTimes() {
        var offsets = new ArrayList<Long>();
        var lost = TaskyardException.of(Status.INVALID_ARGUMENT, "offset: is 1048576, must be 0");
        ArtifactContent content = ArtifactContent.of(someBytes(ArtifactUpload.PART_BYTES + 1));
        ArtifactUpload.send(content, null, part -> {
            offsets.add(part.offset());
            if (part.offset() > 0 && offsets.size() < 3) {
                throw lost;
            }
            return Artifact.getDefaultInstance();
        });
        long second = ArtifactUpload.PART_BYTES;
        assertEquals(List.of(0L, second, 0L, second), offsets);
        var always = assertThrows(TaskyardException.class, () -> ArtifactUpload.send(content, null, part -> {
            throw lost;
        }));
        assertEquals(lost, always);
    }
}
