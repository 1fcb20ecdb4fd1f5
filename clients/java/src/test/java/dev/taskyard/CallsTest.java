package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.Error;
import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.ResumeTaskRequest;
import dev.taskyard.v1.ResumeTaskResponse;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What calls send, which of them are repeated, and their errors, with a server that fails as a test sets it. */
@Timeout(30)
class CallsTest {
    private final List<Metadata> headers = Collections.synchronizedList(new ArrayList<>());
    private final List<Object> requests = Collections.synchronizedList(new ArrayList<>());
    private volatile int failures;
    private volatile Status failure = Status.UNAVAILABLE;
    private Server server;
    private TaskyardOptions options;

    @BeforeEach
    void start() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new Failing())
                .intercept(new Recorder())
                .build()
                .start();
        options = TaskyardOptions.of("127.0.0.1:" + server.getPort());
    }

    @AfterEach
    void stop() {
        server.shutdownNow();
    }

    @Test
    void everyCallCarriesTheNamespaceAndTheToken() {
        try (Taskyard taskyard = Taskyard.connect(options.withNamespace("blue").withToken("secret"))) {
            taskyard.get("tsk_any");
            taskyard.stub(TaskServiceGrpc::newBlockingStub).getTask(GetTaskRequest.getDefaultInstance());
        }
        assertEquals(2, headers.size());
        for (Metadata each : headers) {
            assertEquals("blue", header(each, "taskyard-namespace"));
            assertEquals("Bearer secret", header(each, "authorization"));
        }
    }

    @Test
    void aSubmitIsRepeatedUnderTheSameKey() {
        failures = 3;
        try (Taskyard taskyard = Taskyard.connect(options)) {
            taskyard.submit("echo", Map.of());
        }
        assertEquals(4, requests.size());
        assertEquals(1, requests.stream().distinct().count());
        assertFalse(((SubmitTaskRequest) requests.get(0)).getIdempotencyKey().isEmpty());
    }

    @Test
    void aResumeIsNotRepeated() {
        failures = 1;
        try (Taskyard taskyard = Taskyard.connect(options)) {
            assertEquals("unavailable", failureOf(() -> taskyard.resume("tsk_any")).code());
        }
        assertEquals(1, requests.size());
    }

    @Test
    void aResumeSendsANewTokenLimitIfItIsGivenOne() {
        try (Taskyard taskyard = Taskyard.connect(options)) {
            taskyard.resume("tsk_any");
            taskyard.resume("tsk_any", 500);
            taskyard.resume("tsk_any", 0xFFFF_FFFFL);
            for (long limit : List.of(-1L, 1L << 32)) {
                var error = assertThrows(IllegalArgumentException.class, () -> taskyard.resume("tsk_any", limit));
                assertTrue(error.getMessage().startsWith("tokenLimit: "), error.getMessage());
            }
        }
        var limits = requests.stream().map(ResumeTaskRequest.class::cast).toList();
        assertEquals(3, limits.size());
        assertFalse(limits.get(0).hasTokenLimit());
        assertEquals(500, limits.get(1).getTokenLimit());
        assertEquals(0xFFFF_FFFFL, Integer.toUnsignedLong(limits.get(2).getTokenLimit()));
    }

    @Test
    void onlyUnavailableIsRepeated() {
        failures = 1;
        failure = Status.INTERNAL;
        try (Taskyard taskyard = Taskyard.connect(options)) {
            assertEquals("internal", failureOf(() -> taskyard.get("tsk_any")).code());
        }
        assertEquals(1, requests.size());
    }

    @Test
    void aCallWhoseConnectionEndsWhileItIsWrittenIsUnavailable() {
        var closed = Status.UNKNOWN.withDescription("channel closed").withCause(new ClosedChannelException());
        var channel = ClientInterceptors.intercept(new Broken(closed), new Identification(Identity.of(options)));
        var stub = TaskServiceGrpc.newBlockingStub(channel);
        var failed = assertThrows(
                StatusRuntimeException.class, () -> stub.getTask(GetTaskRequest.getDefaultInstance()));
        var error = TaskyardException.of(failed);
        assertEquals("unavailable: the connection to the server was lost", error.getMessage());
        assertTrue(error.retryable());
    }

    @Test
    void aStatusWithoutDetailsHasACode() {
        Map<Status, String> codes = Map.of(
                Status.RESOURCE_EXHAUSTED, "too_large",
                Status.OUT_OF_RANGE, "cursor_expired",
                Status.FAILED_PRECONDITION, "conflict",
                Status.UNAUTHENTICATED, "unauthenticated",
                Status.UNKNOWN, "internal");
        codes.forEach((status, code) -> {
            var error = TaskyardException.of(status.withDescription("why").asRuntimeException());
            assertEquals(code, error.code());
            assertEquals("why", error.reason());
            assertFalse(error.retryable());
        });
    }

    @Test
    void theErrorOfATaskOfABatchIsThatOfACallOfItsOwn() {
        var details = Map.of("queued", 3, "agentId", "ann");
        var refused = Error.newBuilder()
                .setCode("queue_full")
                .setError("no room")
                .setRetryable(true)
                .setRetryAfterMs(1_500)
                .setDetails(Json.struct(details))
                .build();
        var error = TaskyardException.of(refused);
        assertEquals("queue_full", error.code());
        assertEquals("no room", error.reason());
        assertTrue(error.retryable());
        assertEquals(Optional.of(Duration.ofMillis(1_500)), error.retryAfter());
        assertEquals(Map.of("queued", "3", "agentId", "ann"), error.details());
        assertEquals(Status.Code.RESOURCE_EXHAUSTED, error.status().getCode());
    }

    @Test
    void withoutATimeFromTheServerThereIsNoTimeToTryAgain() {
        var error = TaskyardException.of(
                Error.newBuilder().setCode("too_large").setError("x").build());
        assertEquals(Optional.empty(), error.retryAfter());
        assertFalse(error.retryable());
    }

    @Test
    void aCallWithoutAnAnswerEndsAtItsTimeout() {
        failure = null;
        failures = 1;
        try (Taskyard taskyard = Taskyard.connect(options.withTimeout(Duration.ofMillis(200)))) {
            assertEquals("deadline_exceeded", failureOf(() -> taskyard.get("tsk_any")).code());
        }
    }

    @Test
    void aClientWithTlsSendsNothingToAServerWithoutIt() {
        try (Taskyard taskyard = Taskyard.connect(options.withTls().withPatience(Duration.ofMillis(100)))) {
            assertTrue(failureOf(() -> taskyard.get("tsk_any")).retryable());
        }
        assertEquals(List.of(), requests);
    }

    private static TaskyardException failureOf(Runnable call) {
        return assertThrows(TaskyardException.class, call::run);
    }

    private static String header(Metadata headers, String name) {
        return headers.get(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER));
    }

    /** A connection over which each call ends with this status. */
    private static final class Broken extends Channel {
        private final Status status;

        Broken(Status status) {
            this.status = status;
        }

        @Override
        public String authority() {
            return "nobody";
        }

        @Override
        public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
            return new ClientCall<>() {
                @Override
                public void start(Listener<A> listener, Metadata headers) {
                    listener.onClose(status, new Metadata());
                }

                @Override
                public void request(int count) {}

                @Override
                public void cancel(String message, Throwable cause) {}

                @Override
                public void halfClose() {}

                @Override
                public void sendMessage(Q message) {}
            };
        }
    }

    private final class Recorder implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata received, ServerCallHandler<Q, A> next) {
            headers.add(received);
            return next.startCall(call, received);
        }
    }

    private final class Failing extends TaskServiceGrpc.TaskServiceImplBase {
        @Override
        public void submitTask(SubmitTaskRequest request, StreamObserver<SubmitTaskResponse> answer) {
            answer(request, SubmitTaskResponse.getDefaultInstance(), answer);
        }

        @Override
        public void getTask(GetTaskRequest request, StreamObserver<Task> answer) {
            answer(request, Task.getDefaultInstance(), answer);
        }

        @Override
        public void resumeTask(ResumeTaskRequest request, StreamObserver<ResumeTaskResponse> answer) {
            answer(request, ResumeTaskResponse.getDefaultInstance(), answer);
        }

        private <A> void answer(Object request, A good, StreamObserver<A> answer) {
            requests.add(request);
            if (failures-- <= 0) {
                answer.onNext(good);
                answer.onCompleted();
            } else if (failure != null) {
                answer.onError(failure.asRuntimeException());
            }
        }
    }
}
