// Events that tasks wait for. Against the real server.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestATaskHasEachEventOnce(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{Slots: 1}, func(ctx context.Context, task *RunningTask) (any, error) {
		first, err := task.Event(ctx, "paid")
		if err != nil {
			return nil, err
		}
		second, err := task.Event(ctx, "paid", EventAs("again"), EventWithin(time.Hour))
		if err != nil {
			return nil, err
		}
		if _, err := task.Event(ctx, "paid", EventAs("late"), EventWithin(0)); !errors.Is(err, ErrEventTimeout) {
			return nil, err
		}
		return []any{first, second}, nil
	})
	id := submitTalk(ctx, t, client, nil)
	if wait := untilParked(ctx, t, client, id).Park.Waits[0]; wait.Kind != StepEvent || wait.Name != "paid" || wait.EventName != "paid" {
		t.Errorf("%+v", wait)
	}
	if waiting := must(client.SendEvent(ctx, "paid", map[string]any{"n": 1}, EventID("one"), EventLife(time.Hour)))(t); waiting != 1 {
		t.Error(waiting)
	}
	if _, err := client.SendEvent(ctx, "paid", 2, EventID("one")); CodeOf(err) != CodeAlreadyExists {
		t.Error(err)
	}
	if _, err := client.SendEvent(ctx, "a b", nil); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
	must(client.SendEvent(ctx, "paid", nil))(t)
	if ended := must(client.Wait(ctx, id))(t); fmt.Sprint(ended.Result, ended.Error) != "[map[n:1] <nil>]" {
		t.Errorf("%+v", ended)
	}
	if got := fmt.Sprint(stepsOf(ctx, t, client, id)); got != "[event paid event again event late]" {
		t.Error(got)
	}
}

func TestAnEventOfAMalformedNameIsNotWaitedFor(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		return task.Event(ctx, "a b")
	})
	_, err := client.Run(ctx, NewTask{Action: "talk"})
	if failed, ok := errors.AsType[*TaskFailed](err); !ok || !strings.HasPrefix(failed.Message, `event "a b": a name has 1 to 256`) {
		t.Error(err)
	}
}
