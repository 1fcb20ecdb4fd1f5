package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.CancelTaskResponse;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.Payload;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Params and results that are artifacts since they are too large for a message. */
@Timeout(60)
class LargeValuesTest {
    private static final String LONG = "€".repeat(100_000);
    private static final long BIG = 9_007_199_254_740_993L;

    private final Taskyard taskyard = Taskyard.connect(LiveServer.options());

    @AfterEach
    void close() {
        taskyard.close();
    }

    private RunningHost worker(Handler handler) {
        return new RunningHost(new Host(taskyard, "worker").action("work", handler));
    }

    private static SubmitTaskRequest.Builder work() {
        return SubmitTaskRequest.newBuilder().setAction("work");
    }

    @Test
    void paramsAndResultsOfAnySizeTravelAsValues() {
        try (RunningHost host = worker(task -> {
            Map<String, Object> found = new HashMap<>(asMap(task.input()));
            found.put("params", task.params().size());
            return Exact.of(found);
        })) {
            Map<String, Object> small = Map.of("id", 7L, "text", LONG);
            assertEquals(Map.of("id", 7L, "text", LONG, "params", 2L), taskyard.run("work", small));
            String id = taskyard.submit("work", Exact.of(Map.of("id", BIG, "text", LONG))).getTaskId();
            assertEquals(Map.of("id", BIG, "text", LONG, "params", 0L), taskyard.result(id));
            Task ended = taskyard.await(id);
            assertEquals(
                    List.of("params.json", "result.json"),
                    ended.getArtifactsList().stream().map(Artifact::getName).toList());
            assertEquals(taskyard.result(id), Json.output(ended));
            // A plain record has the references.
            Task plain = taskyard.get(id);
            assertFalse(plain.hasOutput() || plain.hasInput() || plain.getHold());
            assertTrue(plain.getParams().containsFields("$artifact"));
            Map<String, Object> told = asMap(asMap(Json.plain(plain.getResult())).get("$artifact"));
            assertEquals("/tasks/" + id + "/artifacts/result.json", told.get("href"));
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> asMap(Object value) {
        return (Map<String, Object>) value;
    }

    @Test
    void bytesOfACodecThatAreTooLargeKeepTheirEncoding() {
        ByteString data = ByteString.copyFromUtf8(LONG);
        try (RunningHost host = worker(task -> {
            Payload input = task.task().getInput();
            return List.of(input.getEncoding(), input.getData().equals(data));
        })) {
            var input = Payload.newBuilder().setData(data).setEncoding("mine");
            assertEquals(List.of("mine", true), taskyard.run(work().setInput(input).build()));
        }
    }

    @Test
    void whatOnlyLooksLikeAReferenceIsAValue() {
        Map<String, Object> params = Map.of("$artifact", Map.of("name", "result.json", "sizeBytes", 1L, "sha256", "00"));
        try (RunningHost host = worker(task -> {
            task.putArtifact("result.json", ArtifactContent.of(new byte[1]), null);
            return task.params();
        })) {
            assertEquals(params, taskyard.run("work", params));
        }
    }

    @Test
    void paramsThatAreNoJsonFailTheirTask() {
        Artifact artifact = Artifact.newBuilder().setName("params.json").setSizeBytes(1)
                // The hash of "{".
                .setSha256("021fb596db81e6d02bf3d2586ee3981fe519f275c0ac9ca76bbcf2ebb4097d96")
                .build();
        var task = work().setHold(true).setParams(References.to(artifact, "", null));
        String id = taskyard.submit(task.build()).getTaskId();
        taskyard.artifacts().attach(id, "params.json", ArtifactContent.of(new byte[] {'{'}), null);
        taskyard.resume(id);
        try (RunningHost host = worker(running -> "it ran")) {
            Task ended = taskyard.await(id);
            assertEquals(List.of(Task.State.failed, "bad_input"), List.of(ended.getState(), ended.getCode()));
            assertTrue(ended.getError().startsWith("the params cannot be fetched: not JSON"), ended.getError());
        }
    }

    @Test
    void aRepeatOfLargeParamsIsTheSameTaskWhichKeepsItsHold() {
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("one", 1);
        params.put("two", LONG);
        var task = work().setIdempotencyKey("once").setHold(true).setParams(Json.struct(params));
        String id = taskyard.submit(task.build()).getTaskId();
        params.remove("one");
        params.put("one", 1);
        SubmitTaskResponse again = taskyard.submit(task.setParams(Json.struct(params)).build());
        assertEquals(List.of(id, Task.State.pending), List.of(again.getTaskId(), again.getState()));
        assertTrue(taskyard.get(id).getHold());
        taskyard.resume(id);
        again = taskyard.submit(task.build());
        assertEquals(List.of(id, Task.State.queued), List.of(again.getTaskId(), again.getState()));
        params.put("one", 2);
        var other = assertThrows(
                TaskyardException.class,
                () -> taskyard.submit(task.setParams(Json.struct(params)).build()));
        assertEquals("already_exists", other.code());
    }

    @Test
    void aBatchWithLargeParamsSaysWhatToDo() {
        var large = BatchTask.newBuilder().setAction("work").setParams(Json.struct(Map.of("text", LONG)));
        var refused = assertThrows(
                TaskyardException.class,
                () -> taskyard.submitBatch(
                        List.of(BatchTask.newBuilder().setAction("work").build(), large.build())));
        assertEquals("too_large", refused.code());
        assertTrue(refused.reason().contains("tasks[1].params: "), refused.reason());
        assertTrue(refused.reason().endsWith("submit this task by itself: submit makes an artifact of them"));
        assertEquals(0, taskyard.list(ListTasksRequest.getDefaultInstance()).count());
    }

    /** A server without artifacts, such as one of an earlier version. */
    private static final class Earlier extends TaskServiceGrpc.TaskServiceImplBase {
        final List<SubmitTaskRequest> submits = Collections.synchronizedList(new ArrayList<>());
        final List<String> cancels = Collections.synchronizedList(new ArrayList<>());

        /** How the first submission is answered; null as it should be. */
        volatile Status first;

        @Override
        public void submitTask(SubmitTaskRequest request, StreamObserver<SubmitTaskResponse> answer) {
            submits.add(request);
            if (first != null && submits.size() == 1) {
                answer.onError(first.asRuntimeException());
                return;
            }
            answer.onNext(SubmitTaskResponse.newBuilder()
                    .setTaskId("tsk_1")
                    .setState(Task.State.pending)
                    .build());
            answer.onCompleted();
        }

        @Override
        public void cancelTask(CancelTaskRequest request, StreamObserver<CancelTaskResponse> answer) {
            cancels.add(request.getTaskId());
            answer.onNext(CancelTaskResponse.getDefaultInstance());
            answer.onCompleted();
        }
    }

    private static String codeOfSubmit(Earlier service, SubmitTaskRequest.Builder task) throws IOException {
        Server server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(service)
                .build()
                .start();
        try (Taskyard client = Taskyard.connect("127.0.0.1:" + server.getPort())) {
            task.setParams(Json.struct(Map.of("text", LONG)));
            return assertThrows(TaskyardException.class, () -> client.submit(task.build())).code();
        } finally {
            server.shutdownNow();
        }
    }

    @Test
    void aTaskThatCannotGetItsParamsIsCancelled() throws IOException {
        Earlier service = new Earlier();
        assertEquals("too_large", codeOfSubmit(service, work().setIdempotencyKey("once")));
        assertTrue(service.submits.get(0).getHold());
        assertEquals(List.of("tsk_1"), service.cancels);
    }

    @Test
    void aTaskWhoseIdWasNotToldIsFoundByItsKeyUnlessTheCallerKnowsIt() throws IOException {
        Earlier service = new Earlier();
        service.first = Status.DEADLINE_EXCEEDED;
        assertEquals("deadline_exceeded", codeOfSubmit(service, work()));
        assertEquals(
                service.submits.get(0).getIdempotencyKey(), service.submits.get(1).getIdempotencyKey());
        assertEquals(List.of("tsk_1"), service.cancels);

        service = new Earlier();
        service.first = Status.DEADLINE_EXCEEDED;
        assertEquals("deadline_exceeded", codeOfSubmit(service, work().setIdempotencyKey("once")));
        assertEquals(List.of(), service.cancels);
        assertEquals(1, service.submits.size());
    }
}
