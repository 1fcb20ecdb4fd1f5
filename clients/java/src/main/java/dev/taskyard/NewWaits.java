package dev.taskyard;

import dev.taskyard.v1.EndOfTasks;
import dev.taskyard.v1.EventWait;
import dev.taskyard.v1.NewWait;
import dev.taskyard.v1.Question;
import dev.taskyard.v1.Step;
import java.time.Duration;
import java.util.Collection;
import java.util.TreeSet;
import java.util.regex.Pattern;

/** What handlers wait for, as it is sent: questions, times, the ends of tasks and events. */
final class NewWaits {
    private static final Duration MAX_TIME = Duration.ofDays(366);
    private static final int MAX_JOINED = 10_000;
    private static final Pattern QUESTION_ID = Pattern.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}");
    private static final Pattern EVENT_NAME = Pattern.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,255}");

    private NewWaits() {}

    static Question question(String id, String text, Object... choices) {
        Question.Builder question = Question.newBuilder().setText(text);
        try {
            for (Object choice : choices) {
                question.getChoicesBuilder().addValues(Json.value(choice));
            }
        } catch (IllegalArgumentException malformed) {
            throw failed("ask", id, "choices: " + malformed.getMessage());
        }
        return question.build();
    }

    static NewWait ask(String id, Question question, Duration timeout) {
        if (!QUESTION_ID.matcher(id).matches()) {
            throw failed("ask", id, "an id has 1 to 128 letters, digits, `.`, `_` or `-`, and no `.` first");
        }
        if (question.getText().isEmpty() && question.getUrl().isEmpty()) {
            throw failed("ask", id, "it has a text, or a URL");
        }
        return within(timeout, "ask", NewWait.newBuilder().setName(id).setQuestion(question));
    }

    static NewWait sleep(Duration time, String name) {
        checkName("sleep", name);
        return NewWait.newBuilder().setName(name).setSleepSecs(secs("sleep", name, time)).build();
    }

    static NewWait join(Collection<String> taskIds, String name, Duration timeout) {
        checkName("join", name);
        var ends = EndOfTasks.newBuilder().addAllTaskIds(new TreeSet<>(taskIds));
        if (ends.getTaskIdsCount() > MAX_JOINED) {
            String reason = "it has at most " + MAX_JOINED + " tasks, not " + ends.getTaskIdsCount();
            throw failed("join", name, reason);
        }
        return within(timeout, "join", NewWait.newBuilder().setName(name).setEnds(ends));
    }

    static NewWait event(String event, String name, Duration timeout) {
        if (!EVENT_NAME.matcher(event).matches()) {
            throw failed("event", event, "a name has 1 to 256 letters, digits, `.`, `_` or `-`, and no `.` first");
        }
        checkName("event", name);
        var awaited = EventWait.newBuilder().setName(event);
        return within(timeout, "event", NewWait.newBuilder().setName(name).setEvent(awaited));
    }

    /** What a wait becomes, and how it is called. */
    static HeldSteps.Key keyOf(NewWait wait) {
        Step.Kind kind =
                switch (wait.getAwaitedCase()) {
                    case QUESTION -> Step.Kind.answer;
                    case SLEEP_SECS -> Step.Kind.time;
                    case EVENT -> Step.Kind.event;
                    default -> Step.Kind.ends;
                };
        return new HeldSteps.Key(kind, wait.getName());
    }

    /** The method that waits for it. */
    static String callOf(NewWait wait) {
        return switch (wait.getAwaitedCase()) {
            case QUESTION -> "ask";
            case SLEEP_SECS -> "sleep";
            case EVENT -> "event";
            default -> "join";
        };
    }

    static NotRetryableException failed(String call, String name, String reason) {
        return new NotRetryableException(call + " '" + name + "': " + reason);
    }

    private static NewWait within(Duration timeout, String call, NewWait.Builder wait) {
        if (timeout != null) {
            wait.setTimeoutSecs(secs(call, wait.getName(), timeout));
        }
        return wait.build();
    }

    private static double secs(String call, String name, Duration time) {
        if (time.isNegative() || time.compareTo(MAX_TIME) > 0) {
            throw failed(call, name, "the time is from 0 to 366 days, not " + time);
        }
        return time.getSeconds() + time.getNano() / 1e9;
    }

    private static void checkName(String call, String name) {
        if (!HeldSteps.isName(name)) {
            throw failed(call, name, HeldSteps.NAME_RULE);
        }
    }
}
