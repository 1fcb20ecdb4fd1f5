package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskEvent;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.WatchEnd;
import dev.taskyard.v1.WatchTasksRequest;
import dev.taskyard.v1.WatchTasksResponse;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsServerCredentials;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Connections by TLS, credentials that a server refuses, and what a client says and does then. */
@Timeout(60)
class TlsTest {
    private static final String SECRET = "tyd_0123456789";
    private static final Context.Key<String> AUTHORIZATION = Context.key("authorization");
    private static final Metadata.Key<String> HEADER =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final List<Server> servers = new ArrayList<>();
    private final AtomicInteger watches = new AtomicInteger();
    private final AtomicInteger cancelled = new AtomicInteger();
    private volatile String accepted;
    private volatile Path tokenFile;

    @TempDir
    Path folder;

    private TestAuthority ca;
    private TestAuthority clients;
    private TestAuthority others;

    @BeforeEach
    void make() throws IOException {
        ca = new TestAuthority(folder, "ca");
        clients = new TestAuthority(folder, "clients");
        others = new TestAuthority(folder, "others");
    }

    @AfterEach
    void stop() {
        servers.forEach(Server::shutdownNow);
    }

    private TaskyardOptions serve(ServerCredentials credentials) throws IOException {
        Server server = Grpc.newServerBuilderForPort(0, credentials)
                .addService(new Picky())
                .intercept(new Reader())
                .build()
                .start();
        servers.add(server);
        return TaskyardOptions.of("127.0.0.1:" + server.getPort()).withPatience(Duration.ofMillis(100));
    }

    private TaskyardOptions plain() throws IOException {
        return serve(InsecureServerCredentials.create());
    }

    private TaskyardOptions encrypted() throws IOException {
        var own = ca.issue();
        return serve(TlsServerCredentials.create(own.cert().toFile(), own.key().toFile()));
    }

    private TaskyardOptions mutual() throws IOException {
        var own = ca.issue();
        return serve(TlsServerCredentials.newBuilder()
                .keyManager(own.cert().toFile(), own.key().toFile())
                .trustManager(clients.file().toFile())
                .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE)
                .build());
    }

    private static String get(TaskyardOptions options) {
        try (Taskyard taskyard = Taskyard.connect(options)) {
            return taskyard.get("tsk_1").getTaskId();
        }
    }

    private static TaskyardOptions showing(TaskyardOptions options, TestAuthority.Pair pair) {
        return options.withClientCertificate(pair.cert(), pair.key());
    }

    @Test
    void aCaEncryptsTheConnection() throws IOException {
        assertEquals("tsk_1", get(encrypted().withCa(ca.file())));
    }

    @Test
    void aClientCertificateIsShownToAServerThatDemandsOne() throws IOException {
        assertEquals("tsk_1", get(showing(mutual().withCa(ca.file()), clients.issue())));
    }

    @Test
    void theErrorOfAConnectionSaysWhatToSet() throws IOException {
        says("if it demands TLS, set ca", encrypted());
        says("does not speak TLS at this address", plain().withTls());
        says("set ca to the one that signed it", encrypted().withTls());
        says("is not signed by the CA in " + others.file(), encrypted().withCa(others.file()));
        says("demands a client certificate, and none is set", mutual().withCa(ca.file()));
        says("after the client certificate", showing(mutual().withCa(ca.file()), others.issue()));
    }

    private static void says(String hint, TaskyardOptions options) {
        var error = assertThrows(TaskyardException.class, () -> get(options));
        assertEquals("unavailable", error.code(), error.getMessage());
        assertTrue(error.reason().contains(hint), hint + " is not in: " + error.reason());
        assertNotNull(error.getCause().getCause(), "the words of the transport are lost");
    }

    @Test
    void anOutageOfAServerWithTlsIsNotBlamedOnCertificates() throws IOException {
        var address = TaskyardOptions.of("127.0.0.1:" + LiveServer.freePort());
        var options = showing(address.withCa(ca.file()).withPatience(Duration.ofMillis(50)), clients.issue());
        var error = assertThrows(TaskyardException.class, () -> get(options));
        assertFalse(error.reason().contains("certificate"), error.reason());
    }

    @Test
    void anOutageOfAServerThatHasAnsweredIsNotBlamedOnTls() throws IOException {
        try (Taskyard taskyard = Taskyard.connect(plain())) {
            taskyard.get("tsk_1");
            servers.forEach(Server::shutdownNow);
            var error = assertThrows(TaskyardException.class, () -> taskyard.get("tsk_1"));
            assertFalse(error.reason().contains("TLS"), error.reason());
        }
    }

    @Test
    void replacedCertificatesHoldForNewConnections() throws IOException {
        Path trusted = Files.copy(others.file(), folder.resolve("trusted.pem"));
        var own = others.issue();
        var options = showing(mutual().withCa(trusted), own);
        try (Taskyard taskyard = Taskyard.connect(options)) {
            assertThrows(TaskyardException.class, () -> taskyard.get("tsk_1"));
            var next = clients.issue();
            Files.copy(ca.file(), trusted, StandardCopyOption.REPLACE_EXISTING);
            Files.move(next.cert(), own.cert(), StandardCopyOption.REPLACE_EXISTING);
            Files.move(next.key(), own.key(), StandardCopyOption.REPLACE_EXISTING);
            assertEquals("tsk_1", within(() -> taskyard.get("tsk_1").getTaskId()));
        }
    }

    /** Tries for some time: after a failure gRPC may wait before it connects again. */
    private static String within(Supplier<String> call) {
        long until = System.nanoTime() + 20_000_000_000L;
        while (true) {
            try {
                return call.get();
            } catch (TaskyardException error) {
                if (System.nanoTime() > until) {
                    throw error;
                }
            }
        }
    }

    @Test
    void aRefusalSaysWhichCredentialsWereTriedAndNotWhatTheyHold() throws IOException {
        accepted = "another";
        Path file = Files.writeString(folder.resolve("token"), SECRET);
        var own = clients.issue();
        tried("nothing: no token and no client certificate is set", plain());
        tried("the token from the option token", plain().withToken(SECRET));
        tried("the token file " + file + " from tokenFile", plain().withTokenFile(file));
        tried("the client certificate " + own.cert(), showing(mutual().withCa(ca.file()), own));
    }

    private static void tried(String what, TaskyardOptions options) {
        try (Taskyard taskyard = Taskyard.connect(options)) {
            var unary = assertThrows(TaskyardException.class, () -> taskyard.get("tsk_1"));
            var watch = assertThrows(TaskyardException.class, () -> {
                try (Watch open = taskyard.watch(WatchTasksRequest.getDefaultInstance())) {
                    open.hasNext();
                }
            });
            var stub = taskyard.stub(TaskServiceGrpc::newBlockingStub);
            var raw = assertThrows(
                    StatusRuntimeException.class, () -> stub.getTask(GetTaskRequest.getDefaultInstance()));
            for (TaskyardException error : List.of(unary, watch, TaskyardException.of(raw))) {
                assertEquals("unauthenticated", error.code());
                assertTrue(error.reason().endsWith("(tried: " + what + ")"), error.reason());
                for (Throwable each = error; each != null; each = each.getCause()) {
                    assertFalse(each.toString().contains(SECRET), each.toString());
                }
            }
        }
    }

    @Test
    void aWatchGoesOnOnceWithTheTokenReadAnew() throws IOException {
        accepted = "first";
        tokenFile = Files.writeString(folder.resolve("token"), "first");
        try (Taskyard taskyard = Taskyard.connect(plain().withTokenFile(tokenFile));
                Watch watch = taskyard.watch(WatchTasksRequest.getDefaultInstance())) {
            assertEquals("a", watch.next().getTask().getTaskId());
            assertFalse(watch.hasNext());
        }
        assertEquals(2, watches.get());
    }

    @Test
    void aWatchEndsWhenTheTokenReadAnewIsRefusedToo() throws IOException {
        accepted = "another";
        Path file = Files.writeString(folder.resolve("token"), "revoked");
        for (var each : List.of(plain().withTokenFile(file), plain().withToken("revoked"))) {
            watches.set(0);
            try (Taskyard taskyard = Taskyard.connect(each);
                    Watch watch = taskyard.watch(WatchTasksRequest.getDefaultInstance())) {
                assertEquals("unauthenticated", assertThrows(TaskyardException.class, watch::hasNext).code());
            }
            assertEquals(each.caller().tokenFile() == null ? 1 : 2, watches.get());
        }
    }

    @Test
    void aReadThatAStoppingServerCancelsIsRepeated() throws IOException {
        cancelled.set(2);
        assertEquals("tsk_1", get(plain().withPatience(Duration.ofSeconds(5))));
    }

    /** Reads the token of a call. */
    private static final class Reader implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            var context = Context.current().withValue(AUTHORIZATION, String.valueOf(headers.get(HEADER)));
            return Contexts.interceptCall(context, call, headers, next);
        }
    }

    /** Takes one token, and quotes others in its refusals. */
    private final class Picky extends TaskServiceGrpc.TaskServiceImplBase {
        private boolean refuses(StreamObserver<?> answer) {
            String got = AUTHORIZATION.get();
            if (accepted == null || got.equals("Bearer " + accepted)) {
                return false;
            }
            answer.onError(Status.UNAUTHENTICATED.withDescription("not valid: " + got).asRuntimeException());
            return true;
        }

        @Override
        public void getTask(GetTaskRequest request, StreamObserver<Task> answer) {
            if (cancelled.getAndDecrement() > 0) {
                answer.onError(Status.CANCELLED.withDescription("CANCEL").asRuntimeException());
            } else if (!refuses(answer)) {
                answer.onNext(Task.newBuilder().setTaskId("tsk_1").build());
                answer.onCompleted();
            }
        }

        @Override
        public void watchTasks(WatchTasksRequest request, StreamObserver<WatchTasksResponse> answer) {
            int number = watches.incrementAndGet();
            if (refuses(answer)) {
                return;
            }
            if (number > 1) {
                var end = WatchEnd.newBuilder().setReason(WatchEnd.Reason.tasks_ended);
                answer.onNext(WatchTasksResponse.newBuilder().setEnd(end).build());
                answer.onCompleted();
                return;
            }
            var event = TaskEvent.newBuilder().setTask(Task.newBuilder().setTaskId("a"));
            answer.onNext(WatchTasksResponse.newBuilder().addEvents(event).setCursor("1").build());
            try {
                Files.writeString(tokenFile, "second");
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            accepted = "second";
            answer.onError(Status.UNAUTHENTICATED.withDescription("expired").asRuntimeException());
        }
    }
}
