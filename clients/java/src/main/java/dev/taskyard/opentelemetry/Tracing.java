package dev.taskyard.opentelemetry;

import dev.taskyard.ActionFailedException;
import dev.taskyard.Handler;
import dev.taskyard.Parked;
import dev.taskyard.Taskyard;
import dev.taskyard.TaskyardException;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.SubmitTaskResponse;
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TracerProvider;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;

/**
 * Makes spans of what is submitted and of what runs, in one trace from the agent to the handler. Names and attributes are
 * those of the semantic conventions for messaging.
 */
public final class Tracing {
    private static final String TRACEPARENT = "traceparent";
    private static final W3CTraceContextPropagator W3C = W3CTraceContextPropagator.getInstance();
    private static final TextMapGetter<String> THE_ONLY_HEADER = new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(String traceparent) {
            return List.of(TRACEPARENT);
        }

        @Override
        public String get(String traceparent, String key) {
            return key.equals(TRACEPARENT) ? traceparent : null;
        }
    };

    private final Supplier<TracerProvider> provider;

    /** Spans are made by the global provider. */
    public Tracing() {
        provider = GlobalOpenTelemetry::getTracerProvider;
    }

    /**
     * Spans are made by a provider of your own.
     *
     * @param provider what makes the spans
     */
    public Tracing(TracerProvider provider) {
        Objects.requireNonNull(provider, "provider");
        this.provider = () -> provider;
    }

    /**
     * Submits a task as {@link Taskyard#submit(SubmitTaskRequest)} does, with a span of the kind producer: {@code send} and
     * the action. The task carries its trace context, unless it has one.
     *
     * @param taskyard the client that submits it
     * @param task the task
     * @return the acceptance, with the id of the task
     * @throws TaskyardException what the client throws
     */
    public SubmitTaskResponse submit(Taskyard taskyard, SubmitTaskRequest task) {
        Span span = begin("send", SpanKind.PRODUCER, task.getAction(), Context.current(), Attributes.empty());
        try (Scope ignored = span.makeCurrent()) {
            SubmitTaskResponse answer = taskyard.submit(withTrace(task));
            span.setAttribute("messaging.message.id", answer.getTaskId());
            return answer;
        } catch (RuntimeException refused) {
            note(span, refused);
            throw refused;
        } finally {
            span.end();
        }
    }

    /**
     * Wraps a handler: each attempt has a span of the kind consumer, {@code process} and the action, below the trace context
     * of the attempt. What the handler submits in its thread is below its span. An attempt that is stopped, as by a cancel,
     * has the attribute {@code taskyard.task.cancelled} and no error, one that is parked {@code taskyard.task.parked}.
     *
     * @param handler the handler
     * @return a handler of the same action
     */
    public Handler handler(Handler handler) {
        return task -> {
            AttributesBuilder attributes = Attributes.builder()
                    .put("messaging.message.id", task.id())
                    .put("taskyard.task.attempt", task.attempt())
                    .put("taskyard.agent.id", task.task().getAgentId());
            Context parent = contextOf(task.task().getTraceparent());
            Span span = begin("process", SpanKind.CONSUMER, task.action(), parent, attributes.build());
            try (Scope ignored = parent.with(span).makeCurrent()) {
                return handler.run(task);
            } catch (Throwable failure) {
                if (task.cancelled()) {
                    span.setAttribute("taskyard.task.cancelled", true);
                } else if (failure instanceof Parked) {
                    span.setAttribute("taskyard.task.parked", true);
                } else {
                    note(span, failure);
                }
                throw failure;
            } finally {
                span.end();
            }
        };
    }

    /**
     * Gives a task the trace context of the current span, for example those of a batch.
     *
     * @param task the task
     * @return the task with a {@code traceparent}; unchanged if it has one already, or there is no span
     */
    public static SubmitTaskRequest withTrace(SubmitTaskRequest task) {
        if (!task.getTraceparent().isEmpty()) {
            return task;
        }
        SubmitTaskRequest.Builder traced = task.toBuilder();
        W3C.inject(Context.current(), traced, (builder, key, value) -> {
            if (key.equals(TRACEPARENT)) {
                builder.setTraceparent(value);
            }
        });
        return traced.build();
    }

    /**
     * Reads the trace context of a task.
     *
     * @param traceparent the header of W3C, empty for none
     * @return a context with the remote span alone
     */
    public static Context contextOf(String traceparent) {
        return W3C.extract(Context.root(), traceparent, THE_ONLY_HEADER);
    }

    private Span begin(String operation, SpanKind kind, String action, Context parent, Attributes attributes) {
        return provider.get()
                .get("taskyard")
                .spanBuilder(operation + " " + action)
                .setSpanKind(kind)
                .setParent(parent)
                .setAttribute("messaging.system", "taskyard")
                .setAttribute("messaging.operation.name", operation)
                .setAttribute("messaging.operation.type", operation)
                .setAttribute("messaging.destination.name", action)
                .setAllAttributes(attributes)
                .startSpan();
    }

    private static void note(Span span, Throwable failure) {
        span.recordException(failure);
        span.setAttribute("error.type", typeOf(failure));
        span.setStatus(StatusCode.ERROR, Objects.toString(failure.getMessage(), ""));
    }

    /** The code of a failure that has one, else its class. */
    private static String typeOf(Throwable failure) {
        if (failure instanceof TaskyardException refused) {
            return refused.code();
        }
        if (failure instanceof ActionFailedException failed && failed.code() != null) {
            return failed.code();
        }
        return failure.getClass().getName();
    }
}
