// What a handler does, and what its task shows.

package taskyard

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestResultErrorOrPanicOfAHandlerIsTheOutcomeOfItsTask(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	hostContext, drain := context.WithCancel(ctx)
	notUTF8 := &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue("\xff")}}
	host := NewHost(client, "host", HostOptions{Slots: 3, Machine: func() *taskyardv1.Machine {
		return &taskyardv1.Machine{Sessions: new(uint32), Context: notUTF8}
	}})
	var typedNil *ActionFailed
	for action, handler := range map[string]Handler{
		"result":  func(context.Context, *RunningTask) (any, error) { return struct{ N int }{7}, nil },
		"nothing": func(context.Context, *RunningTask) (any, error) { return nil, nil },
		"error":   func(context.Context, *RunningTask) (any, error) { return 1, errors.New("broke \xff") },
		"failure": func(context.Context, *RunningTask) (any, error) {
			return nil, &ActionFailed{Reason: "no way", Code: "broken", Final: true}
		},
		"no text":   func(context.Context, *RunningTask) (any, error) { return nil, errors.New("") },
		"panic":     func(context.Context, *RunningTask) (any, error) { panic("oh") },
		"nil error": func(context.Context, *RunningTask) (any, error) { return nil, typedNil },
		"goexit":    func(context.Context, *RunningTask) (any, error) { runtime.Goexit(); return nil, nil },
		"not json":  func(context.Context, *RunningTask) (any, error) { return math.Inf(1), nil },
		"bad progress": func(_ context.Context, task *RunningTask) (any, error) {
			task.ReportProgress(&taskyardv1.Progress{Details: notUTF8})
			return nil, nil
		},
	} {
		host.Handle(action, handler)
	}
	host.HandleAny(func(_ context.Context, task *RunningTask) (any, error) { return task.Action, nil })
	left := make(chan error, 1)
	go func() { left <- host.Run(hostContext) }()
	for action, want := range map[string]struct {
		state  State
		result any
		err    string
	}{
		"result":       {StateDone, map[string]any{"N": 7.0}, ""},
		"nothing":      {StateDone, nil, ""},
		"error":        {StateFailed, nil, "broke \uFFFD"},
		"failure":      {StateFailed, nil, "no way"},
		"no text":      {StateFailed, nil, "failed without a word"},
		"panic":        {StateFailed, nil, "panic: oh"},
		"nil error":    {StateFailed, nil, "panic: runtime error: invalid memory address or nil pointer dereference"},
		"goexit":       {StateFailed, nil, "the handler ended its goroutine"},
		"not json":     {StateFailed, nil, "result is not JSON"},
		"bad progress": {StateDone, nil, ""},
		"other":        {StateDone, "other", ""},
	} {
		task, err := client.Run(ctx, NewTask{Action: action})
		notDone, failed := errors.AsType[*TaskFailed](err)
		if task == nil || task.State != want.state || failed != (want.state == StateFailed) || err != nil && !failed {
			t.Errorf("%s: %+v %v", action, task, err)
			continue
		}
		if got, ok := task.Result.(map[string]any); ok {
			if got["N"] != 7.0 {
				t.Errorf("%s: %v", action, task.Result)
			}
		} else if task.Result != want.result {
			t.Errorf("%s: %v", action, task.Result)
		}
		if failed && !strings.Contains(notDone.Error(), want.err) {
			t.Errorf("%s: %v", action, notDone)
		}
	}
	drain()
	if err := receive(t, left); err != nil {
		t.Error(err)
	}
	if findHost(ctx, t, client, "host") != nil {
		t.Error("a host that has left in order is still registered")
	}
}

func TestHostReportsProgressAndTokensBeforeTheOutcome(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	hostContext, drain := context.WithCancel(ctx)
	host := NewHost(client, "host", HostOptions{})
	host.Handle("work", func(_ context.Context, task *RunningTask) (any, error) {
		task.SetTokensUsed(5)
		task.Progress(7, "half\xff")
		task.SetTokensUsed(8)
		return nil, nil
	})
	left := make(chan error, 1)
	go func() { left <- host.Run(hostContext) }()
	task := must(client.Run(ctx, NewTask{Action: "work"}))(t)
	if task.Progress == nil || task.Progress.Fraction != 1 || task.Progress.Message != "half\uFFFD" || task.TokensUsed != 8 {
		t.Errorf("%+v %+v", task, task.Progress)
	}
	drain()
	if err := receive(t, left); err != nil {
		t.Error(err)
	}
}

func TestHostRunsNoMoreTasksThanItHasSlots(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{Slots: 2})
	batch := must(client.SubmitBatch(ctx, NewBatch{Tasks: slices.Repeat([]NewTask{{Action: "hold"}}, 3)}))(t)
	receive(t, h.begun)
	receive(t, h.begun)
	states := must(client.GetBatch(ctx, batch.ID))(t).States
	if states[StateQueued] != 1 || len(h.begun) != 0 {
		t.Error(states)
	}
	h.release <- struct{}{}
	receive(t, h.begun)
	h.release <- struct{}{}
	h.release <- struct{}{}
	for _, id := range batch.TaskIDs() {
		if task := must(client.Wait(ctx, id))(t); task.State != StateDone {
			t.Errorf("%+v", task)
		}
	}
}

func TestCancellationEndsTheContextOfTheHandler(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{Slots: 1})
	id := h.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, h.begun)
	must(client.Cancel(ctx, id))(t)
	if err := receive(t, h.stopped); !isStop(err, "cancelled") {
		t.Error(err)
	}
	// The slot is free again.
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
}

func TestResumedTaskBeginsANewRun(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{Slots: 1})
	id := h.submit(ctx, t, NewTask{Action: "hold", Target: "page"})
	receive(t, h.begun)
	if state := must(client.Pause(ctx, id))(t); state != StatePaused {
		t.Error(state)
	}
	if err := receive(t, h.stopped); !isStop(err, "paused") {
		t.Error(err)
	}
	must(client.Resume(ctx, id))(t)
	if task := receive(t, h.begun); task.Run != 2 || task.Attempt != 1 || task.FencingToken != 2 {
		t.Errorf("%+v", task)
	}
	h.release <- struct{}{}
	if task := must(client.Wait(ctx, id))(t); task.State != StateDone || task.Run != 2 {
		t.Errorf("%+v", task)
	}
}

func TestEnvironmentOfAProcessNamesTheTaskAndItsTrace(t *testing.T) {
	t.Setenv("TRACEPARENT", "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01")
	task := &RunningTask{Task: Task{ID: "tsk_1"}, FencingToken: 3, Attempt: 2}
	found := task.Environ()
	if !slices.Contains(found, "TASKYARD_TASK_ID=tsk_1") || !slices.Contains(found, "TASKYARD_ATTEMPT=2") ||
		!slices.Contains(found, "TASKYARD_FENCING_TOKEN=3") || slices.Contains(found, "TRACEPARENT="+os.Getenv("TRACEPARENT")) {
		t.Error(found)
	}
	task.Traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	found = task.Environ()
	if !slices.Contains(found, "TRACEPARENT="+task.Traceparent) ||
		!slices.Contains(found, "TASKYARD_TRACE_ID=0123456789abcdef0123456789abcdef") {
		t.Error(found)
	}
}
