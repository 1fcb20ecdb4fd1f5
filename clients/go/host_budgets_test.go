// Hosts and the token budgets of tasks, with the real server.

package taskyard

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestTokensThatAHandlerOnlyStatesFailItsTaskWhichAHigherLimitResumes(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	// A heartbeat is due after a third of a lease.
	host := NewHost(client, "host", HostOptions{Lease: 3 * time.Second})
	stopped := make(chan error, 1)
	host.Handle("work", func(ctx context.Context, task *RunningTask) (any, error) {
		task.SetTokensUsed(11)
		if task.FencingToken > 1 {
			return "done", nil
		}
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	hostContext, drain := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- host.Run(hostContext) }()
	id := must(client.Submit(ctx, NewTask{Action: "work", TokenLimit: 10}))(t).ID
	task := must(client.Wait(ctx, id))(t)
	if task.State != StateFailed || task.Error != "token limit exceeded" || task.TokensUsed != 11 {
		t.Errorf("%+v", task)
	}
	if err := receive(t, stopped); !isStop(err, "token_limit_exceeded") {
		t.Error(err)
	}
	_, err := client.Resume(ctx, id)
	if CodeOf(err) != CodeConflict || !strings.Contains(err.Error(), "used 11 of 10 tokens, resume it with a higher") {
		t.Error(err)
	}
	if state := must(client.Resume(ctx, id, WithTokenLimit(22)))(t); state != StateQueued {
		t.Error(state)
	}
	task = must(client.Wait(ctx, id))(t)
	if task.State != StateDone || task.Run != 2 || task.TokensUsed != 22 || task.TokenLimit != 22 {
		t.Errorf("%+v", task)
	}
	drain()
	if err := receive(t, left); err != nil {
		t.Error(err)
	}
}
