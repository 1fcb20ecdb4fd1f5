// What the end of a handler tells the server: how the work failed, when to try again, what the next attempt begins with.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// runOnce runs a handler for one task of a fake server, and returns its progress, the last one, and its outcome.
func runOnce(t *testing.T, task *taskyardv1.Task, handler Handler) (*taskyardv1.Progress, *taskyardv1.Report) {
	t.Helper()
	reports := make(chan *taskyardv1.Report, 100)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		if _, err := host.welcome(); err != nil {
			return err
		}
		task.Action = proto.String("work")
		if err := host.assign("a1", task); err != nil {
			return err
		}
		return host.acceptAll(func(report *taskyardv1.Report) { reports <- report })
	}}
	runHost(t, f, handler)
	var progress *taskyardv1.Progress
	for {
		report := receive(t, reports)
		if kindOf(report) == finalReport {
			return progress, report
		}
		if report.GetProgress() != nil {
			progress = report.GetProgress()
		}
	}
}

func failureBy(t *testing.T, err error) *taskyardv1.TaskFailed {
	t.Helper()
	_, report := runOnce(t, &taskyardv1.Task{}, func(context.Context, *RunningTask) (any, error) { return nil, err })
	return report.GetFailed()
}

func TestErrorOfAHandlerShowsItsChainAsTraceback(t *testing.T) {
	failed := failureBy(t, fmt.Errorf("fetch: %w", errors.Join(errors.New("no route"), errors.New("no name"))))
	want := "*fmt.wrapError: fetch: no route\nno name\n*errors.joinError: no route\nno name\n" +
		"  *errors.errorString: no route\n  *errors.errorString: no name\n"
	if failed.GetTraceback() != want || failed.Retryable != nil || failed.RetryAfterMs != nil || failed.Code != nil {
		t.Error(failed)
	}
	long := failureBy(t, fmt.Errorf("%s: %w", strings.Repeat("x", 20_000), errors.New("the cause")))
	if text := long.GetTraceback(); len(text) > maxTracebackBytes || !strings.HasSuffix(text, "the cause\n") {
		t.Error(len(text))
	}
}

func TestPanicOfAHandlerShowsItsStackAsTraceback(t *testing.T) {
	_, report := runOnce(t, &taskyardv1.Task{}, func(context.Context, *RunningTask) (any, error) { panic("oh") })
	failed := report.GetFailed()
	if failed.GetError() != "panic: oh" || !strings.HasPrefix(failed.GetTraceback(), "panic(") ||
		!strings.Contains(failed.GetTraceback(), "failures_test.go") || len(failed.GetTraceback()) > maxTracebackBytes {
		t.Error(failed)
	}
}

func TestHandlerSaysWhenOrThatItsTaskIsNotTriedAgain(t *testing.T) {
	coded := &ActionFailed{Reason: "busy", Code: "busy"}
	for name, each := range map[string]struct {
		err       error
		want      string
		code      string
		after     *uint32
		retryable *bool
	}{
		"later":              {Retry(1500*time.Millisecond, errors.New("not yet")), "not yet", "", proto.Uint32(1500), nil},
		"later, no cause":    {Retry(time.Second, nil), "to be tried again", "", proto.Uint32(1000), nil},
		"by the policy":      {Retry(0, errors.New("not yet")), "not yet", "", nil, nil},
		"after days":         {Retry(100*time.Hour, coded), "busy", "busy", proto.Uint32(24 * 3600 * 1000), nil},
		"never":              {NotRetryable(coded), "busy", "busy", nil, proto.Bool(false)},
		"with its own words": {&ActionFailed{Reason: "no", Err: coded}, "no", "", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failureBy(t, each.err)
			want := &taskyardv1.TaskFailed{
				Error: each.want, Code: optional(each.code), RetryAfterMs: each.after, Retryable: each.retryable,
				Traceback: failed.Traceback,
			}
			if !proto.Equal(failed, want) {
				t.Error(failed)
			}
		})
	}
	if NotRetryable(nil) != nil {
		t.Error("no error became one")
	}
}

func TestAttemptBeginsWithWhatTheLastOneSaved(t *testing.T) {
	saved := must(structpb.NewStruct(map[string]any{"page": 3.0}))(t)
	task := &taskyardv1.Task{Progress: &taskyardv1.Progress{Details: saved, Message: proto.String("before")}}
	progress, _ := runOnce(t, task, func(_ context.Context, task *RunningTask) (any, error) {
		var checkpoint struct{ Page int }
		if err := task.DecodeCheckpoint(&checkpoint); err != nil || checkpoint.Page != 3 || task.Checkpoint["page"] != 3.0 {
			t.Error(checkpoint, err)
		}
		task.Progress(0.5, "half way")
		return nil, nil
	})
	if progress.GetMessage() != "half way" || !proto.Equal(progress.GetDetails(), saved) {
		t.Error(progress)
	}
	progress, _ = runOnce(t, &taskyardv1.Task{}, func(_ context.Context, task *RunningTask) (any, error) {
		task.Progress(0.25, "a quarter")
		if err := task.SaveCheckpoint(map[string]int{"n": beyond}); err == nil || !strings.Contains(err.Error(), "details.n") {
			t.Error(err)
		}
		return nil, task.SaveCheckpoint(map[string]int{"n": 4})
	})
	if progress.GetFraction() != 0.25 || progress.GetDetails().AsMap()["n"] != 4.0 {
		t.Error(progress)
	}
}

func TestOutputOfAHandlerKeepsItsDigits(t *testing.T) {
	for name, each := range map[string]struct {
		result any
		code   string
		output string
	}{
		"plain":   {line{ID: beyond}, badResult, ""},
		"output":  {Output{line{ID: beyond}}, "", `{"id":9007199254740993,"price":0}`},
		"small":   {Output{line{ID: 1}}, "", ""},
		"payload": {Payload{Data: []byte("x"), Encoding: "own"}, "", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			_, report := runOnce(t, &taskyardv1.Task{}, func(context.Context, *RunningTask) (any, error) { return each.result, nil })
			completed, failed := report.GetCompleted(), report.GetFailed()
			if failed.GetCode() != each.code || string(completed.GetOutput().GetData()) != each.output {
				t.Error(report)
			}
			if each.code != "" && (failed.GetRetryable() || !strings.Contains(failed.GetError(), "result.id: 9007199254740993")) {
				t.Error(report)
			}
			if (completed.GetResult() != nil) != (name == "small") {
				t.Error(report)
			}
		})
	}
}

func TestTypedHandlerGetsAnInputThatFits(t *testing.T) {
	double := Typed(func(_ context.Context, _ *RunningTask, input line) (line, error) { return line{ID: 2 * input.ID}, nil })
	given := &taskyardv1.Task{Input: &taskyardv1.Payload{Data: []byte(`{"id":9007199254740993}`)}}
	_, report := runOnce(t, given, double)
	if got := string(report.GetCompleted().GetOutput().GetData()); got != `{"id":18014398509481986,"price":0}` {
		t.Error(report)
	}
	params := must(structpb.NewStruct(map[string]any{"id": "one"}))(t)
	_, report = runOnce(t, &taskyardv1.Task{Params: params}, double)
	failed := report.GetFailed()
	if failed.GetCode() != badInput || failed.GetRetryable() || !strings.Contains(failed.GetError(), ".id of type int64") {
		t.Error(report)
	}
}

func TestTasksThatAHandlerSubmitsHaveItsTaskAsParent(t *testing.T) {
	inner := &fakeServer{}
	client := serve(t, inner)
	runOnce(t, &taskyardv1.Task{}, func(ctx context.Context, task *RunningTask) (any, error) {
		if CurrentTask(ctx) != task {
			t.Error("the context has another task")
		}
		_, err := client.Submit(ctx, NewTask{Action: "child"})
		_, other := client.Submit(ctx, NewTask{Action: "child", ParentID: "tsk_other"})
		return nil, errors.Join(err, other)
	})
	must(client.Submit(testContext(t), NewTask{Action: "orphan"}))(t)
	if len(inner.submits) != 3 || inner.submits[0].GetParentId() != "a1" || inner.submits[1].GetParentId() != "tsk_other" ||
		inner.submits[2].ParentId != nil {
		t.Error(inner.submits)
	}
}

func TestHandlerIsToldThatItsRunTimeoutIsOver(t *testing.T) {
	stopped := make(chan error, 1)
	begun := make(chan bool, 1)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		if _, err := host.welcome(); err != nil {
			return err
		}
		if err := host.assign("a1", &taskyardv1.Task{Action: proto.String("work"), RunTimeoutMs: proto.Uint32(1500)}); err != nil {
			return err
		}
		if reports, err := host.reports(); err != nil || host.answer(reports, "") != nil {
			return err
		}
		<-begun
		if err := host.stop("a1", taskyardv1.Cancellation_timed_out); err != nil {
			return err
		}
		return host.acceptAll(func(*taskyardv1.Report) {})
	}}
	runHost(t, f, func(ctx context.Context, task *RunningTask) (any, error) {
		if task.RunTimeout != 1500*time.Millisecond {
			t.Error(task.RunTimeout)
		}
		begun <- true
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	if err := receive(t, stopped); !isStop(err, "timed_out") {
		t.Error(err)
	}
}
