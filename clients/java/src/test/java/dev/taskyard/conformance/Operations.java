package dev.taskyard.conformance;

import com.google.gson.Gson;
import dev.taskyard.Json;
import dev.taskyard.OutputReader;
import dev.taskyard.Taskyard;
import dev.taskyard.TaskyardException;
import dev.taskyard.v1.BatchOutcome;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.CancelTaskRequest;
import dev.taskyard.v1.CancelTaskResponse;
import dev.taskyard.v1.Error;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.OutputChunk;
import dev.taskyard.v1.ReadOutputRequest;
import dev.taskyard.v1.RetryPolicy;
import dev.taskyard.v1.SubmitBatchRequest;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.WatchTasksRequest;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** The operations of the scenario, by the methods of the client; {@link WorkerOperations} has those by the raw stubs. */
final class Operations {
    private final Taskyard taskyard;
    private final WorkerOperations worker;
    private final QueueOperations queue;
    private final Map<String, BackgroundHost> hosts = new HashMap<>();
    private final Map<String, OpenWatch> watches = new HashMap<>();

    Operations(Taskyard taskyard) {
        this.taskyard = taskyard;
        worker = new WorkerOperations(taskyard);
        queue = new QueueOperations(taskyard);
    }

    Map<String, Object> perform(String step, String name, Arguments with) throws Exception {
        return switch (name) {
            case "submit" -> submit(with);
            case "submit_inexact" -> submitInexact(with);
            case "submit_batch" -> submitBatch(with);
            case "get" -> TaskOutcomes.of(taskyard.get(with.text("task")));
            case "list" -> list(with);
            case "wait" -> await(with);
            case "cancel" -> cancel(with);
            case "pause" -> state(taskyard.pause(with.text("task")));
            case "resume" -> resume(with);
            case "resolve" -> state(taskyard.resolve(with.text("task"), with.any("result")));
            case "get_batch" -> getBatch(with);
            case "cancel_batch" -> Map.of("cancelled", taskyard.cancelBatch(with.text("batch")));
            case "stats" -> stats();
            case "watch" -> watch(step, with);
            case "watch_more" -> watches.get(with.text("watch")).take(with);
            case "read_output" -> readOutput(with);
            case "read_artifact" -> readArtifact(with);
            case "list_steps" -> Map.of("steps", steps(with.text("task")));
            case "list_questions" -> Map.of("questions", questions(with.text("task")));
            case "answer" -> state(taskyard.answer(with.text("task"), with.text("question"), with.any("answer")));
            case "send_event" -> Map.of("waiting", taskyard.sendEvent(with.text("name"), with.any("payload")));
            case "result" -> result(with);
            case "cut" -> cut(with);
            case "sleep" -> sleep(with);
            case "explain" -> queue.explain(with);
            case "put_limit" -> queue.putLimit(with);
            case "limits" -> queue.limits();
            case "delete_limit" -> queue.deleteLimit(with);
            case "put_weight" -> queue.putWeight(with);
            case "weights" -> queue.weights();
            case "delete_weight" -> queue.deleteWeight(with);
            case "cancel_tasks" -> queue.cancelTasks(with);
            case "host_start" -> hostStart(with);
            case "host_wait" -> hosts.get(with.text("host")).await(with, with.truth("left"));
            case "host_stop" -> hostStop(with);
            default -> worker.perform(name, with);
        };
    }

    private List<String> steps(String task) {
        return taskyard.steps(task).stream()
                .map(step -> step.getName() + " " + step.getRun() + " " + step.getAttempt())
                .toList();
    }

    private List<String> questions(String task) {
        return taskyard.questions()
                .filter(open -> open.getTaskId().equals(task))
                .map(open -> open.getQuestionId() + " " + open.getQuestion().getText())
                .toList();
    }

    private Map<String, Object> submit(Arguments with) {
        var request = SubmitTaskRequest.newBuilder()
                .setAgentId(with.text("agent"))
                .setAction(with.text("action"))
                .setHold(with.truth("hold"))
                .setPriority(with.number("priority"));
        if (with.has("params")) {
            Map<String, Object> params = new HashMap<>(with.object("params"));
            if (with.has("pad")) {
                params.put("pad", "x".repeat(with.number("pad")));
            }
            request.setParams(Json.struct(params));
        }
        if (with.has("labels")) {
            with.object("labels").forEach((key, label) -> request.putLabels(key, (String) label));
        }
        if (with.has("token_limit")) {
            request.setTokenLimit(with.number("token_limit"));
        }
        if (with.has("key")) {
            request.setIdempotencyKey(with.text("key"));
        }
        if (with.has("run_timeout_ms")) {
            request.setRunTimeoutMs(with.number("run_timeout_ms"));
        }
        if (with.has("parent")) {
            request.setParentId(with.text("parent"));
        }
        if (with.has("input")) {
            request.setInput(with.payload("input"));
        }
        if (with.has("retry")) {
            Arguments retry = new Arguments(with.object("retry"));
            RetryPolicy.Builder policy = RetryPolicy.newBuilder().setMaxAttempts(retry.number("max_attempts"));
            if (retry.has("first_delay_ms")) {
                policy.setFirstDelayMs(retry.number("first_delay_ms"));
            }
            request.setRetryPolicy(policy.addAllNonRetryableCodes(retry.texts("non_retryable_codes")));
        }
        queue.addTo(request, with);
        var submitted = taskyard.submit(request.build());
        return Map.of(
                "task", submitted.getTaskId(),
                "state", submitted.getState().name(),
                "existing", submitted.getExisting());
    }

    private Map<String, Object> submitInexact(Arguments with) {
        long number = Long.parseLong(with.text("number"));
        try {
            var request = SubmitTaskRequest.newBuilder()
                    .setAgentId(with.text("agent"))
                    .setAction(with.text("action"))
                    .setParams(Json.struct(Map.of("id", number)));
            var submitted = taskyard.submit(request.build());
            return Map.of("task", submitted.getTaskId(), "state", submitted.getState().name());
        } catch (IllegalArgumentException refused) {
            return Map.of("refused", refused.getMessage().startsWith("id:"));
        }
    }

    private Map<String, Object> cancel(Arguments with) {
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("stopping", null);
        if (with.has("wait_ms")) {
            CancelTaskResponse answer = taskyard.cancel(CancelTaskRequest.newBuilder()
                    .setTaskId(with.text("task"))
                    .setWaitMs(with.number("wait_ms"))
                    .build());
            outcome.put("state", answer.getStatus().name());
            outcome.put("children_cancelled", null);
            outcome.put("stopping", answer.getStopping().name());
        } else if (with.truth("children")) {
            CancelTaskResponse answer = taskyard.cancel(CancelTaskRequest.newBuilder()
                    .setTaskId(with.text("task"))
                    .setCancelChildren(true)
                    .build());
            outcome.put("state", answer.getStatus().name());
            outcome.put("children_cancelled", answer.getChildrenCancelled());
        } else {
            outcome.put("state", taskyard.cancel(with.text("task")).name());
            outcome.put("children_cancelled", null);
        }
        return outcome;
    }

    /** Follows the output of a task to its end, in a thread of its own so that a step can limit how long that takes. */
    private Map<String, Object> readOutput(Arguments with) throws Exception {
        var request = ReadOutputRequest.newBuilder()
                .setTaskId(with.text("task"))
                .setAfter(with.number("after_chunk"))
                .addAllChannels(with.texts("channels"))
                .setFollow(true);
        try (OutputReader reader = taskyard.output(request.build())) {
            return CompletableFuture.supplyAsync(() -> {
                List<String> chunks = new ArrayList<>();
                reader.forEachRemaining(chunk -> chunks.add(
                        chunk.getSequence() + " " + chunk.getChannel() + " " + saidIn(chunk)));
                return Map.<String, Object>of("chunks", chunks);
            }).get(with.number("ms"), TimeUnit.MILLISECONDS);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof TaskyardException error ? error : failed;
        }
    }

    private Map<String, Object> readArtifact(Arguments with) {
        byte[] data = taskyard.artifacts().read(with.text("task"), with.text("name"));
        return Map.of("size", data.length, "sha256", BackgroundHost.hashOf(data));
    }

    /** The value of a result, wherever it is. */
    private Map<String, Object> result(Arguments with) {
        Task ended = taskyard.await(with.text("task"), Duration.ofMillis(with.number("ms"))).orElseThrow();
        Map<String, Object> value = new HashMap<>();
        ((Map<?, ?>) Json.output(ended)).forEach((name, field) -> value.put((String) name, field));
        String pad = (String) value.remove("pad");
        return Map.of("value", value, "pad", pad.length());
    }

    private static String saidIn(OutputChunk chunk) {
        return switch (chunk.getDataCase()) {
            case JSON -> new Gson().toJson(Json.plain(chunk.getJson()));
            case BINARY -> chunk.getBinary().toStringUtf8();
            default -> chunk.getText();
        };
    }

    private Map<String, Object> hostStart(Arguments with) {
        hosts.put(with.text("host"), new BackgroundHost(taskyard, with));
        return Map.of();
    }

    private Map<String, Object> hostStop(Arguments with) throws InterruptedException {
        BackgroundHost host = hosts.get(with.text("host"));
        host.drain();
        return host.await(with, true);
    }

    private Map<String, Object> submitBatch(Arguments with) {
        var request = SubmitBatchRequest.newBuilder().setAgentId(with.text("agent"));
        IntStream.range(0, with.number("count")).forEach(n -> {
            var task = BatchTask.newBuilder()
                    .setAction(with.text("action"))
                    .setHold(with.truth("hold"))
                    .setParams(Json.struct(Map.of("n", n)));
            if (with.has("labels")) {
                with.object("labels").forEach((key, label) -> task.putLabels(key, (String) label));
            }
            if (with.truth("chain") && n > 0) {
                task.addAfterIndexes(n - 1);
            }
            if (with.truth("handed") && n > 0) {
                task.putInputIndexes("before", n - 1);
            }
            request.addTasks(task);
        });
        var batch = taskyard.submitBatch(request.build());
        List<BatchOutcome> outcomes = batch.getTasksList();
        List<String> accepted = outcomes.stream()
                .filter(outcome -> !outcome.hasError())
                .map(BatchOutcome::getTaskId)
                .toList();
        List<Error> errors = outcomes.stream()
                .filter(BatchOutcome::hasError)
                .map(BatchOutcome::getError)
                .toList();
        return Map.of(
                "batch", batch.getBatchId(),
                "tasks", accepted,
                "accepted", accepted.size(),
                "refused", errors.stream().map(Error::getCode).toList(),
                "retry_after_ms", errors.stream().map(Operations::retryAfterMs).toArray());
    }

    private static Object retryAfterMs(Error error) {
        return error.hasRetryAfterMs() ? error.getRetryAfterMs() : null;
    }

    private Map<String, Object> resume(Arguments with) {
        String task = with.text("task");
        return state(
                with.has("token_limit") ? taskyard.resume(task, with.number("token_limit")) : taskyard.resume(task));
    }

    private Map<String, Object> list(Arguments with) {
        var request = ListTasksRequest.newBuilder().setState(String.join(",", with.texts("states")));
        if (with.has("agent")) {
            request.setAgentId(with.text("agent"));
        }
        if (with.has("batch")) {
            request.setBatchId(with.text("batch"));
        }
        if (with.has("parent")) {
            request.setParentId(with.text("parent"));
        }
        if (with.has("page_size")) {
            request.setPageSize(with.number("page_size"));
        }
        if (with.has("selector")) {
            request.setLabels(with.text("selector"));
        }
        if (with.has("concurrency_key")) {
            request.setConcurrencyKey(with.text("concurrency_key"));
        }
        if (with.has("id_prefix")) {
            request.setIdPrefix(with.text("id_prefix"));
        }
        List<Task> found = taskyard.list(request.build()).toList();
        return Map.of(
                "count", found.size(),
                "tasks", found.stream().map(Task::getTaskId).toList(),
                "states", found.stream().map(task -> task.getState().name()).toList());
    }

    private Map<String, Object> await(Arguments with) {
        var ended = taskyard.await(with.text("task"), Duration.ofMillis(with.number("ms")));
        if (ended.isEmpty()) {
            return Map.of("ended", false);
        }
        Map<String, Object> outcome = TaskOutcomes.of(ended.get());
        outcome.put("ended", true);
        return outcome;
    }

    private Map<String, Object> getBatch(Arguments with) {
        var batch = taskyard.getBatch(with.text("batch"));
        return Map.of("ended", batch.getEnded(), "count", batch.getTasksCount(), "states", batch.getStatesMap());
    }

    private Map<String, Object> stats() {
        var queue = taskyard.stats().getQueue();
        return Map.of(
                "queued", queue.getTotalQueued(),
                "paused", queue.getTotalPaused(),
                "agents", queue.getAgentCountsMap());
    }

    private Map<String, Object> watch(String step, Arguments with) throws InterruptedException {
        var request = WatchTasksRequest.newBuilder()
                .setIncludeCurrent(with.truth("include_current"))
                .setUntilEnded(with.truth("until_ended"));
        if (with.has("task")) {
            request.addTaskIds(with.text("task"));
        }
        if (with.has("batch")) {
            request.setBatchId(with.text("batch"));
        }
        if (with.has("agent")) {
            request.setAgentId(with.text("agent"));
        }
        if (with.has("cursor")) {
            request.setCursor(with.text("cursor"));
        }
        watches.put(step, new OpenWatch(step, taskyard.watch(request.build())));
        return watches.get(step).take(with);
    }

    private static Map<String, Object> cut(Arguments with) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(with.text("url")))
                .timeout(Duration.ofSeconds(10))
                .build();
        HttpClient.newHttpClient().send(request, BodyHandlers.discarding());
        return Map.of();
    }

    private static Map<String, Object> sleep(Arguments with) throws InterruptedException {
        Thread.sleep(with.number("ms"));
        return Map.of();
    }

    private static Map<String, Object> state(Task.State state) {
        return Map.of("state", state.name());
    }
}
