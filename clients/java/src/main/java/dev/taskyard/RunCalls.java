package dev.taskyard;

import dev.taskyard.v1.AnswerQuestionRequest;
import dev.taskyard.v1.ListQuestionsRequest;
import dev.taskyard.v1.ListQuestionsResponse;
import dev.taskyard.v1.ListStepsRequest;
import dev.taskyard.v1.OpenQuestion;
import dev.taskyard.v1.ParkServiceGrpc;
import dev.taskyard.v1.ParkServiceGrpc.ParkServiceBlockingStub;
import dev.taskyard.v1.Step;
import dev.taskyard.v1.StepServiceGrpc;
import dev.taskyard.v1.StepServiceGrpc.StepServiceBlockingStub;
import dev.taskyard.v1.Task;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import java.util.stream.Stream;

/** The calls of a client about the runs of tasks: what they have done, and what they ask. */
abstract sealed class RunCalls extends TaskCommands permits Taskyard {
    private final StepServiceBlockingStub steps;
    private final ParkServiceBlockingStub parks;

    RunCalls(Calls calls) {
        super(calls);
        steps = calls.stub(StepServiceGrpc::newBlockingStub);
        parks = calls.stub(ParkServiceGrpc::newBlockingStub);
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
}
