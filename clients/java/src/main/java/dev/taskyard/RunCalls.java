package dev.taskyard;

import dev.taskyard.v1.AnswerQuestionRequest;
import dev.taskyard.v1.EventServiceGrpc;
import dev.taskyard.v1.EventServiceGrpc.EventServiceBlockingStub;
import dev.taskyard.v1.ListQuestionsRequest;
import dev.taskyard.v1.ListQuestionsResponse;
import dev.taskyard.v1.ListStepsRequest;
import dev.taskyard.v1.OpenQuestion;
import dev.taskyard.v1.ParkServiceGrpc;
import dev.taskyard.v1.ParkServiceGrpc.ParkServiceBlockingStub;
import dev.taskyard.v1.SendEventRequest;
import dev.taskyard.v1.SendEventResponse;
import dev.taskyard.v1.Step;
import dev.taskyard.v1.StepServiceGrpc;
import dev.taskyard.v1.StepServiceGrpc.StepServiceBlockingStub;
import dev.taskyard.v1.Task;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Stream;

/** The calls of a client about the runs of tasks: what they have done, what they ask, and the events that they wait for. */
abstract sealed class RunCalls extends TaskCommands permits Taskyard {
    private final StepServiceBlockingStub steps;
    private final ParkServiceBlockingStub parks;
    private final EventServiceBlockingStub events;

    RunCalls(Calls calls) {
        super(calls);
        steps = calls.stub(StepServiceGrpc::newBlockingStub);
        parks = calls.stub(ParkServiceGrpc::newBlockingStub);
        events = calls.stub(EventServiceGrpc::newBlockingStub);
    }

    /**
     * The steps of a task: what it has done once and for all, and what came while it was parked.
     *
     * @param taskId the task
     * @return the steps, in the order in which they were recorded; a result that is too large is a reference to an artifact
     * @throws TaskyardException {@code not_found}, {@code permission_denied} for a viewer that is shown no payloads
     */
    public List<Step> steps(String taskId) {
        ListStepsRequest request = ListStepsRequest.newBuilder().setTaskId(taskId).build();
        return calls.repeated(() -> calls.timed(steps).listSteps(request)).getStepsList();
    }

    /**
     * Lists the questions that are open, by the order in which their tasks were submitted.
     *
     * @return the questions, read page after page as the stream is consumed
     */
    public Stream<OpenQuestion> questions() {
        return questions(ListQuestionsRequest.getDefaultInstance());
    }

    /**
     * Lists the questions that are open, by the order in which their tasks were submitted.
     *
     * @param filters the filters, such as the {@code agent_id} of the tasks; an absent filter matches all
     * @return the questions, read page after page as the stream is consumed
     */
    public Stream<OpenQuestion> questions(ListQuestionsRequest filters) {
        Function<String, ListQuestionsResponse> page = token -> {
            var request = token == null ? filters : filters.toBuilder().setPageToken(token).build();
            return calls.repeated(() -> calls.timed(parks).listQuestions(request));
        };
        return Stream.iterate(
                        page.apply(null),
                        Objects::nonNull,
                        last -> last.hasNextPageToken() ? page.apply(last.getNextPageToken()) : null)
                .flatMap(found -> found.getQuestionsList().stream());
    }

    /**
     * Answers a question that a task has asked. The first answer wins, and the same again is the same.
     *
     * @param taskId the task
     * @param questionId the id of the question
     * @param answer a plain value, see {@link Json}
     * @return the state of the task: queued where it was parked
     * @throws TaskyardException {@code not_found}, {@code bad_request} for an answer that the question does not allow, {@code
     *     conflict} if it has another answer, or its time is over, {@code too_large}
     * @throws IllegalArgumentException if the answer is not plain
     */
    public Task.State answer(String taskId, String questionId, Object answer) {
        AnswerQuestionRequest request = AnswerQuestionRequest.newBuilder()
                .setTaskId(taskId)
                .setQuestionId(questionId)
                .setAnswer(Json.value(answer))
                .build();
        return calls.repeated(() -> calls.timed(parks).answerQuestion(request)).getState();
    }

    /**
     * Sends an event to all tasks that wait for its name, and to those that begin to within a minute.
     *
     * @param name its name: 1 to 256 letters, digits, {@code .}, {@code _} or {@code -}
     * @param payload what they get, a plain value, see {@link Json}, of at most 64 KiB; null for null
     * @return how many tasks waited for it when it came
     * @throws TaskyardException see {@link #sendEvent(SendEventRequest)}
     * @throws IllegalArgumentException if the payload is not plain
     */
    public int sendEvent(String name, Object payload) {
        return sendEvent(SendEventRequest.newBuilder()
                        .setName(name)
                        .setPayload(Json.value(payload))
                        .build())
                .getWaiting();
    }

    /**
     * Sends an event to all tasks that wait for its name. Without an {@code event_id} it gets one, by which it is sent once.
     *
     * @param event the event
     * @return its id, and how many tasks waited for it when it came
     * @throws TaskyardException {@code bad_request} for a name, an id or a life that cannot be, {@code already_exists} if the id
     *     is that of an event with another payload, {@code too_large}, {@code queue_full} if too many events are kept
     */
    public SendEventResponse sendEvent(SendEventRequest event) {
        SendEventRequest request = event.getEventId().isEmpty()
                ? event.toBuilder().setEventId(UUID.randomUUID().toString()).build()
                : event;
        return calls.repeated(() -> calls.timed(events).sendEvent(request));
    }
}
