package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.Error;
import dev.taskyard.v1.SubmitOutcome;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.SubmitTasksRequest;
import dev.taskyard.v1.SubmitTasksResponse;
import dev.taskyard.v1.TaskServiceGrpc;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Single submissions: which share a stream, and what becomes of them when it breaks. */
@Timeout(60)
class SubmitterTest {
    private final Agents service = new Agents();
    private final List<Thread> submitting = new ArrayList<>();
    private Server server;
    private Taskyard taskyard;

    /** A server whose first unary submit does not end until {@link #firstMayEnd}, so that those after it share a stream. */
    private static final class Agents extends TaskServiceGrpc.TaskServiceImplBase {
        final CountDownLatch firstMayEnd = new CountDownLatch(1);
        final CountDownLatch firstCame = new CountDownLatch(1);
        final CountDownLatch mayAnswer = new CountDownLatch(1);
        final AtomicInteger unary = new AtomicInteger();
        final AtomicInteger streams = new AtomicInteger();
        final List<Integer> sizes = Collections.synchronizedList(new ArrayList<>());
        final Set<String> keys = ConcurrentHashMap.newKeySet();

        /** What happens to the first streams, by their number. */
        volatile Map<Integer, Status> ends = Map.of();

        volatile Error refusal;

        @Override
        public void submitTask(SubmitTaskRequest request, StreamObserver<SubmitTaskResponse> answer) {
            if (unary.incrementAndGet() == 1) {
                firstCame.countDown();
                awaitQuietly(firstMayEnd);
            }
            keys.add(request.getIdempotencyKey());
            answer.onNext(accepted(request));
            answer.onCompleted();
        }

        @Override
        public StreamObserver<SubmitTasksRequest> submitTasks(StreamObserver<SubmitTasksResponse> answer) {
            Status end = ends.get(streams.incrementAndGet());
            return new StreamObserver<>() {
                @Override
                public void onNext(SubmitTasksRequest message) {
                    awaitQuietly(mayAnswer);
                    if (end != null) {
                        answer.onError(end.asRuntimeException());
                        return;
                    }
                    sizes.add(message.getTasksCount());
                    var outcomes = SubmitTasksResponse.newBuilder();
                    for (SubmitTaskRequest task : message.getTasksList()) {
                        keys.add(task.getIdempotencyKey());
                        outcomes.addOutcomes(
                                refusal == null
                                        ? SubmitOutcome.newBuilder().setAccepted(accepted(task))
                                        : SubmitOutcome.newBuilder().setError(refusal));
                    }
                    answer.onNext(outcomes.build());
                }

                @Override
                public void onError(Throwable gone) {
                    // The client has cancelled.
                }

                @Override
                public void onCompleted() {
                    answer.onCompleted();
                }
            };
        }

        private static SubmitTaskResponse accepted(SubmitTaskRequest task) {
            return SubmitTaskResponse.newBuilder().setTaskId("tsk_" + task.getAction()).build();
        }
    }

    @BeforeEach
    void start() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(service)
                .build()
                .start();
        taskyard = Taskyard.connect(TaskyardOptions.of("127.0.0.1:" + server.getPort())
                .withAgentId("ann")
                .withPatience(Duration.ofSeconds(5)));
    }

    @AfterEach
    void stop() {
        service.firstMayEnd.countDown();
        service.mayAnswer.countDown();
        taskyard.close();
        server.shutdownNow();
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException ends) {
            Thread.currentThread().interrupt();
        }
    }

    private CompletableFuture<SubmitTaskResponse> inBackground(String action) {
        CompletableFuture<SubmitTaskResponse> answer = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                answer.complete(taskyard.submit(action, Map.of()));
            } catch (TaskyardException error) {
                answer.completeExceptionally(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        submitting.add(thread);
        return answer;
    }

    /** Occupies the unary call, so that what is submitted from now on takes the stream. */
    private CompletableFuture<SubmitTaskResponse> occupied() {
        var first = inBackground("first");
        awaitQuietly(service.firstCame);
        return first;
    }

    @Test
    void aSubmitAloneTakesAUnaryCall() {
        service.firstMayEnd.countDown();
        for (int n = 0; n < 3; n++) {
            taskyard.submit("click", Map.of());
        }
        assertEquals(3, service.unary.get());
        assertEquals(0, service.streams.get());
    }

    @Test
    void submitsAtTheSameTimeShareMessagesAndEachGetsItsOwnAnswer() {
        occupied();
        var answers = IntStream.range(0, 120).mapToObj(n -> inBackground("a" + n)).toList();
        while (submitting.stream().anyMatch(thread -> thread.getState() == Thread.State.RUNNABLE)) {
            Thread.onSpinWait();
        }
        service.mayAnswer.countDown();
        for (int n = 0; n < 120; n++) {
            assertEquals("tsk_a" + n, answers.get(n).join().getTaskId());
        }
        assertEquals(1, service.streams.get());
        assertTrue(service.sizes.size() < 30, "messages of " + service.sizes);
        assertTrue(Collections.max(service.sizes) <= SubmitStream.MAX_MESSAGE_TASKS);
    }

    @Test
    void aLargeTaskTakesAUnaryCall() {
        occupied();
        taskyard.submit("x".repeat(Submitter.MAX_MESSAGE_BYTES + 1), Map.of());
        assertEquals(2, service.unary.get());
        assertEquals(0, service.streams.get());
    }

    @Test
    void aSubmitWithAContextOfItsOwnTakesAUnaryCall() throws Exception {
        occupied();
        Context.current().withCancellation().call(() -> taskyard.submit("click", Map.of()));
        assertEquals(0, service.streams.get());
    }

    @Test
    void whatABrokenStreamDidNotAnswerIsSubmittedAgainUnderTheSameKey() {
        service.ends = Map.of(1, Status.UNAVAILABLE);
        service.mayAnswer.countDown();
        var first = occupied();
        assertEquals("tsk_a", inBackground("a").join().getTaskId());
        service.firstMayEnd.countDown();
        first.join();
        assertEquals(2, service.keys.size());
    }

    @Test
    void afterAnotherErrorOfTheStreamEachTaskTakesAUnaryCall() {
        service.ends = Map.of(1, Status.INTERNAL);
        service.mayAnswer.countDown();
        occupied();
        assertEquals("tsk_a", inBackground("a").join().getTaskId());
        assertEquals(2, service.unary.get());
    }

    @Test
    void aRefusalOnAStreamIsThatOfACall() {
        service.refusal = Error.newBuilder()
                .setCode("queue_full")
                .setError("full")
                .setRetryable(true)
                .setRetryAfterMs(1_500)
                .build();
        service.mayAnswer.countDown();
        occupied();
        var refused = assertThrows(TaskyardException.class, () -> taskyard.submit("a", Map.of()));
        assertEquals("queue_full", refused.code());
        assertEquals(Duration.ofMillis(1_500), refused.retryAfter().orElseThrow());
    }

    @Test
    void anInterruptedSubmitAffectsNoOther() {
        occupied();
        var other = inBackground("other");
        var interrupted = inBackground("interrupted");
        submitting.get(2).interrupt();
        var cancelled = assertThrows(CompletionException.class, interrupted::join);
        assertEquals("cancelled", ((TaskyardException) cancelled.getCause()).code());
        service.mayAnswer.countDown();
        assertEquals("tsk_other", other.join().getTaskId());
    }

    @Test
    void aClosedClientEndsWhatWaits() {
        occupied();
        var waiting = inBackground("waiting");
        taskyard.close();
        var ended = assertThrows(CompletionException.class, waiting::join);
        assertEquals("cancelled", ((TaskyardException) ended.getCause()).code());
    }
}
