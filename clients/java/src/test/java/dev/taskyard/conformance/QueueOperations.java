package dev.taskyard.conformance;

import dev.taskyard.Taskyard;
import dev.taskyard.v1.After;
import dev.taskyard.v1.AgentServiceGrpc;
import dev.taskyard.v1.AgentServiceGrpc.AgentServiceBlockingStub;
import dev.taskyard.v1.AgentWeight;
import dev.taskyard.v1.CancelTasksRequest;
import dev.taskyard.v1.DeleteAgentWeightRequest;
import dev.taskyard.v1.DeleteLimitRequest;
import dev.taskyard.v1.ExplainTaskRequest;
import dev.taskyard.v1.GetOperationRequest;
import dev.taskyard.v1.KeyUsage;
import dev.taskyard.v1.Limit;
import dev.taskyard.v1.LimitServiceGrpc;
import dev.taskyard.v1.LimitServiceGrpc.LimitServiceBlockingStub;
import dev.taskyard.v1.ListAgentWeightsRequest;
import dev.taskyard.v1.ListLimitsRequest;
import dev.taskyard.v1.Operation;
import dev.taskyard.v1.OperationServiceGrpc;
import dev.taskyard.v1.OperationServiceGrpc.OperationServiceBlockingStub;
import dev.taskyard.v1.PutAgentWeightRequest;
import dev.taskyard.v1.PutLimitRequest;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.TaskFilter;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import dev.taskyard.v1.Unique;
import dev.taskyard.v1.WaitReason;
import java.util.LinkedHashMap;
import java.util.Map;

/** The operations of the scenario on the queue, by the raw stubs. */
final class QueueOperations {
    private final TaskServiceBlockingStub tasks;
    private final LimitServiceBlockingStub limits;
    private final AgentServiceBlockingStub agents;
    private final OperationServiceBlockingStub operations;

    QueueOperations(Taskyard taskyard) {
        tasks = taskyard.stub(TaskServiceGrpc::newBlockingStub);
        limits = taskyard.stub(LimitServiceGrpc::newBlockingStub);
        agents = taskyard.stub(AgentServiceGrpc::newBlockingStub);
        operations = taskyard.stub(OperationServiceGrpc::newBlockingStub);
    }

    /** Adds to a request what the task says of others. */
    void addTo(SubmitTaskRequest.Builder request, Arguments with) {
        request.addAllConcurrencyKeys(with.texts("keys")).addAllAfter(with.texts("after"));
        if (with.has("inputs")) {
            with.object("inputs").forEach((name, task) -> request.putInputs(name, (String) task));
        }
        if (with.has("after_policy")) {
            request.setAfterPolicy(After.Policy.valueOf(with.text("after_policy")));
        }
        if (with.has("unique_key")) {
            request.setUniqueKey(with.text("unique_key"));
        }
        if (with.has("on_conflict")) {
            request.setOnConflict(Unique.Conflict.valueOf(with.text("on_conflict")));
        }
        if (with.has("target")) {
            request.setTarget(with.text("target"));
        }
        if (with.has("on_target_failure")) {
            request.setOnTargetFailure(with.text("on_target_failure"));
        }
    }

    Map<String, Object> explain(Arguments with) {
        var request = ExplainTaskRequest.newBuilder().setTaskId(with.text("task")).build();
        var answer = tasks.explainTask(request);
        return Map.of(
                "runnable", answer.getRunnable(),
                "kinds", answer.getReasonsList().stream().map(reason -> reason.getKind().name()).toArray(),
                "names", answer.getReasonsList().stream().map(QueueOperations::name).toArray());
    }

    Map<String, Object> putLimit(Arguments with) {
        var request = PutLimitRequest.newBuilder()
                .setPattern(with.text("pattern"))
                .setMaxInflight(with.number("max_inflight"))
                .build();
        Limit limit = limits.putLimit(request).getLimit();
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("pattern", limit.getPattern());
        outcome.put("max_inflight", limit.hasMaxInflight() ? limit.getMaxInflight() : null);
        outcome.put("per_second", limit.hasPerSecond() ? limit.getPerSecond() : null);
        return outcome;
    }

    Map<String, Object> limits() {
        var answer = limits.listLimits(ListLimitsRequest.getDefaultInstance());
        Map<String, Object> found = new LinkedHashMap<>();
        for (Limit limit : answer.getLimitsList()) {
            found.put(limit.getPattern(), limit.hasMaxInflight() ? limit.getMaxInflight() : null);
        }
        Map<String, Object> keys = new LinkedHashMap<>();
        for (KeyUsage key : answer.getKeysList()) {
            keys.put(key.getKey(), new Object[] {key.getInflight(), key.getWaiting()});
        }
        return Map.of("limits", found, "keys", keys);
    }

    Map<String, Object> deleteLimit(Arguments with) {
        var request = DeleteLimitRequest.newBuilder().setPattern(with.text("pattern")).build();
        limits.deleteLimit(request);
        return Map.of();
    }

    Map<String, Object> putWeight(Arguments with) {
        var request = PutAgentWeightRequest.newBuilder()
                .setPattern(with.text("pattern"))
                .setWeight(with.number("weight"))
                .build();
        AgentWeight weight = agents.putAgentWeight(request).getWeight();
        return Map.of("pattern", weight.getPattern(), "weight", weight.getWeight());
    }

    Map<String, Object> weights() {
        Map<String, Object> found = new LinkedHashMap<>();
        agents.listAgentWeights(ListAgentWeightsRequest.getDefaultInstance())
                .getWeightsList()
                .forEach(weight -> found.put(weight.getPattern(), weight.getWeight()));
        return Map.of("weights", found);
    }

    Map<String, Object> deleteWeight(Arguments with) {
        var request = DeleteAgentWeightRequest.newBuilder().setPattern(with.text("pattern")).build();
        agents.deleteAgentWeight(request);
        return Map.of();
    }

    Map<String, Object> cancelTasks(Arguments with) throws InterruptedException {
        String id = with.text("operation");
        var filter = TaskFilter.newBuilder();
        if (with.has("selector")) {
            filter.setLabels(with.text("selector"));
        }
        var request = CancelTasksRequest.newBuilder().setOperationId(id).setFilter(filter).build();
        var look = GetOperationRequest.newBuilder().setOperationId(id).build();
        long until = System.currentTimeMillis() + with.number("ms");
        Operation operation = operations.cancelTasks(request).getOperation();
        while (!operation.hasEndedAt() && System.currentTimeMillis() < until) {
            Thread.sleep(20);
            operation = operations.getOperation(look).getOperation();
        }
        return Map.of(
                "kind", operation.getKind().name(),
                "status", operation.getStatus().name(),
                "matched", operation.getMatched(),
                "done", operation.getDone(),
                "skipped", operation.getSkipped(),
                "failed", operation.getFailed());
    }

    private static Object name(WaitReason reason) {
        return reason.hasName() ? reason.getName() : null;
    }
}
