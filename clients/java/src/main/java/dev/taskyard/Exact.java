package dev.taskyard;

import dev.taskyard.v1.Payload;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.TaskCompleted;
import java.util.Map;
import java.util.Objects;

/**
 * An input of a task, or the output of a handler, whose whole numbers count to the last digit: longs and BigIntegers beyond
 * 2<sup>53</sup>, such as ids of databases.
 *
 * <p>It travels as the {@code params} or the {@code result} where those hold it exactly, which REST and all other languages
 * then show as ever. Only where they do not, it travels as the {@code input} or the {@code output} of the task, in JSON.
 * {@link Json#input} and {@link Json#output} read either.
 *
 * @param value a plain value, see {@link Json}; as {@code params} only a map is possible
 */
public record Exact(Object value) {
    /**
     * The same as the constructor.
     *
     * @param value a plain value, see {@link Json}
     * @return the value, to be sent exactly
     */
    public static Exact of(Object value) {
        return new Exact(value);
    }

    /**
     * Sets the input of a task that is to be submitted.
     *
     * @param request the task
     * @return the same request
     * @throws IllegalArgumentException if the value is not plain
     */
    public SubmitTaskRequest.Builder putInto(SubmitTaskRequest.Builder request) {
        Objects.requireNonNull(request, "request");
        if (value instanceof Map<?, ?> map) {
            try {
                return request.clearInput().setParams(Json.structOf(map));
            } catch (Json.InexactException tooLarge) {
                return request.clearParams().setInput(payload());
            }
        }
        return request.clearParams().setInput(payload());
    }

    /** The report of the outcome. */
    TaskCompleted completed() {
        TaskCompleted.Builder report = TaskCompleted.newBuilder();
        try {
            return value == null ? report.build() : report.setResult(Json.value(value)).build();
        } catch (Json.InexactException tooLarge) {
            return report.setOutput(payload()).build();
        }
    }

    private Payload payload() {
        return Json.payload(value);
    }
}
