package dev.taskyard;

import dev.taskyard.v1.ChildServiceGrpc.ChildServiceBlockingStub;
import dev.taskyard.v1.FetchChildRequest;
import dev.taskyard.v1.SubmitChildRequest;
import dev.taskyard.v1.SubmitChildResponse;
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
     * Submits a child, or finds the one that has its name. Returns its id. Params that are too large become an artifact of it.
     *
     * @throws Parked if the run is parked
     */
    String submit(String name, SubmitTaskRequest child) {
        int most = held.maxPayloadBytes();
        held.steps.waits.begin();
        try {
            if (most == 0 || LargeParams.sizeOf(child) <= most) {
                try {
                    return send(name, child).getTaskId();
                } catch (TaskyardException error) {
                    if (most == 0 || !LargeParams.refusesParams(error)) {
                        throw error;
                    }
                }
            }
            return submitLarge(name, child).getTaskId();
        } finally {
            held.steps.waits.finish();
        }
    }

    /**
     * Submits a child held, gives it its params as an artifact, and lets it go. What was cut off in between is done by the
     * next run, which does the same.
     */
    private SubmitChildResponse submitLarge(String name, SubmitTaskRequest child) {
        byte[] data = LargeParams.dataOf(child);
        SubmitTaskRequest request = LargeParams.held(child, data);
        SubmitChildResponse made = send(name, request);
        if (!made.getHeld()) {
            return made;
        }
        try {
            held.put(name, References.PARAMS, ArtifactContent.of(data), References.JSON);
        } catch (TaskyardException error) {
            if (!error.code().equals("conflict")) {
                throw error;
            }
            // Somebody may have let it go.
            SubmitChildResponse again = send(name, request);
            if (again.getHeld()) {
                throw LargeParams.noArtifact(error);
            }
            return again;
        }
        return child.getHold() ? made : send(name, request.toBuilder().setHold(false).build());
    }

    private SubmitChildResponse send(String name, SubmitTaskRequest child) {
        SubmitChildRequest request = SubmitChildRequest.newBuilder()
                .setHostId(hostId)
                .setTaskId(lease.taskId())
                .setFencingToken(lease.token())
                .setName(name)
                .setChild(child)
                .build();
        return calls.repeated(() -> calls.timed(children).submitChild(request));
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
