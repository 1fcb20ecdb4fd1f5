package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.ArtifactServiceGrpc;
import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.ChildServiceGrpc;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.Payload;
import dev.taskyard.v1.RetryPolicy;
import dev.taskyard.v1.SubmitChildRequest;
import dev.taskyard.v1.SubmitChildResponse;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.UploadArtifactRequest;
import dev.taskyard.v1.UploadArtifactResponse;
import dev.taskyard.v1.WatchTasksRequest;
import io.grpc.CallCredentials;
import io.grpc.CompositeChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Children whose params are too large for a message: they have the value, wherever a run of their parent is cut off. */
@Timeout(60)
class LargeChildrenTest {
    private static final long BIG = 9_007_199_254_740_993L;

    /** Two parts. */
    private static final String LONG = "ä".repeat(1_000_000);

    private static final String SUBMIT = ChildServiceGrpc.getSubmitChildMethod().getFullMethodName();
    private static final String UPLOAD =
            ArtifactServiceGrpc.getUploadArtifactMethod().getFullMethodName();

    private final TaskyardOptions options = LiveServer.options();
    private final Taskyard taskyard = Taskyard.connect(options);

    @AfterEach
    void close() {
        taskyard.close();
    }

    /** A client each of whose calls that submits a child or puts an artifact fails beforehand as this says, null for not. */
    private Taskyard refusing(Function<String, Status> refusal) {
        var calls = new CallCredentials() {
            @Override
            public void applyRequestMetadata(RequestInfo call, Executor executor, MetadataApplier applier) {
                String method = call.getMethodDescriptor().getFullMethodName();
                boolean isOne = method.equals(SUBMIT) || method.equals(UPLOAD);
                // A callback of the connection makes no calls.
                executor.execute(() -> {
                    Status refused = isOne ? refusal.apply(method) : null;
                    if (refused == null) {
                        applier.apply(new Metadata());
                    } else {
                        applier.fail(refused);
                    }
                });
            }
        };
        return Taskyard.connect(
                options.withCredentials(CompositeChannelCredentials.create(InsecureChannelCredentials.create(), calls)));
    }

    /** A host for parents and their children, which return who gave them how many characters. */
    private static RunningHost family(Taskyard client, Handler parent) {
        return new RunningHost(new Host(client, "worker", HostOptions.defaults().withSlots(1)).action("work", task -> {
            if (!task.task().hasChildName()) {
                return parent.run(task);
            }
            Map<?, ?> given = (Map<?, ?>) task.input();
            return Exact.of(List.of(given.get("id"), ((String) given.get("text")).length()));
        }));
    }

    private static SubmitTaskRequest.Builder work() {
        return SubmitTaskRequest.newBuilder().setAction("work");
    }

    private static SubmitTaskRequest.Builder work(Map<String, ?> params) {
        return work().setParams(Json.struct(params));
    }

    private Task childOf(String id) {
        var found =
                taskyard.list(ListTasksRequest.newBuilder().setParentId(id).build()).toList();
        assertEquals(1, found.size());
        return found.get(0);
    }

    @Test
    void aChildHasTheValueThatItsParentGaveIt() {
        var text = Map.of("id", 1, "text", LONG);
        var payload = Payload.newBuilder().setData(ByteString.copyFromUtf8("{\"id\":1,\"text\":\"" + LONG + "\"}"));
        List<SubmitTaskRequest> cases = List.of(
                work(text).build(),
                Exact.of(Map.of("id", BIG, "text", LONG)).putInto(work()).build(),
                work().setInput(payload).build());
        var calls = new AtomicInteger();
        // Each call meets an outage first.
        try (Taskyard broken = refusing(method -> calls.incrementAndGet() % 2 == 1 ? Status.UNAVAILABLE : null);
                RunningHost host = family(broken, task -> Exact.of(task.child(
                                "one", cases.get(((Number) task.params().get("case")).intValue()))
                        .result(Object.class)))) {
            for (int number = 0; number < cases.size(); number++) {
                String id = taskyard.submit("work", Map.of("case", number)).getTaskId();
                assertEquals(List.of(number == 1 ? BIG : 1L, 1_000_000L), taskyard.result(id));
                Task child = childOf(id);
                assertEquals(
                        List.of("params.json"),
                        child.getArtifactsList().stream().map(Artifact::getName).toList());
                assertFalse(child.getHold() || child.getArtifacts(0).hasAttempt());
            }
        }
        assertTrue(calls.get() >= 3 * 4 * 2, calls.toString());
    }

    @Test
    void whereverARunIsCutOffTheNextOneMakesUpForIt() throws InterruptedException {
        // Held, two parts, let go; the last is for a child that is not to be held on.
        for (int cut = 1; cut <= 4; cut++) {
            assertEquals(List.of(2L, 1_000_000L), cutOff(cut, false));
            if (cut < 4) {
                assertEquals(List.of(2L, 1_000_000L), cutOff(cut, true));
            }
        }
    }

    /** The result of a parent whose first run is cut off before a call. */
    private Object cutOff(int cut, boolean isHeld) throws InterruptedException {
        var calls = new AtomicInteger();
        try (Taskyard broken = refusing(method -> calls.incrementAndGet() == cut ? Status.INTERNAL : null);
                RunningHost host = family(broken, task -> {
                    var given = work(Map.of("id", task.attempt(), "text", LONG));
                    return task.child("one", given.setHold(isHeld).build()).result(Object.class);
                })) {
            var twice = RetryPolicy.newBuilder().setMaxAttempts(2).setFirstDelayMs(1);
            String id = taskyard.submit(work().setRetryPolicy(twice).build()).getTaskId();
            if (isHeld) {
                untilParked(id);
                Task child = childOf(id);
                assertTrue(child.getHold());
                assertEquals(Task.State.pending, child.getState());
                assertEquals(1, child.getArtifactsCount());
                taskyard.resume(child.getTaskId());
            }
            Object found = taskyard.result(id);
            childOf(id);
            return found;
        }
    }

    private void untilParked(String id) throws InterruptedException {
        var filters = WatchTasksRequest.newBuilder().addTaskIds(id).setIncludeCurrent(true);
        try (Watch watch = taskyard.watch(filters.build())) {
            for (Task.State state = Task.State.queued; state != Task.State.parked; ) {
                var event = watch.next();
                state = event.hasTask() ? event.getTask().getState() : state;
            }
        }
    }

    @Test
    void aChildThatSomebodyLetGoMeanwhileIsFound() {
        var calls = new AtomicInteger();
        // Before the first part the child is let go.
        try (Taskyard freeing = refusing(method -> {
                    if (calls.incrementAndGet() == 2) {
                        taskyard.list(ListTasksRequest.getDefaultInstance())
                                .filter(Task::getHold)
                                .forEach(held -> taskyard.resume(held.getTaskId()));
                    }
                    return null;
                });
                RunningHost host = family(freeing, task -> {
                    var given = work(Map.of("id", 1, "text", LONG)).setAction("other");
                    return task.child("one", given.build()).id();
                })) {
            String id = taskyard.submit("work", Map.of()).getTaskId();
            Object found = taskyard.result(id);
            assertEquals(childOf(id).getTaskId(), found);
        }
    }

    /** Takes no more than ten bytes of params, and keeps no artifacts. */
    private static final class Small extends ChildServiceGrpc.ChildServiceImplBase {
        final List<SubmitTaskRequest> submits = Collections.synchronizedList(new ArrayList<>());

        final ArtifactServiceGrpc.ArtifactServiceImplBase artifacts = new ArtifactServiceGrpc.ArtifactServiceImplBase() {
            @Override
            public void uploadArtifact(UploadArtifactRequest request, StreamObserver<UploadArtifactResponse> answer) {
                var refused = Status.FAILED_PRECONDITION.withDescription("none is kept of " + request.getChild());
                answer.onError(refused.asRuntimeException());
            }
        };

        @Override
        public void submitChild(SubmitChildRequest request, StreamObserver<SubmitChildResponse> answer) {
            submits.add(request.getChild());
            if (!request.getChild().getHold() && LargeParams.sizeOf(request.getChild()) > 10) {
                var refused = Status.RESOURCE_EXHAUSTED.withDescription("child.params: too large");
                answer.onError(refused.asRuntimeException());
                return;
            }
            answer.onNext(SubmitChildResponse.newBuilder()
                    .setTaskId("tsk_2")
                    .setHeld(request.getChild().getHold())
                    .build());
            answer.onCompleted();
        }
    }

    @Test
    void whatTheServerRefusesBecomesAnArtifactWhereItKeepsAny() throws IOException {
        var service = new Small();
        Server server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(service)
                .addService(service.artifacts)
                .build()
                .start();
        try (Taskyard client = Taskyard.connect("127.0.0.1:" + server.getPort())) {
            var artifacts = new HostArtifacts(client.calls(), "host", null);
            HeldChildren children = artifacts.of(Assignment.getDefaultInstance()).children;
            SubmitTaskRequest child = work(Map.of("text", "more than ten")).build();
            var refused = assertThrows(TaskyardException.class, () -> children.submit("one", child));
            assertEquals("too_large child.params: too large", refused.code() + " " + refused.reason());
            assertEquals(List.of(child), service.submits);

            // As another replica said, to which the host was connected.
            artifacts.maxPayloadBytes = 100;
            refused = assertThrows(TaskyardException.class, () -> children.submit("one", child));
            assertEquals(
                    "too_large params: are so large that they would be an artifact, but none is kept of one",
                    refused.code() + " " + refused.reason());
            SubmitTaskRequest held = service.submits.get(2);
            assertTrue(held.getHold() && held.getParams().containsFields("$artifact"));
            assertEquals(List.of(child, child, held, held), service.submits);
        } finally {
            server.shutdownNow();
        }
    }
}
