package dev.taskyard;

import dev.taskyard.v1.SubmitOutcome;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import dev.taskyard.v1.SubmitTasksRequest;
import dev.taskyard.v1.SubmitTasksResponse;
import dev.taskyard.v1.TaskServiceGrpc;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * One stream of submissions: which tasks share its messages, and who gets which answer. The {@link Submitter} is its lock.
 *
 * <p>A message that is not full waits while others are unanswered, so that messages get fuller the more tasks there are.
 */
final class SubmitStream implements ClientResponseObserver<SubmitTasksRequest, SubmitTasksResponse> {
    static final int MAX_MESSAGE_TASKS = 50;

    /** Hides the time of a round trip, and keeps the memory small. */
    static final int MAX_UNANSWERED = 20;

    /** How many may be unanswered for one that is not full to be sent. */
    static final int MAX_UNANSWERED_WHEN_PARTIAL = 2;

    /** What became of an attempt: accepted, an error, or neither if it must take a unary call. */
    record Outcome(SubmitTaskResponse accepted, TaskyardException error) {}

    /** One attempt to submit a task. */
    static final class Submission {
        private final SubmitTaskRequest request;
        private final CountDownLatch hasOutcome = new CountDownLatch(1);
        private volatile Outcome outcome;

        /** Whether nobody waits for the outcome any more. */
        private boolean isAbandoned;

        Submission(SubmitTaskRequest request) {
            this.request = request;
        }

        /** Returns false if there is no outcome in time. */
        boolean await(long time, TimeUnit unit) throws InterruptedException {
            return hasOutcome.await(time, unit);
        }

        /** Null if there is none yet. */
        Outcome outcome() {
            return outcome;
        }
    }

    private final Submitter submitter;
    private ClientCallStreamObserver<SubmitTasksRequest> call;
    private boolean isOver;

    /** Not sent yet. */
    private final Deque<Submission> queue = new ArrayDeque<>();

    /** One item for each message that was sent, oldest first. */
    private final Deque<List<Submission>> unanswered = new ArrayDeque<>();

    /** The submissions without an outcome that somebody waits for. */
    private int awaited;

    SubmitStream(Submitter submitter) {
        this.submitter = submitter;
    }

    // The lock is held in these methods.

    void open() {
        // Not in the context of the first caller, whose end would be the end of the stream.
        Context.ROOT.run(() ->
                submitter.calls.stub(TaskServiceGrpc::newStub).submitTasks(this));
    }

    void add(Submission submission) {
        awaited++;
        if (isOver) {
            // It could not even be opened.
            deliver(submission, new Outcome(null, null));
            return;
        }
        queue.add(submission);
        send();
    }

    void abandon(Submission submission) {
        submission.isAbandoned = true;
        awaited--;
        if (awaited == 0) {
            // Nobody waits for the answers to what was sent.
            detach();
            isOver = true;
            call.cancel("nobody waits for the answers", null);
        }
    }

    /** Lets the stream take no more tasks. */
    void detach() {
        if (submitter.stream == this) {
            submitter.stream = null;
        }
    }

    private void send() {
        for (List<Submission> message = nextMessage(); !isOver && !message.isEmpty(); message = nextMessage()) {
            SubmitTasksRequest.Builder request = SubmitTasksRequest.newBuilder();
            message.forEach(each -> request.addTasks(each.request));
            unanswered.add(message);
            call.onNext(request.build());
        }
    }

    /** Takes from the queue as many tasks as fit one message, without those that are abandoned. Empty if none is due. */
    private List<Submission> nextMessage() {
        queue.removeIf(each -> each.isAbandoned);
        boolean isDue = queue.size() >= MAX_MESSAGE_TASKS
                ? unanswered.size() < MAX_UNANSWERED
                : unanswered.size() < MAX_UNANSWERED_WHEN_PARTIAL;
        List<Submission> message = new ArrayList<>();
        int size = 0;
        while (isDue && !queue.isEmpty() && message.size() < MAX_MESSAGE_TASKS) {
            size += queue.peek().request.getSerializedSize();
            if (!message.isEmpty() && size > Submitter.MAX_MESSAGE_BYTES) {
                break;
            }
            message.add(queue.remove());
        }
        return message;
    }

    private void deliver(Submission submission, Outcome outcome) {
        if (!submission.isAbandoned) {
            submission.outcome = outcome;
            submission.hasOutcome.countDown();
            awaited--;
        }
    }

    /** Delivers the answer to the oldest unanswered message. */
    private void received(List<SubmitOutcome> outcomes) {
        if (unanswered.isEmpty() || unanswered.peek().size() != outcomes.size()) {
            call.cancel("the server answered for other tasks than were sent", null);
            return;
        }
        List<Submission> message = unanswered.remove();
        for (int i = 0; i < message.size(); i++) {
            TaskyardException error =
                    outcomes.get(i).hasError() ? TaskyardException.ofItem(outcomes.get(i).getError()) : null;
            if (error != null && error.code().equals("unavailable")) {
                // The server drains. The next tasks take another stream, which may lead to another server.
                detach();
            }
            deliver(message.get(i), new Outcome(error == null ? outcomes.get(i).getAccepted() : null, error));
        }
        if (awaited == 0) {
            detach();
            isOver = true;
            call.onCompleted();
        } else {
            send();
        }
    }

    /** The stream is over: what has no outcome is submitted again, by a unary call unless the server is unavailable. */
    private void broken(Throwable failed) {
        detach();
        isOver = true;
        List<Submission> left = new ArrayList<>(queue);
        unanswered.forEach(left::addAll);
        queue.clear();
        unanswered.clear();
        for (Submission submission : left) {
            // Each throws an exception of its own.
            TaskyardException error = TaskyardException.of(failed);
            boolean isOutage = error.code().equals("unavailable") || error.isTooMany();
            deliver(submission, new Outcome(null, isOutage ? error : null));
        }
    }

    // On threads of gRPC

    @Override
    public void beforeStart(ClientCallStreamObserver<SubmitTasksRequest> call) {
        this.call = call;
    }

    @Override
    public void onNext(SubmitTasksResponse answer) {
        synchronized (submitter) {
            received(answer.getOutcomesList());
        }
    }

    @Override
    public void onError(Throwable failed) {
        synchronized (submitter) {
            broken(failed);
        }
    }

    @Override
    public void onCompleted() {
        synchronized (submitter) {
            broken(Status.UNAVAILABLE.withDescription("the server ended the stream").asRuntimeException());
        }
    }
}
