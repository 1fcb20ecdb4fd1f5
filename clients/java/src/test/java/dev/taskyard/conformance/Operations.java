package dev.taskyard.conformance;

import dev.taskyard.Json;
import dev.taskyard.Taskyard;
import dev.taskyard.v1.Attempt;
import dev.taskyard.v1.BatchOutcome;
import dev.taskyard.v1.BatchTask;
import dev.taskyard.v1.ClaimTaskRequest;
import dev.taskyard.v1.CompleteTaskRequest;
import dev.taskyard.v1.DeregisterHostRequest;
import dev.taskyard.v1.DrainHostRequest;
import dev.taskyard.v1.Error;
import dev.taskyard.v1.LeaseServiceGrpc;
import dev.taskyard.v1.ListTasksRequest;
import dev.taskyard.v1.RegisterHostRequest;
import dev.taskyard.v1.RetryPolicy;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import dev.taskyard.v1.SubmitBatchRequest;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.WatchTasksRequest;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** The operations of the scenario: by the methods of the client, and those of a plain worker by the raw stubs. */
final class Operations {
    private final Taskyard taskyard;
    private final LeaseServiceGrpc.LeaseServiceBlockingStub leases;
    private final RuntimeHostServiceGrpc.RuntimeHostServiceBlockingStub hosts;
    private final Map<String, OpenWatch> watches = new HashMap<>();

    Operations(Taskyard taskyard) {
        this.taskyard = taskyard;
        leases = taskyard.stub(LeaseServiceGrpc::newBlockingStub);
        hosts = taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub);
    }

    Map<String, Object> perform(String step, String name, Arguments with) throws Exception {
        return switch (name) {
            case "submit" -> submit(with);
            case "submit_batch" -> submitBatch(with);
            case "get" -> taskOutcome(taskyard.get(with.text("task")));
            case "list" -> list(with);
            case "wait" -> await(with);
            case "cancel" -> state(taskyard.cancel(with.text("task")));
            case "pause" -> state(taskyard.pause(with.text("task")));
            case "resume" -> resume(with);
            case "resolve" -> state(taskyard.resolve(with.text("task"), with.any("result")));
            case "get_batch" -> getBatch(with);
            case "cancel_batch" -> Map.of("cancelled", taskyard.cancelBatch(with.text("batch")));
            case "stats" -> stats();
            case "watch" -> watch(step, with);
            case "watch_more" -> watches.get(with.text("watch")).take(with);
            case "cut" -> cut(with);
            case "sleep" -> sleep(with);
            case "register" -> register(with);
            case "claim" -> claim(with);
            case "complete" -> complete(with);
            case "deregister" -> deregister(with);
            case "drain" -> drain(with);
            default -> throw new IllegalArgumentException("no operation " + name);
        };
    }

    private Map<String, Object> submit(Arguments with) {
        var request = SubmitTaskRequest.newBuilder()
                .setAgentId(with.text("agent"))
                .setAction(with.text("action"))
                .setHold(with.truth("hold"))
                .setPriority(with.number("priority"));
        if (with.has("params")) {
            request.setParams(Json.struct(with.object("params")));
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
        if (with.has("retry")) {
            Arguments retry = new Arguments(with.object("retry"));
            RetryPolicy.Builder policy = RetryPolicy.newBuilder().setMaxAttempts(retry.number("max_attempts"));
            if (retry.has("first_delay_ms")) {
                policy.setFirstDelayMs(retry.number("first_delay_ms"));
            }
            request.setRetryPolicy(policy.addAllNonRetryableCodes(retry.texts("non_retryable_codes")));
        }
        var submitted = taskyard.submit(request.build());
        return Map.of(
                "task", submitted.getTaskId(), "state", submitted.getState().name());
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
        if (with.has("page_size")) {
            request.setPageSize(with.number("page_size"));
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
        Map<String, Object> outcome = taskOutcome(ended.get());
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

    private Map<String, Object> register(Arguments with) {
        var request = RegisterHostRequest.newBuilder().setHostId(with.text("host"));
        return Map.of("host", hosts.registerHost(request.build()).getHost().getId());
    }

    private Map<String, Object> claim(Arguments with) {
        var request = ClaimTaskRequest.newBuilder().setHostId(with.text("host")).setWaitMs(with.number("ms"));
        if (with.has("lease_secs")) {
            request.setLeaseSecs(with.number("lease_secs"));
        }
        var answer = leases.claimTask(request.build());
        return answer.getClaimed()
                ? Map.of("claimed", true, "task", answer.getTaskId(), "token", (long) answer.getFencingToken())
                : Map.of("claimed", false);
    }

    private Map<String, Object> complete(Arguments with) {
        var request = CompleteTaskRequest.newBuilder()
                .setHostId(with.text("host"))
                .setTaskId(with.text("task"))
                .setFencingToken(with.number("token"))
                .setResult(Json.value(with.any("result")));
        if (with.has("tokens")) {
            request.setTokensUsed(with.number("tokens"));
        }
        return state(leases.completeTask(request.build()).getState());
    }

    private Map<String, Object> deregister(Arguments with) {
        var request = DeregisterHostRequest.newBuilder().setHostId(with.text("host"));
        return Map.of("deregistered", hosts.deregisterHost(request.build()).getDeregistered());
    }

    private Map<String, Object> drain(Arguments with) {
        var request = DrainHostRequest.newBuilder().setHostId(with.text("host"));
        if (with.has("grace_secs")) {
            request.setGracePeriodSecs(with.number("grace_secs"));
        }
        return Map.of("draining", hosts.drainHost(request.build()).getHost().getDraining());
    }

    private static Map<String, Object> state(Task.State state) {
        return Map.of("state", state.name());
    }

    private static Map<String, Object> taskOutcome(Task task) {
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("task", task.getTaskId());
        outcome.put("agent", task.getAgentId());
        outcome.put("action", task.getAction());
        outcome.put("state", task.getState().name());
        outcome.put("params", Json.plain(task.getParams()));
        outcome.put("labels", task.getLabelsMap());
        outcome.put("result", Json.plain(task.getResult()));
        outcome.put("error_text", task.hasError() ? task.getError() : null);
        outcome.put("run", Math.max(1, task.getRun()));
        outcome.put("attempts", task.getAttemptsCount());
        outcome.put("codes", task.getAttemptsList().stream().map(Operations::code).toArray());
        outcome.put("progress", task.hasProgress() ? progress(task) : null);
        outcome.put("tokens", task.hasTokensUsed() ? task.getTokensUsed() : null);
        outcome.put("token_limit", task.hasTokenLimit() ? task.getTokenLimit() : null);
        return outcome;
    }

    private static Object code(Attempt attempt) {
        return attempt.hasCode() ? attempt.getCode() : null;
    }

    private static Map<String, Object> progress(Task task) {
        var reported = task.getProgress();
        Map<String, Object> progress = new LinkedHashMap<>();
        progress.put("fraction", reported.hasFraction() ? reported.getFraction() : null);
        progress.put("message", reported.hasMessage() ? reported.getMessage() : null);
        return progress;
    }
}
