package dev.taskyard.conformance;

import dev.taskyard.Json;
import dev.taskyard.Taskyard;
import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.ClaimTaskRequest;
import dev.taskyard.v1.ClaimTasksRequest;
import dev.taskyard.v1.CompleteTaskRequest;
import dev.taskyard.v1.DeregisterHostRequest;
import dev.taskyard.v1.DrainHostRequest;
import dev.taskyard.v1.FailTaskRequest;
import dev.taskyard.v1.Lease;
import dev.taskyard.v1.LeaseServiceGrpc;
import dev.taskyard.v1.RegisterHostRequest;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import dev.taskyard.v1.StartTaskRequest;
import dev.taskyard.v1.Task;
import java.util.LinkedHashMap;
import java.util.Map;

/** The operations of a worker without a host loop, by the raw stubs. */
final class WorkerOperations {
    private final LeaseServiceGrpc.LeaseServiceBlockingStub leases;
    private final RuntimeHostServiceGrpc.RuntimeHostServiceBlockingStub hosts;

    WorkerOperations(Taskyard taskyard) {
        leases = taskyard.stub(LeaseServiceGrpc::newBlockingStub);
        hosts = taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub);
    }

    Map<String, Object> perform(String name, Arguments with) {
        return switch (name) {
            case "register" -> register(with);
            case "claim" -> claim(with);
            case "claim_many" -> claimMany(with);
            case "start" -> start(with);
            case "complete" -> complete(with);
            case "fail" -> fail(with);
            case "deregister" -> deregister(with);
            case "drain" -> drain(with);
            default -> throw new IllegalArgumentException("no operation " + name);
        };
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
        if (with.has("claim_id")) {
            request.setClaimId(with.text("claim_id"));
        }
        var answer = leases.claimTask(request.build());
        if (!answer.getClaimed()) {
            return Map.of("claimed", false);
        }
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("claimed", true);
        outcome.put("task", answer.getTaskId());
        outcome.put("token", (long) answer.getFencingToken());
        outcome.put("input", answer.getTask().hasInput() ? TaskOutcomes.text(answer.getTask().getInput()) : null);
        return outcome;
    }

    private Map<String, Object> claimMany(Arguments with) {
        var request = ClaimTasksRequest.newBuilder()
                .setHostId(with.text("host"))
                .setMaxTasks(with.number("count"))
                .setWaitMs(with.number("ms"));
        if (with.has("lease_secs")) {
            request.setLeaseSecs(with.number("lease_secs"));
        }
        if (with.has("claim_id")) {
            request.setClaimId(with.text("claim_id"));
        }
        var found = leases.claimTasks(request.build()).getAssignmentsList().stream()
                .map(Assignment::getLease)
                .toList();
        return Map.of(
                "tasks", found.stream().map(Lease::getTaskId).toList(),
                "tokens", found.stream().map(lease -> (long) lease.getFencingToken()).toList());
    }

    private Map<String, Object> start(Arguments with) {
        var request = StartTaskRequest.newBuilder()
                .setHostId(with.text("host"))
                .setTaskId(with.text("task"))
                .setFencingToken(with.number("token"));
        return state(leases.startTask(request.build()).getState());
    }

    private Map<String, Object> fail(Arguments with) {
        var request = FailTaskRequest.newBuilder()
                .setHostId(with.text("host"))
                .setTaskId(with.text("task"))
                .setFencingToken(with.number("token"))
                .setError(with.text("error"));
        if (with.has("code")) {
            request.setCode(with.text("code"));
        }
        if (with.has("retryable")) {
            request.setRetryable(with.truth("retryable"));
        }
        if (with.has("retry_after_ms")) {
            request.setRetryAfterMs(with.number("retry_after_ms"));
        }
        if (with.has("traceback")) {
            request.setTraceback(with.text("traceback"));
        }
        return state(leases.failTask(request.build()).getState());
    }

    private Map<String, Object> complete(Arguments with) {
        var request = CompleteTaskRequest.newBuilder()
                .setHostId(with.text("host"))
                .setTaskId(with.text("task"))
                .setFencingToken(with.number("token"));
        if (with.has("result")) {
            request.setResult(Json.value(with.any("result")));
        }
        if (with.has("output")) {
            request.setOutput(with.payload("output"));
        }
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
}
