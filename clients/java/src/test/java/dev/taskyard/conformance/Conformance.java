package dev.taskyard.conformance;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.taskyard.Host;
import dev.taskyard.HostOptions;
import dev.taskyard.Taskyard;
import dev.taskyard.TaskyardException;
import dev.taskyard.TaskyardOptions;
import io.grpc.StatusRuntimeException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;

/**
 * The conformance program of the Java client: it performs a scenario and prints the outcome of each step.
 *
 * <p>clients/conformance/README.md describes the operations and the output, which its runner compares.
 */
public final class Conformance {
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();

    private final Map<String, Object> outcomes = new HashMap<>();

    private Conformance() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int i = 0; i + 1 < arguments.length; i++) {
            given.put(arguments[i], arguments[i + 1]);
        }
        var options = TaskyardOptions.of(given.get("--server")).withNamespace(given.get("--namespace"));
        if (List.of(arguments).contains("--serve")) {
            serve(options, given.get("--host-id"), Integer.parseInt(given.get("--slots")));
            return;
        }
        String scenario = Files.readString(Path.of(given.get("--scenario")));
        Conformance program = new Conformance();
        program.outcomes.put("run", plain(JsonParser.parseString(given.getOrDefault("--run", "{}"))));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (Taskyard taskyard = Taskyard.connect(options)) {
            Operations operations = new Operations(taskyard);
            for (JsonElement step : JsonParser.parseString(scenario).getAsJsonObject().getAsJsonArray("steps")) {
                out.println(GSON.toJson(program.perform(operations, step.getAsJsonObject())));
            }
        }
    }

    /** Runs a host of the shared queue until SIGTERM drains it. */
    private static void serve(TaskyardOptions options, String id, int slots) {
        CountDownLatch left = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                left.await();
            } catch (InterruptedException hurried) {
                Thread.currentThread().interrupt();
            }
            // A JVM that a signal ends has another status.
            Runtime.getRuntime().halt(0);
        }));
        try (Taskyard taskyard = Taskyard.connect(options)) {
            new Host(taskyard, id, HostOptions.defaults().withSlots(slots).withHandleSignals())
                    .action("work", task -> {
                        Map<String, Object> result = new HashMap<>();
                        result.put("language", "java");
                        result.put("process", ProcessHandle.current().pid());
                        Map<String, Object> done = Map.copyOf(result);
                        List<Object> steps = new ArrayList<>();
                        if (task.params().get("steps") instanceof List<?> names) {
                            for (Object name : names) {
                                steps.add(task.step((String) name, Map.class, () -> done));
                            }
                        }
                        result.put("steps", steps);
                        result.put("attempt", task.attempt());
                        if (task.params().get("asks") instanceof String text) {
                            result.put("answer", task.ask("go", Object.class, text));
                        }
                        BackgroundHost.work(task);
                        if (task.params().containsKey("pad")) {
                            result.put("pad", task.params().get("pad"));
                        }
                        task.inputs().forEach((name, input) -> result.put(name, input.value()));
                        return result;
                    })
                    .run();
        }
        left.countDown();
    }

    private Map<String, Object> perform(Operations operations, JsonObject step) {
        String id = step.get("id").getAsString();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("step", id);
        try {
            Arguments with = new Arguments(map(resolved(plain(step.get("with")))));
            line.put("outcome", operations.perform(id, step.get("do").getAsString(), with));
        } catch (TaskyardException error) {
            line.put("outcome", errorOutcome(error));
        } catch (StatusRuntimeException error) {
            line.put("outcome", errorOutcome(TaskyardException.of(error)));
        } catch (Exception error) {
            line.put("crashed", error.toString());
        }
        outcomes.put(id, line.get("outcome"));
        return line;
    }

    private static Map<String, Object> errorOutcome(TaskyardException error) {
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("error", error.code());
        outcome.put("retryable", error.retryable());
        outcome.put(
                "retry_after_ms", error.retryAfter().map(Duration::toMillis).orElse(null));
        outcome.put("message", error.reason());
        outcome.put("details", new TreeSet<>(error.details().keySet()));
        return outcome;
    }

    /** An argument with its references to earlier outcomes replaced. */
    private Object resolved(Object value) {
        if (value instanceof String text && text.startsWith("$")) {
            Object found = outcomes;
            for (String part : text.substring(1).split("\\.")) {
                found = found instanceof List<?> list ? list.get(Integer.parseInt(part)) : map(found).get(part);
            }
            return found;
        } else if (value instanceof Map<?, ?>) {
            Map<String, Object> copy = new LinkedHashMap<>();
            map(value).forEach((key, item) -> copy.put(key, resolved(item)));
            return copy;
        } else if (value instanceof List<?> list) {
            List<Object> copy = new ArrayList<>();
            list.forEach(item -> copy.add(resolved(item)));
            return copy;
        }
        return value;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    private static Object plain(JsonElement json) {
        return GSON.fromJson(json, Object.class);
    }
}
