// How Run ends: with the task, with the failure of the task, or without either.

package taskyard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func ended(task *taskyardv1.Task) func(int) (*taskyardv1.WaitTaskResponse, error) {
	task.TaskId = proto.String("tsk_1")
	return func(int) (*taskyardv1.WaitTaskResponse, error) {
		return &taskyardv1.WaitTaskResponse{Ended: proto.Bool(true), Task: task}, nil
	}
}

func TestTaskFailedTellsWhatTheHostReported(t *testing.T) {
	f := &fakeServer{waitTask: ended(&taskyardv1.Task{
		State: taskyardv1.Task_failed.Enum(), Error: proto.String("no page"), Code: proto.String("gone"),
		Traceback: proto.String("in fetch"), Attempts: []*taskyardv1.Attempt{{Number: proto.Uint32(1)}, {Number: proto.Uint32(2)}},
	})}
	client := serve(t, f)
	task, err := client.Run(testContext(t), NewTask{Action: "fetch"})
	failed, ok := errors.AsType[*TaskFailed](err)
	if !ok || failed.Task != task || failed.Code != "gone" || failed.Message != "no page" || len(failed.Attempts) != 2 ||
		failed.Traceback != "in fetch" || failed.Error() != "tsk_1 is failed after 2 attempts: no page" {
		t.Errorf("%+v", failed)
	}
	if errors.Is(err, ErrTaskCancelled) {
		t.Error(err)
	}
	f.waitTask = ended(&taskyardv1.Task{State: taskyardv1.Task_cancelled.Enum()})
	if _, err = client.Run(testContext(t), NewTask{Action: "fetch"}); !errors.Is(err, ErrTaskCancelled) {
		t.Error(err)
	}
}

func TestDefaultDeadlineIsNamedWhereItFailsATask(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := &fakeServer{waitTask: ended(&taskyardv1.Task{
		State: taskyardv1.Task_failed.Enum(), Error: proto.String("deadline exceeded while queued"),
		CreatedAt: timestampOf(created), Deadline: timestampOf(created.Add(time.Minute + time.Millisecond)),
	})}
	client := serve(t, f)
	_, err := client.Run(testContext(t), NewTask{Action: "fetch"})
	if !strings.Contains(err.Error(), "exceeded while queued (the default deadline of 1m0s; see NewTask.Deadline)") {
		t.Error(err)
	}
	_, err = client.Run(testContext(t), NewTask{Action: "fetch", Deadline: created})
	if strings.Contains(err.Error(), "default") {
		t.Error(err)
	}
}

func TestRunCancelsItsTaskWhenItsContextEnds(t *testing.T) {
	for name, each := range map[string]struct {
		options []SubmitOption
		cancels int
	}{
		"by default": {nil, 1},
		"not asked":  {[]SubmitOption{CancelOnExit(false)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := &fakeServer{
				cancelTask: func() (*taskyardv1.CancelTaskResponse, error) {
					return &taskyardv1.CancelTaskResponse{}, nil
				},
				// It ends once there is a task.
				waitTask: func(int) (*taskyardv1.WaitTaskResponse, error) {
					cancel()
					return &taskyardv1.WaitTaskResponse{Ended: proto.Bool(false)}, nil
				},
			}
			client := serve(t, f)
			_, err := client.Run(ctx, NewTask{Action: "fetch"}, each.options...)
			if !errors.Is(err, context.Canceled) || len(f.cancels) != each.cancels {
				t.Error(err, f.cancels)
			}
		})
	}
}

func TestTaskThatTheServerKnewAndKnowsNoMoreIsLost(t *testing.T) {
	gone := func(int) (*taskyardv1.WaitTaskResponse, error) {
		return nil, status.Error(codes.NotFound, "no such task")
	}
	f := &fakeServer{waitTask: gone}
	client := serve(t, f)
	_, err := client.Run(testContext(t), NewTask{Action: "fetch"})
	if !errors.Is(err, ErrTaskLost) || CodeOf(err) != CodeNotFound || !strings.Contains(err.Error(), "started anew") {
		t.Error(err)
	}
	if _, err = client.Wait(testContext(t), "tsk_1"); CodeOf(err) != CodeNotFound || errors.Is(err, ErrTaskLost) {
		t.Error(err)
	}
	f.waits, f.waitTask = 0, func(number int) (*taskyardv1.WaitTaskResponse, error) {
		if number == 1 {
			return &taskyardv1.WaitTaskResponse{Ended: proto.Bool(false)}, nil
		}
		return gone(number)
	}
	if _, err = client.Wait(testContext(t), "tsk_1"); !errors.Is(err, ErrTaskLost) {
		t.Error(err)
	}
}

func TestTaskWaitsForRoomInAFullQueueIfItIsToldTo(t *testing.T) {
	full := refusal(status.New(codes.ResourceExhausted, "full"), "QUEUE_FULL", time.Millisecond)
	f := &fakeServer{submitTask: func(number int) (*taskyardv1.SubmitTaskResponse, error) {
		if number%3 > 0 {
			return nil, full
		}
		return &taskyardv1.SubmitTaskResponse{TaskId: proto.String("tsk_1")}, nil
	}}
	client := serve(t, f)
	must(client.Submit(testContext(t), NewTask{Action: "fetch"}, WaitWhenFull()))(t)
	if len(f.submits) != 3 || f.submits[0].GetIdempotencyKey() != f.submits[2].GetIdempotencyKey() {
		t.Error(f.submits)
	}
	if _, err := client.Submit(testContext(t), NewTask{Action: "fetch"}); CodeOf(err) != CodeQueueFull {
		t.Error(err)
	}
	f.submitTask = func(int) (*taskyardv1.SubmitTaskResponse, error) { return nil, full }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := client.Submit(ctx, NewTask{Action: "fetch"}, WaitWhenFull())
	if CodeOf(err) != CodeQueueFull && CodeOf(err) != CodeDeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestWaitForRoomGrowsFromTheNamedTime(t *testing.T) {
	for tries, want := range []time.Duration{2, 4, 8, 10, 10} {
		if delay := fullDelay(2*time.Second, tries, 0); delay != want*time.Second {
			t.Error(tries, delay)
		}
	}
	if first, long := fullDelay(0, 0, 0), fullDelay(time.Minute, 9, 0); first != time.Second || long != time.Minute {
		t.Error(first, long)
	}
	if delay := fullDelay(time.Second, 0, 1); delay != 1250*time.Millisecond {
		t.Error(delay)
	}
}

func TestCancelWithChildrenReturnsHowMany(t *testing.T) {
	f := &fakeServer{cancelTask: func() (*taskyardv1.CancelTaskResponse, error) {
		return &taskyardv1.CancelTaskResponse{ChildrenCancelled: proto.Uint32(3)}, nil
	}}
	client := serve(t, f)
	if children := must(client.CancelWithChildren(testContext(t), "tsk_1", WithReason("wrong site")))(t); children != 3 {
		t.Error(children)
	}
	must(client.Cancel(testContext(t), "tsk_1"))(t)
	if !f.cancels[0].GetCancelChildren() || f.cancels[1].CancelChildren != nil ||
		f.cancels[0].GetReason() != "wrong site" || f.cancels[1].Reason != nil {
		t.Error(f.cancels)
	}
}
