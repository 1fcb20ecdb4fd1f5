package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.Assignments;
import dev.taskyard.v1.ConnectRequest;
import dev.taskyard.v1.ConnectResponse;
import dev.taskyard.v1.Drain;
import dev.taskyard.v1.HeartbeatInterval;
import dev.taskyard.v1.Hello;
import dev.taskyard.v1.Input;
import dev.taskyard.v1.Lease;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.Welcome;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** How a host answers what only some servers do. */
@Timeout(60)
class HostStreamTest {
    private final Hosts service = new Hosts();
    private Server server;
    private Taskyard taskyard;
    private RunningHost host;

    @TempDir
    Path folder;

    /** A server that refuses some streams, and keeps what the others bring. */
    private static final class Hosts extends RuntimeHostServiceGrpc.RuntimeHostServiceImplBase implements ServerInterceptor {
        /** How the next streams end, each at its Hello. */
        final Deque<StatusRuntimeException> refusals = new ArrayDeque<>();

        final BlockingQueue<StreamObserver<ConnectResponse>> welcomed = new LinkedBlockingQueue<>();
        final BlockingQueue<ConnectRequest> arrived = new LinkedBlockingQueue<>();
        final BlockingQueue<Hello> hellos = new LinkedBlockingQueue<>();
        final BlockingQueue<String> tokens = new LinkedBlockingQueue<>();
        volatile String demanded;

        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            String sent = headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
            if (demanded != null && !("Bearer " + demanded).equals(sent)) {
                tokens.add(String.valueOf(sent));
                call.close(Status.UNAUTHENTICATED.withDescription("unknown token"), new Metadata());
                return new ServerCall.Listener<>() {};
            }
            return next.startCall(call, headers);
        }

        @Override
        public StreamObserver<ConnectRequest> connect(StreamObserver<ConnectResponse> answers) {
            return new StreamObserver<>() {
                @Override
                public void onNext(ConnectRequest message) {
                    if (!message.hasHello()) {
                        arrived.add(message);
                        return;
                    }
                    hellos.add(message.getHello());
                    StatusRuntimeException refusal;
                    synchronized (refusals) {
                        refusal = refusals.poll();
                    }
                    if (refusal != null) {
                        answers.onError(refusal);
                        return;
                    }
                    var welcome = Welcome.newBuilder()
                            .setHeartbeatIntervalMs(20_000)
                            .setLeaseSecs(60)
                            .setReconnectGraceMs(5_000);
                    message.getHello().getLeasesList().forEach(held -> welcome.addKept(Lease.newBuilder()
                            .setTaskId(held.getTaskId())
                            .setFencingToken(held.getFencingToken())
                            .setLeaseSecs(60)));
                    answers.onNext(ConnectResponse.newBuilder().setWelcome(welcome).build());
                    welcomed.add(answers);
                }

                @Override
                public void onError(Throwable gone) {
                    // The host has closed it.
                }

                @Override
                public void onCompleted() {
                    answers.onCompleted();
                }
            };
        }

        ConnectRequest next(String kind) throws InterruptedException {
            while (true) {
                ConnectRequest message = arrived.poll(20, TimeUnit.SECONDS);
                if (message == null || message.getMessageCase().name().equals(kind)) {
                    return message;
                }
            }
        }
    }

    @BeforeEach
    void serve() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(service)
                .intercept(service)
                .build()
                .start();
    }

    @AfterEach
    void stop() {
        if (taskyard != null) {
            taskyard.close();
        }
        server.shutdownNow();
    }

    private RunningHost start(TaskyardOptions options) {
        taskyard = Taskyard.connect(options);
        host = new RunningHost(new Host(taskyard, "main").action("work", task -> {
            Thread.sleep(60_000);
            return null;
        }));
        return host;
    }

    private RunningHost start() {
        return start(at());
    }

    private TaskyardOptions at() {
        return TaskyardOptions.of("127.0.0.1:" + server.getPort());
    }

    private static StatusRuntimeException refusal(Code code, String reason, Map<String, String> details) {
        var info = ErrorInfo.newBuilder().setReason(reason).setDomain("taskyard").putAllMetadata(details);
        return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
                .setCode(code.getNumber())
                .setMessage("refused")
                .addDetails(Any.pack(info.build()))
                .build());
    }

    private static ConnectResponse assignment() {
        return assignment(Map.of());
    }

    private static ConnectResponse assignment(Map<String, Input> inputs) {
        var lease = Lease.newBuilder().setTaskId("tsk_1").setFencingToken(7).setLeaseSecs(60);
        var task = Task.newBuilder().setTaskId("tsk_1").setAction("work");
        return ConnectResponse.newBuilder()
                .setAssignments(Assignments.newBuilder()
                        .addAssignments(Assignment.newBuilder()
                                .setLease(lease)
                                .setTask(task)
                                .putAllInputs(inputs)))
                .build();
    }

    private String codeOfEnd() {
        var ended = assertThrows(ExecutionException.class, host::awaitLeft);
        return assertInstanceOf(TaskyardException.class, ended.getCause()).code();
    }

    @Test
    void aHostGoesOnAtOnceWhereAnotherServerOwnsTheNamespace() throws Exception {
        service.refusals.add(refusal(Code.UNAVAILABLE, "NOT_OWNER", Map.of("owner", "b")));
        start();
        service.welcomed.take();
        assertEquals(2, service.hellos.size());
        assertEquals(service.hellos.take().getInstance(), service.hellos.take().getInstance());
    }

    @Test
    void aServerThatLeavesIsFollowedByTheNextStreamWithTheLeases() throws Exception {
        start();
        var stream = service.welcomed.take();
        stream.onNext(assignment());
        assertTrue(service.next("REPORTS").getReports().getReports(0).hasStarted());
        stream.onNext(ConnectResponse.newBuilder()
                .setDrain(Drain.newBuilder().setReconnect(true))
                .build());
        stream.onCompleted();
        service.welcomed.take();
        service.hellos.take();
        assertEquals("tsk_1", service.hellos.take().getLeases(0).getTaskId());
    }

    @Test
    void anInputThatCannotBeFetchedFailsItsTask() throws Exception {
        start();
        var omitted = Input.newBuilder().setTaskId("tsk_0").setOmitted(true).build();
        service.welcomed.take().onNext(assignment(Map.of("page", omitted)));
        assertTrue(service.next("REPORTS").getReports().getReports(0).hasStarted());
        var failed = service.next("REPORTS").getReports().getReports(0).getFailed();
        assertEquals("bad_input", failed.getCode());
        assertTrue(failed.getError().startsWith("the input 'page' cannot be fetched: unimplemented"), failed.getError());
    }

    @Test
    void aNewHeartbeatIntervalHoldsAtOnce() throws Exception {
        start();
        var stream = service.welcomed.take();
        stream.onNext(assignment());
        service.next("REPORTS");
        stream.onNext(ConnectResponse.newBuilder()
                .setHeartbeatInterval(HeartbeatInterval.newBuilder().setHeartbeatIntervalMs(50))
                .build());
        for (int sequence = 1; sequence <= 3; sequence++) {
            var heartbeat = service.next("HEARTBEAT").getHeartbeat();
            assertEquals(sequence, heartbeat.getSequence());
            assertEquals("tsk_1", heartbeat.getLeases(0).getTaskId());
            assertEquals(1, heartbeat.getMachine().getActiveWorkers());
        }
    }

    @Test
    void aTokenThatWasReplacedIsReadAnewOnce() throws Exception {
        Path file = Files.writeString(folder.resolve("token"), "old-token");
        service.demanded = "new-token";
        TaskyardOptions options = at().withTokenFile(file);
        taskyard = Taskyard.connect(options);
        // The client has read the old one.
        taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub);
        Files.writeString(file, "new-token");
        host = new RunningHost(new Host(taskyard, "main").action("work", task -> null));
        service.welcomed.take();
    }

    @Test
    void aTokenThatIsRefusedTwiceEndsTheRun() throws Exception {
        service.demanded = "another";
        start(at().withTokenFile(Files.writeString(folder.resolve("token"), "old-token")));
        assertEquals("unauthenticated", codeOfEnd());
        assertEquals(2, service.tokens.size());
    }

    @Test
    void aHostThatIsRefusedForGoodEnds() {
        service.refusals.add(Status.PERMISSION_DENIED.asRuntimeException());
        start();
        assertEquals("permission_denied", codeOfEnd());
    }

    @Test
    void aHostWhosePlaceWasTakenEnds() throws Exception {
        start();
        service.welcomed.take().onError(refusal(Code.FAILED_PRECONDITION, "CONFLICT", Map.of("cause", "superseded")));
        assertEquals("conflict", codeOfEnd());
    }

    @Test
    void theDelaysGrowWithTheOutageUpToTheirLimit() {
        long second = Duration.ofSeconds(1).toNanos();
        var outage = TaskyardException.of(Status.UNAVAILABLE, "away");
        for (int n = 0; n < 1_000; n++) {
            assertEquals(0, HostRun.delayAfter(outage, true, 0, 5 * second));
            long prompt = HostRun.delayAfter(outage, false, second, 5 * second);
            assertTrue(prompt >= second / 20 && prompt <= second / 10);
            assertTrue(HostRun.delayAfter(outage, false, 4 * second, 5 * second) < 2 * second);
            assertTrue(HostRun.delayAfter(outage, false, 600 * second, second) < second);
        }
    }
}
