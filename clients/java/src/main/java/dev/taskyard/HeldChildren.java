package dev.taskyard;

import dev.taskyard.v1.ChildServiceGrpc.ChildServiceBlockingStub;
import dev.taskyard.v1.FetchChildRequest;
import dev.taskyard.v1.SubmitChildRequest;
import dev.taskyard.v1.SubmitTaskRequest;

/** The children of a task under its lease: submitted by their names, and fetched with what became of them. */
final class HeldChildren {
    private final Calls calls;
    private final ChildServiceBlockingStub children;
    private final String hostId;
    private final LeaseKey lease;
    private final HostArtifacts.Held held;

    HeldChildren(
            Calls calls, ChildServiceBlockingStub children, String hostId, LeaseKey lease, HostArtifacts.Held held) {
        this.calls = calls;
        this.children = children;
        this.hostId = hostId;
        this.lease = lease;
        this.held = held;
    }

    /**
     * Submits a child, or finds the one that has its name. Returns its id.
     *
     * @throws Parked if the run is parked
     */
    String submit(String name, SubmitTaskRequest child) {
        SubmitChildRequest request = SubmitChildRequest.newBuilder()
                .setHostId(hostId)
                .setTaskId(lease.taskId())
                .setFencingToken(lease.token())
                .setName(name)
                .setChild(child)
                .build();
        held.steps.waits.begin();
        try {
            return calls.repeated(() -> calls.timed(children).submitChild(request)).getTaskId();
        } finally {
            held.steps.waits.finish();
        }
    }

    /** A child as it stands, with its result where that is an artifact. */
    TaskInput fetch(String name) {
        FetchChildRequest request = FetchChildRequest.newBuilder()
                .setHostId(hostId)
                .setTaskId(lease.taskId())
                .setFencingToken(lease.token())
                .setName(name)
                .build();
        return held.input(
                name, calls.repeated(() -> calls.timed(children).fetchChild(request)).getChild());
    }
}
