package dev.taskyard;

import dev.taskyard.v1.Question;
import dev.taskyard.v1.Step;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskParked;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/** The part of a running task whose later runs go on where it got to: its steps, and what it waits for without a slot. */
abstract sealed class ResumableTask permits RunningTask {
    private volatile boolean releasesTarget;

    /** The task as it was handed out. */
    abstract Task handedOut();

    /** The steps of the task. */
    abstract HeldSteps steps();

    /** The children of the task. */
    abstract HeldChildren children();

    abstract void check() throws InterruptedException;

    /**
     * Sets whether the target of the task is free for others while it waits without a slot. Set it before {@link #ask}, {@link
     * #sleep}, {@link #join} or {@link #event}.
     *
     * @param releases true to free it; false, the default, leaves a page or a repository that somebody works on as it is
     */
    public void setReleasesTarget(boolean releases) {
        releasesTarget = releases;
    }

    /** What the task waits for, once no step is under way. */
    TaskParked parked() throws InterruptedException {
        return steps().waits.whenQuiet().setReleaseTarget(releasesTarget).build();
    }

    /**
     * Does a part of the work once and for all: if an earlier attempt or run of the task has recorded a step of this name,
     * its result is returned. Otherwise the work is done, and its result is returned once the server keeps it, and before
     * that what the work has said by {@link RunningTask#emit(Object)}. What the work throws is not recorded; it is thrown as
     * it is, and the same step may be tried again.
     *
     * <p>Names decide, not order: each step of a run needs a name of its own. Steps with different names may be done at the
     * same time. The result travels exactly, as an {@link Exact} does, and is the one that is kept, which is the same in
     * all runs. One that is too large for a message becomes an artifact by itself, and comes back as it was.
     *
     * @param <T> the type
     * @param name the name, at most 256 characters
     * @param type the type of the result: a plain one, see {@link Json}, such as {@code Map.class}, {@code String.class} or
     *     {@code Long.class}; {@code Object.class} for any
     * @param work returns a plain value; null for none
     * @return the result
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if the task is parked
     * @throws TaskyardException {@code lease_lost}, {@code too_large} for one step too many, {@code cancelled} if the handler
     *     is to stop
     * @throws NotRetryableException for a name that cannot be, or is used twice, and with the code {@code bad_result} for a
     *     result that cannot be kept
     * @throws IllegalArgumentException if the result that was recorded is not of this type
     * @throws Exception what the work throws
     */
    public <T> T step(String name, Class<T> type, Callable<? extends T> work) throws Exception {
        check();
        return steps().run(handedOut(), name, type, work);
    }

    /**
     * Asks a person, or an agent, as {@link #ask(String, Class, Question, Duration)} does.
     *
     * @param <T> the type
     * @param id the id of the question, which no other of the task has
     * @param type the type of the answer: a plain one, see {@link Json}; {@code Object.class} for any
     * @param text the question, for people
     * @param choices the answers that there are, plain values; none for any
     * @return the answer
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if there is no answer yet
     */
    public <T> T ask(String id, Class<T> type, String text, Object... choices) throws InterruptedException {
        return ask(id, type, NewWaits.question(id, text, choices), null);
    }

    /**
     * Asks a person, or an agent. Until somebody answers, the task is parked: without a lease and without a slot. The handler
     * is unwound by {@link Parked}. Once there is an answer it begins from its start again, on any host, with its steps, and
     * then this returns at once. What is no step is done again.
     *
     * <p>Several things may be waited for together, each in a thread of its own, or after a {@code Parked} was caught that is
     * thrown in the end. The first that comes lets the task go on. A step that is under way is recorded first; one that begins
     * after that is refused by {@code Parked}, and so is an artifact.
     *
     * @param <T> the type
     * @param id the id of the question, which no other of the task has: 1 to 128 letters, digits, {@code .}, {@code _} or
     *     {@code -}
     * @param type the type of the answer: a plain one, see {@link Json}, such as {@code Map.class} or {@code String.class};
     *     {@code Object.class} for any
     * @param question its text or an address to visit, perhaps choices, a JSON Schema of the answer, which the server checks,
     *     and a default, which counts if nobody answers in time; without one the task then fails
     * @param timeout for how long it can be answered, at most 366 days; null for a week
     * @return the answer
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if there is no answer yet
     * @throws TaskyardException {@code lease_lost}, {@code cancelled} if the handler is to stop
     * @throws NotRetryableException for a malformed question, for an id that is used twice, and within a step; what only the
     *     server finds wrong fails the task
     * @throws IllegalArgumentException if the answer is not of this type
     */
    public <T> T ask(String id, Class<T> type, Question question, Duration timeout) throws InterruptedException {
        check();
        Step answered = steps().waits.await(handedOut(), NewWaits.ask(id, question, timeout));
        return resultOf(answered, type, "ask '" + id + "': the answer does not fit: ");
    }

    private static <T> T resultOf(Step step, Class<T> type, String unfitText) {
        try {
            return type.cast(HeldSteps.converted(Json.plain(step.getResult()), type));
        } catch (IllegalArgumentException unfit) {
            throw new IllegalArgumentException(unfitText + unfit.getMessage(), unfit);
        }
    }

    /**
     * Waits for a time without a lease and without a slot, as {@link #ask(String, Class, Question, Duration)} waits for an
     * answer.
     *
     * @param time how long, at most 366 days; it counts from the first run that asks for it
     * @param name the name, at most 256 characters, which no other sleep of the task has
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if the time is not over yet
     */
    public void sleep(Duration time, String name) throws InterruptedException {
        check();
        steps().waits.await(handedOut(), NewWaits.sleep(time, name));
    }

    /**
     * Waits for the end of children, however long that takes, as {@link #join(Collection, String, Duration)} does.
     *
     * @param name the name of the wait
     * @param children the children, at most 10,000
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if some have not ended yet
     */
    public void join(String name, Child... children) throws InterruptedException {
        try {
            join(Stream.of(children).map(Child::id).toList(), name, null);
        } catch (TimeoutException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /**
     * Waits for the end of tasks without a lease and without a slot, as {@link #ask(String, Class, Question, Duration)} waits
     * for an answer. Submit them by {@link #child}, or in steps that return their ids, or each run submits them anew.
     *
     * @param taskIds the tasks, at most 10,000: children of this task, or of its agent
     * @param name the name, at most 256 characters, which no other join of the task has
     * @param timeout how long to wait at most, up to 366 days; null for as long as it takes
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if some have not ended yet
     * @throws TimeoutException if they have not ended in time
     */
    public void join(Collection<String> taskIds, String name, Duration timeout)
            throws InterruptedException, TimeoutException {
        check();
        var wait = NewWaits.join(taskIds, name, timeout);
        if (!taskIds.isEmpty() && steps().waits.await(handedOut(), wait).getExpired()) {
            throw new TimeoutException("join '" + name + "': the tasks have not ended in time");
        }
    }

    /**
     * Waits for an event, however long that takes, as {@link #event(String, Class, String, Duration)} does.
     *
     * @param <T> the type
     * @param event the name of the event, which is that of the wait, too
     * @param type the type of the payload: a plain one, see {@link Json}; {@code Object.class} for any
     * @return the payload of the event
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if none has come yet
     */
    public <T> T event(String event, Class<T> type) throws InterruptedException {
        return payloadOf(eventStep(event, event, null), type);
    }

    /**
     * Waits for an event without a lease and without a slot, as {@link #ask(String, Class, Question, Duration)} waits for an
     * answer. It is the oldest one of its name that the task has not had yet, of those that live, else the next one that is
     * sent, see {@link Taskyard#sendEvent(String, Object)}.
     *
     * @param <T> the type
     * @param event the name of the event: 1 to 256 letters, digits, {@code .}, {@code _} or {@code -}
     * @param type the type of the payload: a plain one, see {@link Json}; {@code Object.class} for any
     * @param name the name of the wait, which no other wait of the task for an event has
     * @param timeout how long to wait at most, up to 366 days; null for as long as it takes
     * @return the payload of the event
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if none has come yet
     * @throws TimeoutException if none has come in time
     * @throws NotRetryableException for a malformed name, for one that is used twice, and within a step
     * @throws IllegalArgumentException if the payload is not of this type
     */
    public <T> T event(String event, Class<T> type, String name, Duration timeout)
            throws InterruptedException, TimeoutException {
        Step came = eventStep(event, name, timeout);
        if (came.getExpired()) {
            throw new TimeoutException("event '" + name + "': none has come in time");
        }
        return payloadOf(came, type);
    }

    private Step eventStep(String event, String name, Duration timeout) throws InterruptedException {
        check();
        return steps().waits.await(handedOut(), NewWaits.event(event, name, timeout));
    }

    private static <T> T payloadOf(Step came, Class<T> type) {
        return resultOf(came, type, "event '" + came.getName() + "': the payload does not fit: ");
    }

    /**
     * Submits a child of the task, as {@link #child(String, SubmitTaskRequest)} does.
     *
     * @param name its name, which no other child of the task has
     * @param action the kind of action to run
     * @param params the parameters of the action, a map of plain values, see {@link Json}
     * @return the child, the same for every run
     * @throws InterruptedException if the handler is to stop
     * @throws IllegalArgumentException if the params are not plain, or have a whole number beyond 2<sup>53</sup>
     */
    public Child child(String name, String action, Map<String, ?> params) throws InterruptedException {
        var task = SubmitTaskRequest.newBuilder().setAction(action).setParams(Json.struct(params));
        return child(name, task.build());
    }

    /**
     * Submits a child of the task whose whole numbers count to the last digit.
     *
     * @param name its name, which no other child of the task has
     * @param action the kind of action to run
     * @param input the input of the action
     * @return the child, the same for every run
     * @throws InterruptedException if the handler is to stop
     * @throws IllegalArgumentException if the input is not plain
     */
    public Child child(String name, String action, Exact input) throws InterruptedException {
        return child(name, input.putInto(SubmitTaskRequest.newBuilder().setAction(action)).build());
    }

    /**
     * Submits a child of the task, once and for all: a later attempt or run gets the same one by its name, whatever else it
     * says. It is of the task's agent, and is cancelled when the task ends, unless its {@code on_parent_end} is {@code keep}.
     * {@link Child#result(Class)} and {@link #join} wait for its end without a slot. Params that are too large for a message
     * become an artifact of it by themselves.
     *
     * @param name its name, which no other child of the task has: 1 to 128 letters, digits, {@code .}, {@code _} or {@code -},
     *     and no {@code .} first
     * @param task the task, without keys, since the name is one
     * @return the child, the same for every run
     * @throws InterruptedException if the handler is to stop
     * @throws Parked if the task is parked
     * @throws TaskyardException {@code bad_request}, {@code lease_lost}, {@code queue_full}, {@code too_large} for params that
     *     are too large for an artifact too, or where the server keeps none, or one of more than 1,000 children, {@code
     *     not_found} for a task that it comes after, {@code cancelled} if the handler is to stop
     */
    public Child child(String name, SubmitTaskRequest task) throws InterruptedException {
        check();
        return new Child(this, name, children().submit(name, task));
    }
}
