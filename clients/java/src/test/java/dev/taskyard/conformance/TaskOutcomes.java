package dev.taskyard.conformance;

import dev.taskyard.Json;
import dev.taskyard.v1.Attempt;
import dev.taskyard.v1.Payload;
import dev.taskyard.v1.Task;
import java.util.LinkedHashMap;
import java.util.Map;

/** A task as the outcome of a step. */
final class TaskOutcomes {
    private TaskOutcomes() {}

    static Map<String, Object> of(Task task) {
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
        outcome.put("codes", task.getAttemptsList().stream().map(TaskOutcomes::code).toArray());
        outcome.put("progress", task.hasProgress() ? progress(task) : null);
        outcome.put("tokens", task.hasTokensUsed() ? task.getTokensUsed() : null);
        outcome.put("token_limit", task.hasTokenLimit() ? task.getTokenLimit() : null);
        outcome.put("run_timeout_ms", task.hasRunTimeoutMs() ? task.getRunTimeoutMs() : null);
        outcome.put("parent", task.hasParentId() ? task.getParentId() : null);
        outcome.put("input", task.hasInput() ? text(task.getInput()) : null);
        outcome.put("input_encoding", encoding(task.getInput()));
        outcome.put("output", task.hasOutput() ? text(task.getOutput()) : null);
        outcome.put("output_encoding", encoding(task.getOutput()));
        outcome.put("code", task.hasCode() ? task.getCode() : null);
        outcome.put("traceback", task.hasTraceback() ? task.getTraceback() : null);
        outcome.put("keys", task.getConcurrencyKeysList().toArray());
        outcome.put("after", task.getAfterList().toArray());
        outcome.put("inputs", task.getInputsMap());
        outcome.put("unique_key", task.hasUniqueKey() ? task.getUniqueKey() : null);
        outcome.put("on_target_failure", task.hasOnTargetFailure() ? task.getOnTargetFailure() : null);
        return outcome;
    }

    static String text(Payload payload) {
        return payload.getData().toStringUtf8();
    }

    private static String encoding(Payload payload) {
        return payload.hasEncoding() ? payload.getEncoding() : null;
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
