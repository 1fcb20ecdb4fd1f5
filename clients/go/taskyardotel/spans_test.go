// The spans of submits and of handlers, and the trace that goes from one to the other.

package taskyardotel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	taskyard "github.com/taskyard/taskyard/clients/go"
	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	given   = "00-" + traceID + "-" + spanID + "-01"
)

// recording returns what makes spans, and those that it has made.
func recording(t *testing.T) (Tracing, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	return Tracing{sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))}, exporter
}

// yard accepts tasks, whose ids are their actions, but for those of the action "full".
type yard struct {
	taskyardv1.UnimplementedTaskServiceServer
	given chan string
}

func (y *yard) SubmitTask(_ context.Context, task *taskyardv1.SubmitTaskRequest) (*taskyardv1.SubmitTaskResponse, error) {
	y.given <- task.GetTraceparent()
	return &taskyardv1.SubmitTaskResponse{TaskId: &task.Action}, nil
}

func (y *yard) SubmitTasks(
	stream grpc.BidiStreamingServer[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse],
) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		answer := &taskyardv1.SubmitTasksResponse{}
		for _, task := range request.GetTasks() {
			y.given <- task.GetTraceparent()
			outcome := &taskyardv1.SubmitOutcome{
				Outcome: &taskyardv1.SubmitOutcome_Accepted{Accepted: &taskyardv1.SubmitTaskResponse{TaskId: &task.Action}},
			}
			answer.Outcomes = append(answer.Outcomes, outcome)
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func connect(t *testing.T) (*taskyard.Client, *yard) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, its := grpc.NewServer(), &yard{given: make(chan string, 10)}
	taskyardv1.RegisterTaskServiceServer(server, its)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client, err := taskyard.Connect(listener.Addr().String(), taskyard.WithAgent("ann"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, its
}

func valuesOf(span tracetest.SpanStub) map[attribute.Key]attribute.Value {
	found := map[attribute.Key]attribute.Value{}
	for _, each := range span.Attributes {
		found[each.Key] = each.Value
	}
	return found
}

func TestSubmitHasASpanAndGivesItToTheTask(t *testing.T) {
	tracing, exporter := recording(t)
	client, its := connect(t)
	ctx, outer := tracing.Provider.Tracer("agent").Start(t.Context(), "plan")
	if _, err := tracing.Submit(ctx, client, taskyard.NewTask{Action: "crawl"}); err != nil {
		t.Fatal(err)
	}
	spans := exporter.GetSpans()
	if len(spans) != 1 {
		t.Fatal(spans)
	}
	span, context := spans[0], spans[0].SpanContext
	want := "00-" + context.TraceID().String() + "-" + context.SpanID().String() + "-01"
	if got := <-its.given; got != want {
		t.Error(got, want)
	}
	if span.Name != "send crawl" || span.SpanKind != trace.SpanKindProducer ||
		span.Parent.SpanID() != outer.SpanContext().SpanID() ||
		valuesOf(span)["messaging.message.id"].AsString() != "crawl" ||
		valuesOf(span)["messaging.operation.type"].AsString() != "send" {
		t.Error(span)
	}
}

func TestTaskKeepsTheTraceContextThatItHas(t *testing.T) {
	ctx, span := sdktrace.NewTracerProvider().Tracer("agent").Start(t.Context(), "plan")
	defer span.End()
	if task := WithTrace(ctx, taskyard.NewTask{Traceparent: given}); task.Traceparent != given {
		t.Error(task.Traceparent)
	}
	if task := WithTrace(t.Context(), taskyard.NewTask{}); task.Traceparent != "" {
		t.Error(task.Traceparent)
	}
}

func TestRefusedSubmitIsAnErrorOfItsSpan(t *testing.T) {
	tracing, exporter := recording(t)
	client, _ := connect(t)
	if _, err := tracing.Submit(t.Context(), client, taskyard.NewTask{Action: "crawl", AfterIndexes: []uint32{1}}); err == nil {
		t.Fatal("it was accepted")
	}
	span := exporter.GetSpans()[0]
	if valuesOf(span)["error.type"].AsString() != "bad_request" || span.Status.Code != codes.Error {
		t.Error(span)
	}
}

func TestAttemptHasASpanBelowTheTraceContextOfItsTask(t *testing.T) {
	tracing, exporter := recording(t)
	task := &taskyard.RunningTask{
		Task: taskyard.Task{ID: "t", Action: "crawl", AgentID: "ann", Traceparent: given}, Attempt: 2,
	}
	var within trace.SpanContext
	_, err := tracing.Handler(func(ctx context.Context, _ *taskyard.RunningTask) (any, error) {
		within = trace.SpanContextFromContext(ctx)
		return nil, nil
	})(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	span := exporter.GetSpans()[0]
	if span.Name != "process crawl" || span.SpanKind != trace.SpanKindConsumer ||
		span.SpanContext.TraceID().String() != traceID || span.Parent.SpanID().String() != spanID ||
		within.SpanID() != span.SpanContext.SpanID() || span.Status.Code != codes.Unset {
		t.Error(span)
	}
	if found := valuesOf(span); found["messaging.message.id"].AsString() != "t" ||
		found["taskyard.task.attempt"].AsInt64() != 2 || found["taskyard.agent.id"].AsString() != "ann" {
		t.Error(found)
	}
}

func TestTaskWithoutATraceBeginsOne(t *testing.T) {
	tracing, exporter := recording(t)
	handler := tracing.Handler(func(context.Context, *taskyard.RunningTask) (any, error) { return nil, nil })
	_, _ = handler(t.Context(), &taskyard.RunningTask{Task: taskyard.Task{Action: "crawl"}})
	if span := exporter.GetSpans()[0]; span.Parent.IsValid() {
		t.Error(span)
	}
}

func TestFailureIsAnErrorOfTheSpan(t *testing.T) {
	for _, each := range []struct {
		err  error
		kind string
	}{{errors.New("bad"), "error"}, {&taskyard.ActionFailed{Reason: "gone", Code: "no_page"}, "no_page"}} {
		tracing, exporter := recording(t)
		handler := tracing.Handler(func(context.Context, *taskyard.RunningTask) (any, error) { return nil, each.err })
		if _, err := handler(t.Context(), &taskyard.RunningTask{}); !errors.Is(err, each.err) {
			t.Error(err)
		}
		span := exporter.GetSpans()[0]
		if valuesOf(span)["error.type"].AsString() != each.kind || span.Status.Code != codes.Error ||
			span.Status.Description != each.err.Error() || len(span.Events) != 1 {
			t.Error(span)
		}
	}
}

func TestStoppedAttemptIsNoError(t *testing.T) {
	tracing, exporter := recording(t)
	ctx, stop := context.WithCancelCause(t.Context())
	handler := tracing.Handler(func(ctx context.Context, _ *taskyard.RunningTask) (any, error) {
		stop(&taskyard.StopError{Reason: "cancelled"})
		return nil, ctx.Err()
	})
	_, _ = handler(ctx, &taskyard.RunningTask{})
	span := exporter.GetSpans()[0]
	if !valuesOf(span)["taskyard.task.cancelled"].AsBool() || span.Status.Code != codes.Unset {
		t.Error(span)
	}
}

func TestParkedAttemptIsNoError(t *testing.T) {
	tracing, exporter := recording(t)
	handler := tracing.Handler(func(context.Context, *taskyard.RunningTask) (any, error) {
		return nil, fmt.Errorf("not yet: %w", taskyard.ErrParked)
	})
	_, _ = handler(t.Context(), &taskyard.RunningTask{})
	span := exporter.GetSpans()[0]
	if !valuesOf(span)["taskyard.task.parked"].AsBool() || span.Status.Code != codes.Unset {
		t.Error(span)
	}
}
