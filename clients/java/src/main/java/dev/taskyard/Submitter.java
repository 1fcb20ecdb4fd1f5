package dev.taskyard;

import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.TaskServiceGrpc;
import dev.taskyard.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import io.grpc.Context;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * How single tasks are submitted (docs/rules.md, Submission streams). One that is submitted while no other is in progress
 * takes a unary call, which has the shortest latency. Those that come while others are in progress share a stream. It ends
 * as soon as it has nothing left to answer: none is kept open for later.
 */
final class Submitter {
    /** A larger task could break the stream for all. */
    static final int MAX_MESSAGE_BYTES = 1_000_000;

    final Calls calls;
    private final Duration timeout;
    private final TaskServiceBlockingStub tasks;

    // The lock of this object guards what follows, and the streams.

    private int inProgress;

    /** The stream that takes more tasks; null if there is none. */
    SubmitStream stream;

    /** {@code timeout} is how long an attempt waits for its answer. */
    Submitter(Calls calls, Duration timeout) {
        this.calls = calls;
        this.timeout = timeout;
        tasks = calls.stub(TaskServiceGrpc::newBlockingStub);
    }

    /**
     * Submits a task. It must have an idempotency key: while the server is unavailable, and when the stream breaks, a task
     * without an answer is submitted again.
     */
    SubmitTaskResponse submit(SubmitTaskRequest request) {
        // A call of a context of the caller has its deadline, and perhaps metadata of its own.
        boolean mayShare = request.getSerializedSize() <= MAX_MESSAGE_BYTES && Context.current() == Context.ROOT;
        return calls.repeated(() -> attempt(request, mayShare));
    }

    private SubmitTaskResponse attempt(SubmitTaskRequest request, boolean mayShare) {
        SubmitStream.Submission submission = new SubmitStream.Submission(request);
        SubmitStream shared;
        synchronized (this) {
            shared = mayShare && (stream != null || inProgress > 0) ? open() : null;
            inProgress++;
            if (shared != null) {
                shared.add(submission);
            }
        }
        try {
            if (shared != null) {
                SubmitStream.Outcome outcome = outcome(shared, submission);
                if (outcome.error() != null) {
                    throw outcome.error();
                } else if (outcome.accepted() != null) {
                    return outcome.accepted();
                }
                // The stream ended with another error than an outage. Any of its tasks may be the reason, so each takes a
                // unary call, which has its own error.
            }
            return calls.timed(tasks).submitTask(request);
        } finally {
            synchronized (this) {
                inProgress--;
            }
        }
    }

    private SubmitStream open() {
        if (stream == null) {
            stream = new SubmitStream(this);
            stream.open();
        }
        return stream;
    }

    /**
     * Waits for what becomes of a task on a stream. When the thread is interrupted, or the answer takes too long, the task
     * is taken back unless it was sent already. Other tasks are not affected.
     */
    private SubmitStream.Outcome outcome(SubmitStream shared, SubmitStream.Submission submission) {
        boolean isInterrupted = false;
        try {
            if (submission.await(timeout.toNanos(), TimeUnit.NANOSECONDS)) {
                return submission.outcome();
            }
        } catch (InterruptedException interrupted) {
            isInterrupted = true;
            Thread.currentThread().interrupt();
        }
        synchronized (this) {
            if (submission.outcome() != null) {
                return submission.outcome();
            }
            shared.abandon(submission);
            if (isInterrupted) {
                throw TaskyardException.of(Status.CANCELLED, "interrupted while submitting a task");
            }
            // The stream is too slow. The next tasks take another one.
            shared.detach();
            throw TaskyardException.of(Status.DEADLINE_EXCEEDED, "no answer to a submission within " + timeout);
        }
    }
}
