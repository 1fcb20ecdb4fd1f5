package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.GetTaskRequest;
import dev.taskyard.v1.ResumeTaskRequest;
import dev.taskyard.v1.ResumeTaskResponse;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What goes over the wire, and what is repeated: against a server that notes it and fails as it is told. */
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
                .intercept(new Noting())
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
    void onlyUnavailableIsRepeated() {
        failures = 1;
        failure = Status.INTERNAL;
        try (Taskyard taskyard = Taskyard.connect(options)) {
            assertEquals("internal", failureOf(() -> taskyard.get("tsk_any")).code());
        }
        assertEquals(1, requests.size());
    }

    @Test
    void aStatusWithoutDetailsHasACodeToo() {
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
    void aCallThatTakesTooLongIsGivenUp() {
        failure = null;
        failures = 1;
        try (Taskyard taskyard = Taskyard.connect(options.withTimeout(Duration.ofMillis(200)))) {
            assertEquals("deadline_exceeded", failureOf(() -> taskyard.get("tsk_any")).code());
        }
    }

    @Test
    void aPlainServerIsNotSpokenToWhereTlsIsAskedFor() {
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

    private final class Noting implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata told, ServerCallHandler<Q, A> next) {
            headers.add(told);
            return next.startCall(call, told);
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
