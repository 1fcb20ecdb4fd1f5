// Package taskyardotel makes spans of what is submitted and of what runs, in one trace from the agent to the handler.
//
// It is a module of its own, so that only programs which use it depend on OpenTelemetry. Names and attributes are those
// of the semantic conventions for messaging.
package taskyardotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

// traceparent is the header of W3C, which tasks carry whatever propagators the program has set up.
const traceparent = "traceparent"

// Tracing makes spans. The zero value makes them with the global provider.
type Tracing struct {
	// Provider makes the spans. Default: the global one.
	Provider trace.TracerProvider
}

// Submit submits a task as [taskyard.Client.Submit] does, with a span of the kind producer: "send" and the action. The
// task carries its trace context, unless it has one. The errors are the same.
func (t Tracing) Submit(
	ctx context.Context, client *taskyard.Client, task taskyard.NewTask, options ...taskyard.SubmitOption,
) (*taskyard.Submitted, error) {
	ctx, span := t.tracer().Start(ctx, "send "+task.Action,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributesOf("send", task.Action)...))
	defer span.End()
	submitted, err := client.Submit(ctx, WithTrace(ctx, task), options...)
	if err != nil {
		note(span, err, errorType(err))
		return nil, err
	}
	span.SetAttributes(attribute.String("messaging.message.id", submitted.ID))
	return submitted, nil
}

// Handler returns a handler that runs another one within a span of the kind consumer: "process" and the action, below
// the trace context of the attempt. What the handler submits with its context is below its span. An attempt that is
// stopped, as by a cancel, has the attribute taskyard.task.cancelled and no error, one that is parked taskyard.task.parked.
func (t Tracing) Handler(handler taskyard.Handler) taskyard.Handler {
	return func(ctx context.Context, task *taskyard.RunningTask) (any, error) {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: task.Traceparent})
		attributes := append(attributesOf("process", task.Action),
			attribute.String("messaging.message.id", task.ID),
			attribute.Int("taskyard.task.attempt", task.Attempt),
			attribute.String("taskyard.agent.id", task.AgentID))
		ctx, span := t.tracer().Start(ctx, "process "+task.Action,
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
		defer span.End()
		result, err := handler(ctx, task)
		if _, isStopped := errors.AsType[*taskyard.StopError](context.Cause(ctx)); isStopped && err != nil {
			span.SetAttributes(attribute.Bool("taskyard.task.cancelled", true))
		} else if errors.Is(err, taskyard.ErrParked) {
			span.SetAttributes(attribute.Bool("taskyard.task.parked", true))
		} else if err != nil {
			note(span, err, failureType(err))
		}
		return result, err
	}
}

// WithTrace returns the task with the trace context of the span in ctx, for example those of a batch. It is unchanged if it
// has one already, or there is no span.
func WithTrace(ctx context.Context, task taskyard.NewTask) taskyard.NewTask {
	if task.Traceparent == "" {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		task.Traceparent = carrier[traceparent]
	}
	return task
}

func (t Tracing) tracer() trace.Tracer {
	if t.Provider == nil {
		return otel.Tracer("taskyard")
	}
	return t.Provider.Tracer("taskyard")
}

func attributesOf(operation, action string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "taskyard"),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", operation),
		attribute.String("messaging.destination.name", action),
	}
}

func note(span trace.Span, err error, kind string) {
	span.RecordError(err)
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, err.Error())
}

// errorType returns the code of an error of the server.
func errorType(err error) string { return string(taskyard.CodeOf(err)) }

// failureType returns the code that the task fails with, if its handler gave one.
func failureType(err error) string {
	if failure, ok := errors.AsType[*taskyard.ActionFailed](err); ok && failure.Code != "" {
		return failure.Code
	}
	return "error"
}
