package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.taskyard.opentelemetry.Tracing;
import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.Lease;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Spans of submits and of handlers, and the trace that goes from one to the other. */
@Timeout(60)
class TracingTest {
    private static final String TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
    private static final String SPAN_ID = "b7ad6b7169203331";
    private static final String TRACEPARENT = "00-" + TRACE_ID + "-" + SPAN_ID + "-01";

    private final InMemorySpanExporter exporter = InMemorySpanExporter.create();
    private final SdkTracerProvider provider = SdkTracerProvider.builder()
            .addSpanProcessor(SimpleSpanProcessor.create(exporter))
            .build();
    private final Tracing tracing = new Tracing(provider);
    private final List<String> given = new ArrayList<>();
    private Server server;
    private Taskyard taskyard;

    @BeforeEach
    void start() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new TaskServiceGrpc.TaskServiceImplBase() {
                    @Override
                    public void submitTask(SubmitTaskRequest task, StreamObserver<SubmitTaskResponse> answer) {
                        given.add(task.getTraceparent());
                        if (task.getAction().isEmpty()) {
                            answer.onError(Status.INVALID_ARGUMENT.asRuntimeException());
                            return;
                        }
                        answer.onNext(
                                SubmitTaskResponse.newBuilder().setTaskId("t").build());
                        answer.onCompleted();
                    }
                })
                .build()
                .start();
        taskyard = Taskyard.connect("127.0.0.1:" + server.getPort());
    }

    @AfterEach
    void stop() {
        taskyard.close();
        server.shutdownNow();
        provider.close();
    }

    @Test
    void aSubmitHasASpanAndGivesItToTheTask() {
        Span outer = provider.get("agent").spanBuilder("plan").startSpan();
        try (Scope ignored = outer.makeCurrent()) {
            tracing.submit(taskyard, task("crawl"));
        }
        SpanData span = onlySpan();
        assertEquals(List.of("00-" + span.getTraceId() + "-" + span.getSpanId() + "-01"), given);
        assertEquals("send crawl", span.getName());
        assertEquals(SpanKind.PRODUCER, span.getKind());
        assertEquals(outer.getSpanContext().getSpanId(), span.getParentSpanId());
        assertEquals("t", text(span, "messaging.message.id"));
        assertEquals("send", text(span, "messaging.operation.type"));
    }

    @Test
    void aTaskKeepsTheTraceContextThatItHas() {
        tracing.submit(taskyard, task("crawl").toBuilder().setTraceparent(TRACEPARENT).build());
        assertEquals(List.of(TRACEPARENT), given);
        assertEquals("", Tracing.withTrace(task("crawl")).getTraceparent());
    }

    @Test
    void aRefusedSubmitIsAnErrorOfItsSpan() {
        assertThrows(TaskyardException.class, () -> tracing.submit(taskyard, task("")));
        assertEquals("bad_request", text(onlySpan(), "error.type"));
        assertEquals(StatusCode.ERROR, onlySpan().getStatus().getStatusCode());
    }

    @Test
    void anAttemptHasASpanBelowTheTraceContextOfItsTask() throws Exception {
        Object within = tracing.handler(task -> Span.current().getSpanContext().getSpanId())
                .run(running(TRACEPARENT));
        SpanData span = onlySpan();
        assertEquals(span.getSpanId(), within);
        assertEquals("process crawl", span.getName());
        assertEquals(SpanKind.CONSUMER, span.getKind());
        assertEquals(TRACE_ID, span.getTraceId());
        assertEquals(SPAN_ID, span.getParentSpanId());
        assertEquals("t", text(span, "messaging.message.id"));
        assertEquals("ann", text(span, "taskyard.agent.id"));
        assertEquals(1L, span.getAttributes().get(AttributeKey.longKey("taskyard.task.attempt")));
        assertEquals(StatusCode.UNSET, span.getStatus().getStatusCode());
    }

    @Test
    void aTaskWithoutATraceBeginsOne() throws Exception {
        tracing.handler(task -> null).run(running(""));
        assertFalse(onlySpan().getParentSpanContext().isValid());
    }

    @Test
    void aFailureIsAnErrorOfTheSpan() {
        var failure = new ActionFailedException("gone", "no_page");
        Handler handler = tracing.handler(task -> {
            throw failure;
        });
        assertSame(failure, assertThrows(ActionFailedException.class, () -> handler.run(running(TRACEPARENT))));
        SpanData span = onlySpan();
        assertEquals("no_page", text(span, "error.type"));
        assertEquals("gone", span.getStatus().getDescription());
        assertEquals("exception", span.getEvents().get(0).getName());
    }

    @Test
    void aStoppedAttemptIsNoError() {
        Handler handler = tracing.handler(task -> {
            task.stop("cancelled");
            task.check();
            return null;
        });
        assertThrows(InterruptedException.class, () -> handler.run(running(TRACEPARENT)));
        SpanData span = onlySpan();
        assertEquals(true, span.getAttributes().get(AttributeKey.booleanKey("taskyard.task.cancelled")));
        assertEquals(StatusCode.UNSET, span.getStatus().getStatusCode());
    }

    @Test
    void aParkedAttemptIsNoError() {
        Handler handler = tracing.handler(task -> {
            throw new Parked("not yet");
        });
        assertThrows(Parked.class, () -> handler.run(running(TRACEPARENT)));
        SpanData span = onlySpan();
        assertEquals(true, span.getAttributes().get(AttributeKey.booleanKey("taskyard.task.parked")));
        assertEquals(StatusCode.UNSET, span.getStatus().getStatusCode());
    }

    private static SubmitTaskRequest task(String action) {
        return SubmitTaskRequest.newBuilder().setAction(action).build();
    }

    private static RunningTask running(String traceparent) {
        var task = Task.newBuilder().setTaskId("t").setAction("crawl").setAgentId("ann");
        if (!traceparent.isEmpty()) {
            task.setTraceparent(traceparent);
        }
        var lease = Lease.newBuilder().setTaskId("t").setFencingToken(1);
        return new RunningTask(
                Assignment.newBuilder().setLease(lease).setTask(task).build(), report -> {}, (said, chunks) -> {}, null);
    }

    private SpanData onlySpan() {
        List<SpanData> spans = exporter.getFinishedSpanItems();
        assertEquals(1, spans.size());
        return spans.get(0);
    }

    private static String text(SpanData span, String name) {
        return span.getAttributes().get(AttributeKey.stringKey(name));
    }
}
