package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import dev.taskyard.v1.ListQuestionsRequest;
import dev.taskyard.v1.Question;
import dev.taskyard.v1.ReadOutputRequest;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.Wait;
import dev.taskyard.v1.WatchTasksRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Handlers that ask, sleep and join: they hold no slot meanwhile, and begin again with what came. With a real server. */
@Timeout(60)
class ParksTest {
    private static final Duration HOUR = Duration.ofHours(1);

    private final Taskyard taskyard = Taskyard.connect(LiveServer.options());

    @AfterEach
    void close() {
        taskyard.close();
    }

    private RunningHost worker(Handler handler) {
        var options = HostOptions.defaults().withSlots(1);
        return new RunningHost(new Host(taskyard, "worker", options).action("work", handler));
    }

    private String submit(Map<String, ?> params) {
        return taskyard.submit("work", params).getTaskId();
    }

    /** The task once it waits for something. */
    private Task untilParked(String id) throws InterruptedException {
        var filters = WatchTasksRequest.newBuilder().addTaskIds(id).setIncludeCurrent(true);
        try (Watch watch = taskyard.watch(filters.build())) {
            for (Task.State state = Task.State.queued; state != Task.State.parked; ) {
                var event = watch.next();
                state = event.hasTask() ? event.getTask().getState() : state;
                assertTrue(state != Task.State.failed && state != Task.State.done, event.getTask().getError());
            }
        }
        return taskyard.get(id);
    }

    private static List<String> waitsOf(Task task) {
        return task.getPark().getWaitsList().stream().map(wait -> wait.getKind() + " " + wait.getName()).toList();
    }

    private List<String> stepsOf(String id) {
        return taskyard.steps(id).stream().map(step -> step.getKind() + " " + step.getName()).toList();
    }

    private List<String> saidBy(String id) {
        List<String> said = new ArrayList<>();
        try (OutputReader reader = taskyard.output(ReadOutputRequest.newBuilder().setTaskId(id).build())) {
            reader.forEachRemaining(chunk -> said.add(chunk.getText()));
        }
        return said;
    }

    @Test
    void aTaskWaitsWithoutASlotAndGoesOnWithWhatCame() throws Exception {
        AtomicInteger begun = new AtomicInteger();
        AtomicInteger built = new AtomicInteger();
        try (RunningHost host = worker(task -> {
            if (task.params().containsKey("other")) {
                return "ran beside it";
            }
            begun.incrementAndGet();
            try {
                // A step and a question may have the same name.
                int image = task.step("deploy", Integer.class, built::incrementAndGet);
                long count = task.ask("deploy", Long.class, "How many?", 1, 2, null);
                task.sleep(Duration.ofMillis(1), "settle");
                return List.of(image, count);
            } catch (Exception swallowed) {
                return "a park is no exception";
            } finally {
                task.emit("cleaned\n");
            }
        })) {
            String id = submit(Map.of());
            Wait wait = untilParked(id).getPark().getWaits(0);
            assertEquals(List.of("How many?", 3), List.of(
                    wait.getQuestion().getText(), wait.getQuestion().getChoices().getValuesCount()));
            assertEquals("ran beside it", taskyard.run("work", Map.of("other", true)));
            var open = taskyard.questions().toList();
            assertEquals(List.of(id, "deploy"), List.of(open.get(0).getTaskId(), open.get(0).getQuestionId()));
            var others = ListQuestionsRequest.newBuilder().setAgentId("nobody").build();
            assertEquals(0, taskyard.questions(others).count());
            assertEquals("bad_request", refused(() -> taskyard.answer(id, "deploy", 3)));
            assertEquals(Task.State.queued, taskyard.answer(id, "deploy", 2));
            assertEquals("conflict", refused(() -> taskyard.answer(id, "deploy", null)));
            assertEquals(List.of(1L, 2L), taskyard.result(id));
            assertEquals(List.of(3, 1), List.of(begun.get(), built.get()));
            assertEquals(List.of("work deploy", "answer deploy", "time settle"), stepsOf(id));
            assertEquals(List.of("cleaned\n", "cleaned\n", "cleaned\n"), saidBy(id));
            assertEquals(0, taskyard.get(id).getAttemptsCount());
        }
    }

    private static String refused(Runnable call) {
        return assertThrows(TaskyardException.class, call::run).code();
    }

    @Test
    void whatIsWaitedForSideBySideIsOneParkOnceStepsAreDone() throws Exception {
        try (RunningHost host = worker(task -> {
            CountDownLatch isSlow = new CountDownLatch(1);
            CountDownLatch unwound = new CountDownLatch(1);
            Thread leftBehind = new Thread(() -> {
                try {
                    task.step("slow", Long.class, () -> {
                        isSlow.countDown();
                        unwound.await();
                        return 1L;
                    });
                } catch (Exception unexpected) {
                    throw new IllegalStateException(unexpected);
                }
            });
            if (task.task().getSteps() == 0) {
                leftBehind.start();
                isSlow.await();
            }
            List<CompletableFuture<String>> asking = IntStream.range(0, 2)
                    .mapToObj(n -> CompletableFuture.supplyAsync(() -> asked(task, "q" + n)))
                    .toList();
            try {
                CompletableFuture.allOf(asking.toArray(CompletableFuture[]::new)).get();
            } finally {
                unwound.countDown();
            }
            return asking.stream().map(CompletableFuture::join).toList();
        })) {
            String id = submit(Map.of());
            assertEquals(
                    List.of("answer q0", "answer q1"), waitsOf(untilParked(id)).stream().sorted().toList());
            assertEquals(List.of("work slow"), stepsOf(id));
            assertEquals(List.of(), saidBy(id));
            taskyard.answer(id, "q1", "b");
            assertEquals(List.of("answer q0"), waitsOf(untilParked(id)));
            taskyard.answer(id, "q0", "a");
            assertEquals(List.of("a", "b"), taskyard.result(id));
        }
    }

    private static String asked(RunningTask task, String id) {
        try {
            return task.ask(id, String.class, "Go?");
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }

    @Test
    void theTargetOfATaskThatWaitsStaysTakenUnlessItIsReleased() throws Exception {
        for (boolean releases : new boolean[] {false, true}) {
            try (RunningHost host = worker(task -> {
                if (task.params().isEmpty()) {
                    return null;
                }
                task.setReleasesTarget(releases);
                return task.ask("go", String.class, "Go?");
            })) {
                var page = SubmitTaskRequest.newBuilder().setAction("work").setTarget("page-" + releases);
                var asking = page.clone().setParams(Json.struct(Map.of("asks", true)));
                String first = taskyard.submit(asking.build()).getTaskId();
                untilParked(first);
                String second = taskyard.submit(page.build()).getTaskId();
                if (releases) {
                    taskyard.result(second);
                }
                taskyard.answer(first, "go", "gone");
                var ended = taskyard.await(first).getCompletedAt();
                var began = taskyard.await(second).getStartedAt();
                assertEquals(releases, timeOf(began).isBefore(timeOf(ended)), began + " and " + ended);
            }
        }
    }

    private static Instant timeOf(Timestamp time) {
        return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
    }

    @Test
    void aTaskJoinsOthers() {
        String held = taskyard.submit(SubmitTaskRequest.newBuilder().setAction("work").setHold(true).build()).getTaskId();
        try (RunningHost host = worker(task -> {
            if (task.parentId().isPresent()) {
                task.sleep(Duration.ofMillis(10), "nap");
                return "child";
            }
            task.join(List.of(), "nothing", null);
            String child = task.step("child", String.class, () -> submit(Map.of()));
            task.join(List.of(child, child), "children", null);
            assertThrows(TimeoutException.class, () -> task.join(List.of(held), "late", Duration.ofMillis(1)));
            return taskyard.result(child);
        })) {
            String id = submit(Map.of());
            assertEquals("child", taskyard.result(id));
            assertEquals(List.of("work child", "ends children", "ends late"), stepsOf(id));
        }
    }

    @Test
    void aDefaultThatCountsIsAnAnswerAndWithoutOneTheTaskFails() {
        try (RunningHost host = worker(task -> {
            var question = Question.newBuilder()
                    .setUrl("https://example.com")
                    .setSchema(Json.struct(Map.of("type", "object")))
                    .setDefault(Json.value(Map.of("n", 1)));
            assertEquals(Map.of("n", 1L), task.ask("first", Map.class, question.build(), Duration.ZERO));
            return task.ask("second", String.class, NewWaits.question("second", "Go?"), Duration.ofMillis(1));
        })) {
            Task ended = taskyard.await(submit(Map.of()));
            assertEquals("question_expired", ended.getCode(), ended.getError());
        }
    }

    @Test
    void aHandlerThatSwallowsTheParkIsParkedAllTheSameAndTold() throws Exception {
        for (String end : List.of("returns", "throws")) {
            try (RunningHost host = worker(task -> {
                try {
                    return task.ask("go", String.class, "Go?");
                } catch (Throwable swallowed) {
                    assertThrows(Parked.class, () -> task.step("late", Long.class, () -> 1L));
                    assertThrows(Parked.class, () -> task.putArtifact("late", ArtifactContent.of(new byte[0]), null));
                    if (end.equals("throws")) {
                        throw new IllegalStateException("broken");
                    }
                    return "went on";
                }
            })) {
                String id = submit(Map.of());
                Task task = untilParked(id);
                assertEquals(List.of(0, 0), List.of(task.getSteps(), task.getArtifactsCount()));
                assertEquals(1, saidBy(id).size());
                assertTrue(
                        saidBy(id).get(0).startsWith("ERROR the handler went on after its task was parked: "),
                        saidBy(id).get(0));
                taskyard.answer(id, "go", "gone");
                assertEquals("gone", taskyard.result(id));
            }
        }
    }

    @Test
    void whatCannotBeWaitedForIsSaidAtOnce() {
        Map<String, Handler> cases = new LinkedHashMap<>();
        cases.put("ask 'a b': an id has 1 to 128 letters", task -> task.ask("a b", Object.class, "Go?"));
        cases.put("ask 'go': it has a text, or a URL", task -> task.ask("go", Object.class, ""));
        cases.put("ask 'go': choices: ", task -> task.ask("go", Object.class, "Go?", new Object()));
        cases.put(
                "ask 'go': the time is from 0 to 366 days, not PT-1H",
                task -> task.ask("go", Object.class, NewWaits.question("go", "Go?"), HOUR.negated()));
        // What the server alone knows.
        cases.put("park refused: ", task -> task.ask("go", Object.class, "Go?", Collections.nCopies(101, 1).toArray()));
        cases.put("sleep ' ': its name must have", task -> {
            task.sleep(HOUR, " ");
            return null;
        });
        cases.put("join 'all': it has at most 10000 tasks, not 10001", task -> {
            task.join(IntStream.range(0, 10_001).mapToObj(Integer::toString).toList(), "all", null);
            return null;
        });
        cases.put("sleep 'nap': this run has used the name already", task -> {
            task.sleep(Duration.ZERO, "nap");
            task.sleep(Duration.ZERO, "nap");
            return null;
        });
        cases.put(
                "ask 'go': it is within the step 'it', whose work would be lost",
                task -> task.step("it", Object.class, () -> task.ask("go", Object.class, "Go?")));
        try (RunningHost host = worker(task -> cases.get((String) task.params().get("case")).run(task))) {
            for (String error : cases.keySet()) {
                Task ended = taskyard.await(submit(Map.of("case", error)));
                assertTrue(ended.getError().startsWith(error), ended.getError());
            }
        }
    }

    @Test
    void anAnswerOfAnotherTypeFailsTheTask() throws Exception {
        try (RunningHost host = worker(task -> task.ask("go", Long.class, "Go?"))) {
            String id = submit(Map.of());
            untilParked(id);
            taskyard.answer(id, "go", "yes");
            String error = taskyard.await(id).getError();
            assertTrue(error.contains("ask 'go': the answer does not fit: as a plain value it is a String, no Long"), error);
        }
    }

    @Test
    void aTaskThatIsCancelledWhileAStepIsUnderWayIsNotParked() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch cancelled = new CountDownLatch(1);
        CompletableFuture<String> late = new CompletableFuture<>();
        try (RunningHost host = worker(task -> {
            new Thread(() -> {
                try {
                    task.step("slow", Long.class, () -> {
                        begun.countDown();
                        cancelled.await();
                        return 1L;
                    });
                } catch (Exception refused) {
                    late.complete(refused instanceof TaskyardException known ? known.code() : refused.toString());
                }
            }).start();
            begun.await();
            return task.ask("go", String.class, "Go?");
        })) {
            String id = submit(Map.of());
            begun.await();
            taskyard.cancel(id);
            cancelled.countDown();
            assertEquals("lease_lost", late.get());
            assertEquals("not_found", refused(() -> taskyard.answer(id, "go", 1)));
        }
    }
}
