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
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// working is a host that runs while a test goes on.
type working struct {
	client *Client
	drain  context.CancelFunc
	left   chan error
	// begun gets each task whose handler begins, stopped each error that the context of one ended with.
	begun   chan *RunningTask
	stopped chan error
	// release lets a handler of the action hold end.
	release chan struct{}
}

func start(t *testing.T, client *Client, id string, options HostOptions) *working {
	t.Helper()
	ctx, drain := context.WithCancel(t.Context())
	w := &working{
		client: client, drain: drain, left: make(chan error, 1), begun: make(chan *RunningTask, 100),
		stopped: make(chan error, 100), release: make(chan struct{}),
	}
	host := NewHost(client, id, options)
	host.Handle("echo", func(_ context.Context, task *RunningTask) (any, error) { return task.Params, nil })
	host.Handle("hold", func(ctx context.Context, task *RunningTask) (any, error) {
		w.begun <- task
		select {
		case <-w.release:
			return map[string]any{"attempt": task.Attempt, "token": task.FencingToken}, nil
		case <-ctx.Done():
			w.stopped <- context.Cause(ctx)
			return nil, ctx.Err()
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.left <- host.Run(ctx)
	}()
	t.Cleanup(func() {
		drain()
		select {
		case w.release <- struct{}{}:
		case <-done:
		}
		<-done
	})
	return w
}

func (w *working) submit(ctx context.Context, t *testing.T, task NewTask) string {
	t.Helper()
	return must(w.client.Submit(ctx, task))(t).TaskID
}

func isStop(err error, reason string) bool {
	stop, ok := errors.AsType[*StopError](err)
	return ok && stop.Reason == reason && stop.Error() != ""
}

func TestHostMakesOutcomesOfWhatHandlersDo(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	hostContext, drain := context.WithCancel(ctx)
	noText := &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue("\xff")}}
	host := NewHost(client, "host", HostOptions{Slots: 3, Machine: func() *taskyardv1.Machine {
		return &taskyardv1.Machine{Sessions: new(uint32), Context: noText}
	}})
	var typedNil *TaskFailure
	for action, handler := range map[string]Handler{
		"result":     func(context.Context, *RunningTask) (any, error) { return struct{ N int }{7}, nil },
		"nothing":    func(context.Context, *RunningTask) (any, error) { return nil, nil },
		"error":      func(context.Context, *RunningTask) (any, error) { return 1, errors.New("broke \xff") },
		"failure":    func(context.Context, *RunningTask) (any, error) { return nil, &TaskFailure{"no way", "broken", true} },
		"wordless":   func(context.Context, *RunningTask) (any, error) { return nil, errors.New("") },
		"panic":      func(context.Context, *RunningTask) (any, error) { panic("oh") },
		"error's":    func(context.Context, *RunningTask) (any, error) { return nil, typedNil },
		"goexit":     func(context.Context, *RunningTask) (any, error) { runtime.Goexit(); return nil, nil },
		"not json":   func(context.Context, *RunningTask) (any, error) { return math.Inf(1), nil },
		"too large":  func(context.Context, *RunningTask) (any, error) { return strings.Repeat("x", 100_000), nil },
		"far larger": func(context.Context, *RunningTask) (any, error) { return strings.Repeat("x", 10<<20), nil },
		"bad progress": func(_ context.Context, task *RunningTask) (any, error) {
			task.ReportProgress(&taskyardv1.Progress{Details: noText})
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
		"wordless":     {StateFailed, nil, "failed without a word"},
		"panic":        {StateFailed, nil, "panic: oh"},
		"error's":      {StateFailed, nil, "panic: runtime error: invalid memory address or nil pointer dereference"},
		"goexit":       {StateFailed, nil, "the handler ended its goroutine"},
		"not json":     {StateFailed, nil, "result is not JSON"},
		"too large":    {StateFailed, nil, "result refused"},
		"far larger":   {StateFailed, nil, "does not fit a message"},
		"bad progress": {StateDone, nil, ""},
		"other":        {StateDone, "other", ""},
	} {
		task, err := client.Run(ctx, NewTask{Action: action})
		notDone, failed := errors.AsType[*NotDoneError](err)
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
	if err := from(t, left); err != nil {
		t.Error(err)
	}
	if hostNamed(ctx, t, client, "host") != nil {
		t.Error("a host that has left in order is still registered")
	}
}

func TestHostReportsProgressAndTokensBeforeTheOutcome(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
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
	if err := from(t, left); err != nil {
		t.Error(err)
	}
}

func TestHostRunsNoMoreThanItsSlots(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{Slots: 2})
	batch := must(client.SubmitBatch(ctx, NewBatch{Tasks: slices.Repeat([]NewTask{{Action: "hold"}}, 3)}))(t)
	from(t, w.begun)
	from(t, w.begun)
	states := must(client.GetBatch(ctx, batch.ID))(t).States
	if states[StateQueued] != 1 || len(w.begun) != 0 {
		t.Error(states)
	}
	w.release <- struct{}{}
	from(t, w.begun)
	w.release <- struct{}{}
	w.release <- struct{}{}
	for _, id := range batch.TaskIDs() {
		if task := must(client.Wait(ctx, id))(t); task.State != StateDone {
			t.Errorf("%+v", task)
		}
	}
}

func TestCancellationReachesTheContextOfTheHandler(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{Slots: 1})
	id := w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	must(client.Cancel(ctx, id))(t)
	if err := from(t, w.stopped); !isStop(err, "cancelled") {
		t.Error(err)
	}
	// Its slot is free again.
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
}

func TestPausedTaskIsResumedInANewRun(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{Slots: 1})
	id := w.submit(ctx, t, NewTask{Action: "hold", Target: "page"})
	from(t, w.begun)
	if state := must(client.Pause(ctx, id))(t); state != StatePaused {
		t.Error(state)
	}
	if err := from(t, w.stopped); !isStop(err, "paused") {
		t.Error(err)
	}
	must(client.Resume(ctx, id))(t)
	if task := from(t, w.begun); task.Run != 2 || task.Attempt != 1 || task.FencingToken != 2 {
		t.Errorf("%+v", task)
	}
	w.release <- struct{}{}
	if task := must(client.Wait(ctx, id))(t); task.State != StateDone || task.Run != 2 {
		t.Errorf("%+v", task)
	}
}

func TestHandlerIsStoppedWhenTheServerCannotBeReachedForLongerThanItsLease(t *testing.T) {
	proxy := startProxy(t, address)
	namespace := WithNamespace("lease-loss")
	client, ctx := connect(t, address, namespace), limited(t)
	w := start(t, connect(t, proxy.address, namespace), "host", HostOptions{Lease: time.Second})
	id := w.submit(ctx, t, NewTask{Action: "hold", RetryPolicy: &RetryPolicy{MaxAttempts: 2, FirstDelay: time.Millisecond}})
	from(t, w.begun)
	proxy.block()
	if err := from(t, w.stopped); !isStop(err, "lease_lost") {
		t.Error(err)
	}
	if task := must(client.Get(ctx, id))(t); task.State == StateDone {
		t.Errorf("%+v", task)
	}
	proxy.unblock()
	if task := from(t, w.begun); task.FencingToken != 2 {
		t.Errorf("%+v", task)
	}
	w.release <- struct{}{}
	if task := must(client.Wait(ctx, id))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
}

func TestReconnectKeepsWhatRunsAndTheLeases(t *testing.T) {
	proxy := startProxy(t, address)
	namespace := WithNamespace("adoption")
	client, ctx := connect(t, address, namespace), limited(t)
	w := start(t, connect(t, proxy.address, namespace), "host", HostOptions{Slots: 2})
	runs, ends := w.submit(ctx, t, NewTask{Action: "hold"}), w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	from(t, w.begun)
	proxy.block()
	// One ends while there is no connection: its outcome is told after it.
	w.release <- struct{}{}
	from(t, proxy.refused)
	proxy.unblock()
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
	proxy.cut()
	w.release <- struct{}{}
	for _, id := range []string{runs, ends} {
		task := must(client.Wait(ctx, id))(t)
		if task.State != StateDone || task.Result.(map[string]any)["token"] != 1.0 {
			t.Errorf("%+v", task)
		}
	}
	if len(w.begun) != 0 || len(w.stopped) != 0 {
		t.Error("handlers that began again, or were stopped:", len(w.begun), len(w.stopped))
	}
}

func TestHostComesBackToAServerThatWasStartedAgain(t *testing.T) {
	at, ctx := freeAddress(), limited(t)
	client := connect(t, at)
	first := must(startServer(t.TempDir(), at))(t)
	w := start(t, client, "host", HostOptions{})
	w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	first.kill()
	second := must(startServer(t.TempDir(), at))(t)
	defer second.kill()
	// The new server knows of no lease.
	if err := from(t, w.stopped); !isStop(err, "lease_lost") {
		t.Error(err)
	}
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
	w.drain()
	if err := from(t, w.left); err != nil {
		t.Error(err)
	}
}

func TestDrainFinishesWhatRunsAndTakesNothingNew(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{Slots: 2})
	runs := w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	w.drain()
	for hosts := 1; hosts > 0; {
		if host := hostNamed(ctx, t, client, "host"); host.GetDraining() {
			hosts = 0
		}
	}
	waits := w.submit(ctx, t, NewTask{Action: "echo"})
	w.release <- struct{}{}
	if err := from(t, w.left); err != nil {
		t.Error(err)
	}
	if task := must(client.Get(ctx, runs))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
	if task := must(client.Get(ctx, waits))(t); task.State != StateQueued {
		t.Errorf("%+v", task)
	}
}

func TestDrainInterruptsAfterItsGraceAndGivesBack(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{DrainGrace: 50 * time.Millisecond})
	id := w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	w.drain()
	if err := from(t, w.stopped); !isStop(err, "draining") {
		t.Error(err)
	}
	if err := from(t, w.left); err != nil {
		t.Error(err)
	}
	if task := must(client.Get(ctx, id))(t); task.State != StateQueued {
		t.Errorf("%+v", task)
	}
}

func TestDrainByTheServerHasTheHostLeave(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{})
	id := w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	hosts := taskyardv1.NewRuntimeHostServiceClient(client.Conn())
	must(hosts.DrainHost(ctx, &taskyardv1.DrainHostRequest{HostId: "host"}))(t)
	w.release <- struct{}{}
	if err := from(t, w.left); err != nil {
		t.Error(err)
	}
	if task := must(client.Get(ctx, id))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
}

func TestHostStopsAllAndComesBackWhenItIsDeregistered(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{})
	id := w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	hosts := taskyardv1.NewRuntimeHostServiceClient(client.Conn())
	must(hosts.DeregisterHost(ctx, &taskyardv1.DeregisterHostRequest{HostId: "host"}))(t)
	if err := from(t, w.stopped); err == nil {
		t.Error("stopped without a word")
	}
	from(t, w.begun)
	w.release <- struct{}{}
	if task := must(client.Wait(ctx, id))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
}

func TestSecondHostOfOneIDTakesOverOnceTheFirstHasLeft(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	first := start(t, client, "host", HostOptions{Slots: 1})
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
	second := start(t, client, "host", HostOptions{Slots: 1})
	id := first.submit(ctx, t, NewTask{Action: "hold"})
	from(t, first.begun)
	first.drain()
	first.release <- struct{}{}
	must(client.Wait(ctx, id))(t)
	if err := from(t, first.left); err != nil {
		t.Error(err)
	}
	second.submit(ctx, t, NewTask{Action: "hold"})
	from(t, second.begun)
	second.release <- struct{}{}
}

func TestHostThatTheServerRefusesEndsWithTheError(t *testing.T) {
	client := connect(t, address)
	for name, host := range map[string]*Host{
		"no id":          NewHost(client, "", HostOptions{}),
		"too long lease": NewHost(client, "host", HostOptions{Lease: 2 * time.Hour}),
		"no text":        NewHost(client, "host", HostOptions{DisplayName: "\xff"}),
	} {
		host.HandleAny(func(context.Context, *RunningTask) (any, error) { return nil, nil })
		if err := host.Run(limited(t)); CodeOf(err) != CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := NewHost(client, "host", HostOptions{}).Run(limited(t)); err == nil {
		t.Error("a host without handlers runs")
	}
}

func TestHostEndsWhenItsClientIsClosed(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	w := start(t, client, "host", HostOptions{})
	w.submit(ctx, t, NewTask{Action: "hold"})
	from(t, w.begun)
	_ = client.Close()
	if err := from(t, w.left); CodeOf(err) != CodeCancelled {
		t.Error(err)
	}
	if err := from(t, w.stopped); !isStop(err, "draining") {
		t.Error(err)
	}
}

func TestHostLeavesBehindAHandlerThatDoesNotListen(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	hostContext, drain := context.WithCancel(ctx)
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	host := NewHost(client, "host", HostOptions{DrainGrace: time.Millisecond})
	host.Handle("deaf", func(context.Context, *RunningTask) (any, error) {
		began <- struct{}{}
		<-goOn
		return nil, nil
	})
	left := make(chan error, 1)
	go func() { left <- host.Run(hostContext) }()
	must(client.Submit(ctx, NewTask{Action: "deaf"}))(t)
	from(t, began)
	drain()
	if err := from(t, left); err != nil {
		t.Error(err)
	}
	close(goOn)
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
