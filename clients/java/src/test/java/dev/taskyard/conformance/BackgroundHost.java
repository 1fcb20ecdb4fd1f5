package dev.taskyard.conformance;

import dev.taskyard.ActionFailedException;
import dev.taskyard.ArtifactContent;
import dev.taskyard.Exact;
import dev.taskyard.Handler;
import dev.taskyard.Host;
import dev.taskyard.HostOptions;
import dev.taskyard.NotRetryableException;
import dev.taskyard.RetryException;
import dev.taskyard.RunningTask;
import dev.taskyard.TaskInput;
import dev.taskyard.Taskyard;
import dev.taskyard.TaskyardException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A host that runs during the scenario, counts what its handlers do, and is waited for. */
final class BackgroundHost {
    private final Host host;
    private int begun;
    private int ended;
    private int stopped;
    private boolean left;
    private TaskyardException failure;

    BackgroundHost(Taskyard taskyard, Arguments with) {
        HostOptions options = HostOptions.defaults().withSlots(with.number("slots"));
        if (with.has("lease_secs")) {
            options = options.withLease(Duration.ofSeconds(with.number("lease_secs")));
        }
        host = new Host(taskyard, with.text("host"), options)
                .action("echo", counted(RunningTask::params))
                .action("work", counted(BackgroundHost::work))
                .action("fail", counted(BackgroundHost::fail))
                .action("say", counted(BackgroundHost::say))
                .action("artifact", counted(BackgroundHost::artifact))
                .action("take", counted(BackgroundHost::take))
                .action("steps", counted(BackgroundHost::steps))
                .action("parks", counted(task -> parks(taskyard, task)))
                .action("children", counted(ChildrenAction::run))
                .action("crash", counted(BackgroundHost::crash))
                .action("typed", counted(BackgroundHost::typed))
                .action("progress", counted(BackgroundHost::progress));
        Thread thread = new Thread(this::run, "host " + with.text("host"));
        thread.setDaemon(true);
        thread.start();
    }

    void drain() {
        host.drain();
    }

    /** Waits until the counts are at least as given, and with {@code left} until the run has ended. */
    synchronized Map<String, Object> await(Arguments with, boolean left) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(with.number("ms"));
        while (begun < with.number("begun")
                || ended < with.number("ended")
                || stopped < with.number("stopped")
                || left && !this.left) {
            long ms = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
            if (ms <= 0 || failure != null) {
                break;
            }
            wait(ms);
        }
        if (failure != null) {
            throw failure;
        }
        return Map.of("begun", begun, "ended", ended, "stopped", stopped, "left", this.left);
    }

    private void run() {
        TaskyardException found = null;
        try {
            host.run();
        } catch (TaskyardException error) {
            found = error;
        }
        synchronized (this) {
            left = true;
            failure = found;
            notifyAll();
        }
    }

    private Handler counted(Handler handler) {
        return task -> {
            synchronized (this) {
                begun++;
                notifyAll();
            }
            boolean isStopped = false;
            try {
                return handler.run(task);
            } catch (InterruptedException interrupted) {
                isStopped = true;
                throw interrupted;
            } finally {
                synchronized (this) {
                    stopped += isStopped ? 1 : 0;
                    ended += isStopped ? 0 : 1;
                    notifyAll();
                }
            }
        };
    }

    // The actions

    static Map<String, Object> work(RunningTask task) throws InterruptedException {
        Thread.sleep(number(task, "ms", 0));
        return Map.of("attempt", task.attempt());
    }

    private static Object fail(RunningTask task) throws InterruptedException {
        long until = number(task, "until", 0);
        if (until > 0 && task.attempt() >= until) {
            return work(task);
        }
        String error = (String) task.params().get("error");
        String code = (String) task.params().get("code");
        if (Boolean.FALSE.equals(task.params().get("retryable"))) {
            throw new NotRetryableException(error, code);
        } else if (task.params().containsKey("retry_after_ms")) {
            throw new RetryException(error, Duration.ofMillis(number(task, "retry_after_ms", 0)), code);
        }
        throw new ActionFailedException(error, code);
    }

    private static Object crash(RunningTask task) {
        throw new IllegalStateException((String) task.params().get("text"));
    }

    private static Object say(RunningTask task) throws InterruptedException {
        List<?> texts = (List<?>) task.params().get("texts");
        for (Object text : texts) {
            task.emit(text);
        }
        task.emit("log", Map.of("said", texts.size()));
        task.emit("bytes", "end".getBytes(StandardCharsets.UTF_8));
        return null;
    }

    private static Object artifact(RunningTask task) {
        String name = (String) task.params().get("name");
        byte[] data = new byte[(int) number(task, "bytes", 0)];
        for (int place = 0; place < data.length; place++) {
            data[place] = (byte) (place % 251);
        }
        task.putArtifact(name, ArtifactContent.of(data), null);
        return Map.of("sha256", hashOf(task.readArtifact(name)));
    }

    private static Object take(RunningTask task) {
        String name = (String) task.params().get("name");
        Map<String, Object> found = new LinkedHashMap<>();
        task.inputs().forEach((key, input) -> {
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("state", input.task().getState().name());
            shown.put("error", input.task().hasError() ? input.task().getError() : null);
            Map<Object, Object> value = input.value() instanceof Map<?, ?> given ? new LinkedHashMap<>(given) : null;
            shown.put("pad", value != null && value.remove("pad") instanceof String pad ? pad.length() : null);
            shown.put("value", value);
            shown.put("sha256", name == null ? null : hashOfArtifact(input, name));
            found.put(key, shown);
        });
        return found;
    }

    private static Object steps(RunningTask task) throws Exception {
        int bytes = (int) number(task, "bytes", 0);
        AtomicInteger done = new AtomicInteger();
        List<Object> attempts = new ArrayList<>();
        List<Object> sizes = new ArrayList<>();
        for (Object name : (List<?>) task.params().get("names")) {
            Map<?, ?> found = task.step((String) name, Map.class, () -> {
                done.incrementAndGet();
                return Map.of("attempt", task.attempt(), "pad", "x".repeat(bytes));
            });
            attempts.add(found.get("attempt"));
            sizes.add(((String) found.get("pad")).length());
        }
        if (task.attempt() < number(task, "until", 0)) {
            throw new ActionFailedException("again", null);
        }
        return Map.of("done", done.get(), "attempts", attempts, "bytes", sizes);
    }

    private static Object parks(Taskyard taskyard, RunningTask task) throws Exception {
        Map<String, Object> params = task.params();
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("before", task.step("before", Integer.class, task::attempt));
        if (params.get("ask") instanceof String text) {
            Object[] choices = params.get("choices") instanceof List<?> given ? given.toArray() : new Object[0];
            found.put("answer", task.ask("go", Object.class, text, choices));
        }
        if (params.containsKey("sleep_ms")) {
            task.sleep(Duration.ofMillis(number(task, "sleep_ms", 0)), "nap");
        }
        if (params.get("join") instanceof List<?> given) {
            List<String> ids = given.stream().map(String.class::cast).toList();
            task.join(ids, "all", null);
            found.put("ends", ids.stream().map(id -> taskyard.get(id).getState().name()).toList());
        }
        if (params.get("event") instanceof String event) {
            found.put("event", task.event(event, Object.class));
        }
        return found;
    }

    private static String hashOfArtifact(TaskInput input, String name) {
        try {
            return hashOf(input.readArtifact(name));
        } catch (TaskyardException error) {
            if (error.code().equals("not_found")) {
                return null;
            }
            throw error;
        }
    }

    static String hashOf(byte[] data) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static Object typed(RunningTask task) {
        long id = (Long) ((Map<?, ?>) task.input()).get("id");
        Map<String, Object> output = new LinkedHashMap<>();
        output.put("id", id);
        output.put("next", id + 1);
        return Exact.of(output);
    }

    private static Object progress(RunningTask task) {
        if (task.params().containsKey("tokens")) {
            task.setTokensUsed(number(task, "tokens", 0));
        }
        task.progress((Double) task.params().get("fraction"), (String) task.params().get("message"));
        return null;
    }

    private static long number(RunningTask task, String name, long otherwise) {
        return task.params().get(name) instanceof Number given ? given.longValue() : otherwise;
    }
}
