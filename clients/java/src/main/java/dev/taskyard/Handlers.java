package dev.taskyard;

import dev.taskyard.v1.Assignment;
import dev.taskyard.v1.NewChunk;
import dev.taskyard.v1.Report;
import dev.taskyard.v1.TaskCompleted;
import dev.taskyard.v1.TaskFailed;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/**
 * The handlers that run on a host, and what their ends mean for their tasks. The lock of {@link HostRun} guards its methods,
 * but for {@link Run#run}.
 */
final class Handlers {
    /** The server keeps the last 8,000 characters. */
    private static final int MAX_TRACE_CHARS = 8_000;

    private static final String CUT = "\n\t...\n";
    private static final Logger LOG = System.getLogger("dev.taskyard");

    /** Takes what a task says. It waits while there is no room. */
    interface Sayer {
        void say(RunningTask task, List<NewChunk> chunks) throws InterruptedException;
    }

    private final Actions actions;
    private final HostArtifacts artifacts;
    private final Consumer<Report> progressed;
    private final Sayer sayer;
    private final BiConsumer<LeaseKey, Report> returned;
    private final Map<LeaseKey, Run> running = new LinkedHashMap<>();

    /**
     * {@code progressed} takes reports of progress, {@code sayer} what is said, {@code returned} the outcome of each handler, null if it was stopped
     * before it had one.
     */
    Handlers(
            Actions actions,
            HostArtifacts artifacts,
            Consumer<Report> progressed,
            Sayer sayer,
            BiConsumer<LeaseKey, Report> returned) {
        this.actions = actions;
        this.artifacts = artifacts;
        this.progressed = progressed;
        this.sayer = sayer;
        this.returned = returned;
    }

    /** Prepares the handlers of these tasks. They begin when what is returned is run. */
    List<Run> begin(List<Assignment> assignments) {
        List<Run> begun = new ArrayList<>();
        for (Assignment assignment : assignments) {
            Run run = new Run(new RunningTask(assignment, progressed, sayer, artifacts.of(assignment)));
            running.put(run.task.key(), run);
            begun.add(run);
        }
        return begun;
    }

    /** Stops the handlers of these leases. Returns their actions. */
    List<String> stop(Collection<LeaseKey> keys, String reason) {
        List<String> stopped = new ArrayList<>();
        for (LeaseKey key : keys) {
            Run run = running.get(key);
            if (run != null) {
                run.stop(reason);
                stopped.add(run.task.action());
            }
        }
        return stopped;
    }

    List<String> stopAll(String reason) {
        return stop(List.copyOf(running.keySet()), reason);
    }

    void ended(LeaseKey key) {
        running.remove(key);
    }

    boolean isEmpty() {
        return running.isEmpty();
    }

    /** The actions that run. */
    List<String> actions() {
        return running.values().stream().map(run -> run.task.action()).distinct().toList();
    }

    /** How many tokens the handler of a lease stated last, empty if it stated none. */
    Optional<Integer> tokensUsed(LeaseKey key) {
        return running.containsKey(key) ? running.get(key).task.tokensUsed() : Optional.empty();
    }

    /** The executor of a host without one of its own: a virtual thread for each handler where the JVM has them. */
    static ExecutorService threads(String hostId) {
        try {
            return (ExecutorService)
                    Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (ReflectiveOperationException older) {
            return Executors.newCachedThreadPool(task -> {
                Thread thread = new Thread(task, "taskyard-" + hostId);
                // A handler that does not end must not keep the program alive.
                thread.setDaemon(true);
                return thread;
            });
        }
    }

    /** Hands the handlers to the executor. The lock must not be held: an executor may run them at once. */
    static void execute(Executor executor, List<Run> begun) {
        for (Run run : begun) {
            try {
                executor.execute(run);
            } catch (RuntimeException refused) {
                LOG.log(Level.ERROR, "the executor refuses the task " + run.task.id() + ", which is given back", refused);
                run.end(null);
            }
        }
    }

    /** One handler on its thread. */
    final class Run implements Runnable {
        private final RunningTask task;
        /** The thread while the handler runs in it. */
        private Thread thread;

        private Run(RunningTask task) {
            this.task = task;
        }

        @Override
        public void run() {
            Report outcome = null;
            try {
                if (begins()) {
                    RunningTask.setCurrent(task);
                    outcome = outcome();
                }
            } finally {
                RunningTask.setCurrent(null);
                leaveThread();
                end(outcome);
            }
        }

        private synchronized boolean begins() {
            if (task.cancelled()) {
                return false;
            }
            thread = Thread.currentThread();
            return true;
        }

        /** From here on the thread is not interrupted for this task. */
        private synchronized void leaveThread() {
            if (thread != null) {
                thread = null;
                Thread.interrupted();
            }
        }

        private synchronized void stop(String reason) {
            boolean isFirst = !task.cancelled();
            task.stop(reason);
            if (isFirst && thread != null) {
                thread.interrupt();
            }
        }

        private void end(Report outcome) {
            returned.accept(task.key(), outcome);
        }

        /** Runs the handler. Returns the report of its outcome, null if it was stopped before it had one. */
        private Report outcome() {
            Handler handler = actions.handler(task.action());
            if (handler == null) {
                return failed(new ActionFailedException("this host has no action '" + task.action() + "'", "unknown_action"));
            }
            Object result;
            String fetched = "params";
            try {
                task.fetchParams();
                for (String name : task.handed().keySet()) {
                    fetched = "input '" + name + "'";
                    task.fetchInput(name);
                }
            } catch (RuntimeException unreadable) {
                String reason = "the " + fetched + " cannot be fetched: " + unreadable.getMessage();
                return task.cancelled() ? null : failed(new ActionFailedException(reason, "bad_input"));
            }
            try {
                result = handler.run(task);
            } catch (Throwable failure) {
                if (task.steps().waits.isParked()) {
                    return parked(failure);
                }
                return task.cancelled() ? null : failed(failure);
            }
            if (task.steps().waits.isParked()) {
                return parked(null);
            }
            TaskCompleted completed;
            try {
                completed = completed(result);
            } catch (RuntimeException malformed) {
                // The work is done. Another attempt would do it twice and fail in the same way.
                return failed(new NotRetryableException("result: " + malformed.getMessage(), "bad_result"));
            }
            try {
                return task.report().setCompleted(task.held().shrunk(completed)).build();
            } catch (TaskyardException refused) {
                String reason = "the result is too large, and cannot be an artifact: " + refused.getMessage();
                return task.cancelled() ? null : failed(new NotRetryableException(reason, "bad_result"));
            }
        }

        /** The report that the task is parked, null if it was stopped while steps were under way. */
        private Report parked(Throwable failure) {
            if (!Parked.isIn(failure) && !task.cancelled()) {
                String end = failure == null ? "what it returned" : textOf(failure);
                String text = "the handler went on after its task was parked: " + end + " is not reported. Let Parked through";
                LOG.log(Level.ERROR, "task " + task.id() + " (" + task.action() + "): " + text, failure);
                tell("ERROR " + text + "\n");
            }
            while (true) {
                try {
                    return task.report().setParked(task.parked()).build();
                } catch (InterruptedException stopped) {
                    if (task.cancelled()) {
                        return null;
                    }
                }
            }
        }

        /** Tells it where people look who wonder about this task; the server may take no output. */
        private void tell(String text) {
            try {
                task.emit("log", text);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            } catch (RuntimeException refused) {
                LOG.log(Level.DEBUG, "task {0}: {1}", task.id(), refused.getMessage());
            }
        }

        private TaskCompleted completed(Object result) {
            if (result instanceof Exact exact) {
                return exact.completed();
            }
            TaskCompleted.Builder report = TaskCompleted.newBuilder();
            return result == null ? report.build() : report.setResult(Json.value(result)).build();
        }

        private Report failed(Throwable failure) {
            TaskFailed.Builder report = TaskFailed.newBuilder();
            if (failure instanceof ActionFailedException known) {
                report.setError(RunningTask.cut(known.getMessage() == null ? "" : known.getMessage()));
                if (known.code() != null) {
                    report.setCode(known.code());
                }
                if (!known.retryable()) {
                    report.setRetryable(false);
                }
                if (known.retryAfter() != null) {
                    report.setRetryAfterMs((int) known.retryAfter().toMillis());
                }
                LOG.log(Level.DEBUG, "task {0} ({1}) failed: {2}", task.id(), task.action(), report.getError());
            } else {
                report.setError(RunningTask.cut(textOf(failure)));
                LOG.log(Level.WARNING, "task " + task.id() + " (" + task.action() + ") failed", failure);
            }
            boolean isUnexpected = !(failure instanceof ActionFailedException);
            if (isUnexpected || failure.getCause() != null) {
                report.setTraceback(traceOf(isUnexpected ? failure : failure.getCause()));
            }
            if (report.getError().isEmpty()) {
                report.setError("failed without a word");
            }
            return task.report().setFailed(report).build();
        }
    }

    /** A text of an exception's own making may itself fail. */
    private static String textOf(Throwable failure) {
        try {
            return String.valueOf(failure);
        } catch (RuntimeException broken) {
            return failure.getClass().getName();
        }
    }

    /** The stack trace, shortened in its middle: it begins with where it failed, and ends with the first cause. */
    private static String traceOf(Throwable failure) {
        StringWriter text = new StringWriter();
        try {
            failure.printStackTrace(new PrintWriter(text, true));
        } catch (RuntimeException broken) {
            return failure.getClass().getName();
        }
        String trace = text.toString().stripTrailing();
        if (trace.length() <= MAX_TRACE_CHARS) {
            return trace;
        }
        int half = (MAX_TRACE_CHARS - CUT.length()) / 2;
        return trace.substring(0, half) + CUT + trace.substring(trace.length() - half);
    }
}
