package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.taskyard.v1.BatchOutcome;
import dev.taskyard.v1.BatchServiceGrpc;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.CancelTaskResponse;
import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.ResumeTaskRequest;
import dev.taskyard.v1.ResumeTaskResponse;
import dev.taskyard.v1.SubmitBatchRequest;
import dev.taskyard.v1.SubmitBatchResponse;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskEvent;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.WatchEnd;
import dev.taskyard.v1.WatchTasksRequest;
import dev.taskyard.v1.WatchTasksResponse;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsServerCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollIoHandler;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Clients of several servers, and of one that is not the owner of the namespace. */
@Timeout(60)
class ReplicasTest {
    private static final StatusRuntimeException ELSEWHERE = refusal(Code.UNAVAILABLE, "NOT_OWNER", 50);
    private static final StatusRuntimeException TOO_MANY = refusal(Code.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS", 300);
    private static final Duration NO_PATIENCE = Duration.ofMillis(1);

    private final List<Server> servers = new ArrayList<>();

    @TempDir
    Path folder;

    @AfterEach
    void stop() {
        servers.forEach(Server::shutdownNow);
    }

    private static StatusRuntimeException refusal(Code code, String reason, int ms) {
        var info = ErrorInfo.newBuilder().setReason(reason).setDomain("taskyard").putMetadata("owner", "b");
        var delay = com.google.protobuf.Duration.newBuilder().setNanos(ms * 1_000_000);
        return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
                .setCode(code.getNumber())
                .setMessage("refused")
                .addDetails(Any.pack(info.build()))
                .addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()))
                .build());
    }

    /** A server whose first calls fail. */
    private static final class Replica extends TaskServiceGrpc.TaskServiceImplBase {
        private final AtomicInteger calls = new AtomicInteger();
        private final AtomicInteger watches = new AtomicInteger();
        private volatile int failures;
        private volatile StatusRuntimeException failure = ELSEWHERE;
        private Server server;

        private <T> void answer(StreamObserver<T> answer, T value) {
            if (calls.incrementAndGet() <= failures) {
                answer.onError(failure);
            } else {
                answer.onNext(value);
                answer.onCompleted();
            }
        }

        String address() {
            return "127.0.0.1:" + server.getPort();
        }

        @Override
        public void getTask(GetTaskRequest request, StreamObserver<Task> answer) {
            answer(answer, Task.newBuilder().setBatchId("bat_first").setState(Task.State.cancelled).build());
        }

        @Override
        public void submitTask(SubmitTaskRequest request, StreamObserver<SubmitTaskResponse> answer) {
            answer(answer, SubmitTaskResponse.getDefaultInstance());
        }

        @Override
        public void resumeTask(ResumeTaskRequest request, StreamObserver<ResumeTaskResponse> answer) {
            answer(answer, ResumeTaskResponse.getDefaultInstance());
        }

        @Override
        public void cancelTask(CancelTaskRequest request, StreamObserver<CancelTaskResponse> answer) {
            if (calls.incrementAndGet() <= failures) {
                answer.onError(failure);
            } else {
                answer.onError(Status.FAILED_PRECONDITION.asRuntimeException());
            }
        }

        @Override
        public void watchTasks(WatchTasksRequest request, StreamObserver<WatchTasksResponse> answer) {
            int number = watches.incrementAndGet();
            var task = Task.newBuilder().setTaskId("t");
            var event = TaskEvent.newBuilder().setKind(TaskEvent.Kind.changed).setTask(task);
            if (number < 4) {
                answer.onNext(WatchTasksResponse.newBuilder().setCursor("c" + number).addEvents(event).build());
                answer.onError(ELSEWHERE);
            } else {
                var end = WatchEnd.newBuilder().setReason(WatchEnd.Reason.tasks_ended).setMessage(request.getCursor());
                answer.onNext(WatchTasksResponse.newBuilder().setEnd(end).build());
                answer.onCompleted();
            }
        }
    }

    /** The batches of a replica. */
    private record Batches(Replica replica) implements io.grpc.BindableService {
        @Override
        public io.grpc.ServerServiceDefinition bindService() {
            return new BatchServiceGrpc.BatchServiceImplBase() {
                @Override
                public void submitBatch(SubmitBatchRequest request, StreamObserver<SubmitBatchResponse> answer) {
                    var outcome = BatchOutcome.newBuilder().setTaskId("tsk_1");
                    replica.answer(
                            answer,
                            SubmitBatchResponse.newBuilder().setBatchId("bat_second").addTasks(outcome).build());
                }
            }.bindService();
        }
    }

    private Replica serve(ServerCredentials credentials) throws IOException {
        Replica replica = new Replica();
        replica.server = Grpc.newServerBuilderForPort(0, credentials)
                .addService(replica)
                .addService(new Batches(replica))
                .build()
                .start();
        servers.add(replica.server);
        return replica;
    }

    private Replica serve() throws IOException {
        return serve(InsecureServerCredentials.create());
    }

    private static TaskyardOptions at(String... addresses) {
        return TaskyardOptions.of(List.of(addresses)).withAgentId("ann");
    }

    @Test
    void aDeadServerIsPassedOver() throws IOException {
        String live = serve().address();
        String dead = "127.0.0.1:" + LiveServer.freePort();
        // In one of a few clients the live one comes last.
        for (int n = 0; n < 8; n++) {
            var options = at(dead, live, "no-such-name.invalid:1").withPatience(NO_PATIENCE);
            try (Taskyard taskyard = Taskyard.connect(options)) {
                taskyard.get("tsk_1");
            }
        }
        try (Taskyard taskyard = Taskyard.connect(at("dns:///" + live))) {
            taskyard.get("tsk_1");
        }
    }

    @Test
    void clientsSpreadAtRandomAndEachKeepsItsServer() throws IOException {
        Replica a = serve();
        Replica b = serve();
        for (int n = 0; n < 20; n++) {
            int before = a.calls.get();
            try (Taskyard taskyard = Taskyard.connect(at(a.address(), b.address()))) {
                for (int call = 0; call < 3; call++) {
                    taskyard.get("tsk_1");
                }
            }
            assertTrue(List.of(0, 3).contains(a.calls.get() - before), "a client has changed its server");
        }
        assertTrue(a.calls.get() > 0 && b.calls.get() > 0, "all clients chose the same server");
    }

    @Test
    void aClientGoesToAnotherServerWhenItsOwnDies() throws IOException {
        Replica a = serve();
        Replica b = serve();
        try (Taskyard taskyard = Taskyard.connect(at(a.address(), b.address()))) {
            taskyard.get("tsk_1");
            (a.calls.get() > 0 ? a : b).server.shutdownNow();
            taskyard.get("tsk_1");
        }
        assertTrue(a.calls.get() > 0 && b.calls.get() > 0);
    }

    @Test
    void eachServerShowsACertificateOfItsOwnName() throws IOException {
        TestAuthority ca = new TestAuthority(folder, "ca");
        List<Replica> replicas = new ArrayList<>();
        for (String name : List.of("DNS:localhost", "IP:127.0.0.1")) {
            TestAuthority.Pair own = ca.issue(name);
            replicas.add(serve(TlsServerCredentials.create(own.cert().toFile(), own.key().toFile())));
        }
        String[] both = {
            "https://localhost:" + replicas.get(0).server.getPort(), replicas.get(1).address(),
        };
        for (int n = 0; n < 20; n++) {
            try (Taskyard taskyard = Taskyard.connect(at(both).withCa(ca.file()))) {
                taskyard.get("tsk_1");
            }
        }
        replicas.forEach(each -> assertTrue(each.calls.get() > 0, "one of the certificates was refused"));
    }

    @Test
    void everyCallIsRepeatedWhileAnotherServerOwnsTheNamespace() throws IOException {
        List<Consumer<Taskyard>> calls = List.of(
                taskyard -> taskyard.submit("echo", Map.of()),
                // It is not repeated otherwise.
                taskyard -> taskyard.resume("tsk_1"),
                // The batch is that of the answer: no earlier one may have been made.
                taskyard -> assertEquals(
                        "bat_second",
                        taskyard.submitBatch(List.of(BatchTask.getDefaultInstance())).getBatchId()),
                // Its conflict is real: the calls before it did nothing.
                taskyard -> assertEquals("conflict", failureOf(() -> taskyard.cancel("tsk_1")).code()));
        for (Consumer<Taskyard> call : calls) {
            Replica replica = serve();
            replica.failures = 3;
            try (Taskyard taskyard = Taskyard.connect(at(replica.address()))) {
                long began = System.nanoTime();
                call.accept(taskyard);
                assertTrue(System.nanoTime() - began >= 55_000_000);
            }
            assertEquals(4, replica.calls.get());
        }
    }

    @Test
    void aNamespaceWithoutAnOwnerIsUnavailableAfterThePatience() throws IOException {
        Replica replica = serve();
        replica.failures = 10_000;
        try (Taskyard taskyard = Taskyard.connect(at(replica.address()).withPatience(Duration.ofMillis(400)))) {
            for (Runnable call : List.<Runnable>of(() -> taskyard.get("tsk_1"), () -> taskyard.resume("tsk_1"))) {
                TaskyardException error = failureOf(call);
                assertEquals("unavailable", error.code());
                assertTrue(error.retryable());
                assertEquals("b", error.details().get("owner"));
            }
        }
        assertTrue(replica.calls.get() > 6);
    }

    @Test
    void tooManyRequestsAreRepeatedWhenTheServerSays() throws IOException {
        Replica replica = serve();
        replica.failure = TOO_MANY;
        replica.failures = 1;
        try (Taskyard taskyard = Taskyard.connect(at(replica.address()))) {
            long began = System.nanoTime();
            taskyard.submit("echo", Map.of());
            assertTrue(System.nanoTime() - began >= 300_000_000);
            assertEquals(2, replica.calls.get());
            replica.failures = 3;
            TaskyardException error = failureOf(() -> taskyard.resume("tsk_1"));
            assertEquals("too_many_requests", error.code());
            assertTrue(error.retryable());
        }
    }

    @Test
    void theOwnerIsWaitedForAMomentAndLongerAfterTooManyRequests() {
        Outage outage = new Outage(Duration.ofMinutes(1), () -> true, true);
        TaskyardException moved = TaskyardException.of(ELSEWHERE);
        assertEquals(0, outage.delayMsAfter(moved, true));
        for (int n = 0; n < 100; n++) {
            long delay = outage.delayMsAfter(moved, false);
            assertTrue(delay >= 20 && delay <= 50, delay + " ms");
        }
        long delay = outage.delayMsAfter(TaskyardException.of(TOO_MANY), true);
        assertTrue(delay >= 300 && delay <= 375, delay + " ms");
    }

    @Test
    void aWatchGoesOnWhenTheNamespaceMoves() throws IOException {
        Replica replica = serve();
        int events = 0;
        try (Taskyard taskyard = Taskyard.connect(at(replica.address()));
                Watch watch = taskyard.watch(
                        WatchTasksRequest.newBuilder().addTaskIds("t").setUntilEnded(true).build())) {
            for (; watch.hasNext(); watch.next()) {
                events++;
            }
            assertEquals("c3", watch.cursor().orElseThrow());
        }
        assertEquals(3, events);
        assertEquals(4, replica.watches.get());
    }

    @Test
    void aUnixSocketIsConnectedTo() throws IOException {
        String path = folder.resolve("s").toString();
        var loop = new MultiThreadIoEventLoopGroup(1, EpollIoHandler.newFactory());
        Replica replica = new Replica();
        replica.server = NettyServerBuilder.forAddress(new DomainSocketAddress(path))
                .channelType(EpollServerDomainSocketChannel.class)
                .bossEventLoopGroup(loop)
                .workerEventLoopGroup(loop)
                .addService(replica)
                .build()
                .start();
        for (String address : List.of("unix:" + path, "unix://" + path)) {
            try (Taskyard taskyard = Taskyard.connect(TaskyardOptions.of(address))) {
                taskyard.get("tsk_1");
            }
        }
        replica.server.shutdownNow();
        loop.shutdownGracefully();
        assertEquals(2, replica.calls.get());
    }

    @Test
    void addressesThatCanNeverWorkAreRefused() {
        for (String bad : List.of("a:1,", ",", "a:1,b", "a:1,dns://s/b:1", "a:1,unix:/b", "unix://host/path")) {
            var error = assertThrows(IllegalArgumentException.class, () -> TaskyardOptions.of(bad));
            assertTrue(error.getMessage().startsWith("address: "), error.getMessage());
        }
        assertEquals("unix:/tmp/t", Addresses.of("unix:/tmp/t").target());
        assertTrue(Addresses.of("[::1]:1, b:2").target().startsWith("taskyard:/"));
        assertTrue(Addresses.of("a:1,https://b").encrypted());
        assertFalse(Addresses.of("127.0.0.1:1,b:1").elsewhere().isEmpty());
        assertTrue(Addresses.of("127.0.0.1:1,localhost:1").elsewhere().isEmpty());
    }

    private static TaskyardException failureOf(Runnable call) {
        return assertThrows(TaskyardException.class, call::run);
    }
}
