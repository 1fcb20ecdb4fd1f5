// The operations of an agent, and those of a worker without a host.

package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	taskyard "github.com/taskyard/taskyard/clients/go"
	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func submit(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	task := taskyard.NewTask{
		AgentID: with.Agent, Action: with.Action, Params: with.Params, Labels: with.Labels, Priority: with.Priority,
		Hold: with.Hold, TokenLimit: with.TokenLimit, IdempotencyKey: with.Key,
	}
	if with.Retry != nil {
		task.RetryPolicy = &taskyard.RetryPolicy{
			MaxAttempts:       with.Retry.MaxAttempts,
			FirstDelay:        time.Duration(with.Retry.FirstDelayMs) * time.Millisecond,
			NonRetryableCodes: with.Retry.NonRetryableCodes,
		}
	}
	submitted, err := p.client.Submit(ctx, task)
	if err != nil {
		return nil, err
	}
	return outcome{"task": submitted.ID, "state": submitted.State}, nil
}

func submitBatch(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	batch := taskyard.NewBatch{AgentID: with.Agent}
	for n := range with.Count {
		batch.Tasks = append(batch.Tasks, taskyard.NewTask{
			Action: with.Action, Params: map[string]int{"n": n}, Labels: with.Labels, Hold: with.Hold,
		})
	}
	submitted, err := p.client.SubmitBatch(ctx, batch)
	if err != nil {
		return nil, err
	}
	accepted := submitted.TaskIDs()
	refused, delays := []taskyard.Code{}, []any{}
	for _, each := range submitted.Outcomes {
		if err, ok := errors.AsType[*taskyard.Error](each.Err); ok {
			refused, delays = append(refused, err.Code), append(delays, retryAfterMs(err))
		}
	}
	return outcome{
		"batch": submitted.ID, "tasks": accepted, "accepted": len(accepted), "refused": refused, "retry_after_ms": delays,
	}, nil
}

func get(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	task, err := p.client.Get(ctx, with.Task)
	if err != nil {
		return nil, err
	}
	return taskOutcome(task), nil
}

func list(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	ids, states := []string{}, []taskyard.State{}
	options := taskyard.ListOptions{
		AgentID: with.Agent, States: with.States, BatchID: with.Batch, PageSize: with.PageSize,
	}
	for task, err := range p.client.List(ctx, options) {
		if err != nil {
			return nil, err
		}
		ids, states = append(ids, task.ID), append(states, task.State)
	}
	return outcome{"count": len(ids), "tasks": ids, "states": states}, nil
}

func wait(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, milliseconds(with.Ms))
	defer cancel()
	task, err := p.client.Wait(ctx, with.Task)
	if errors.Is(err, context.DeadlineExceeded) {
		return outcome{"ended": false}, nil
	}
	if err != nil {
		return nil, err
	}
	found := taskOutcome(task)
	found["ended"] = true
	return found, nil
}

// command returns the operation of a call that changes the state of a task.
func command(call func(*taskyard.Client, context.Context, string) (taskyard.State, error)) operation {
	return func(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
		state, err := call(p.client, ctx, with.Task)
		return outcome{"state": state}, err
	}
}

func resume(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	var options []taskyard.ResumeOption
	if with.TokenLimit > 0 {
		options = append(options, taskyard.WithTokenLimit(with.TokenLimit))
	}
	state, err := p.client.Resume(ctx, with.Task, options...)
	return outcome{"state": state}, err
}

func resolve(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	state, err := p.client.Resolve(ctx, with.Task, with.Result)
	return outcome{"state": state}, err
}

func getBatch(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	batch, err := p.client.GetBatch(ctx, with.Batch)
	if err != nil {
		return nil, err
	}
	return outcome{"ended": batch.Ended, "count": len(batch.Tasks), "states": batch.States}, nil
}

func cancelBatch(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	count, err := p.client.CancelBatch(ctx, with.Batch)
	return outcome{"cancelled": count}, err
}

func stats(ctx context.Context, p *program, _ string, _ arguments) (outcome, error) {
	found, err := p.client.Stats(ctx)
	if err != nil {
		return nil, err
	}
	queue := found.GetQueue()
	agents := queue.GetAgentCounts()
	if agents == nil {
		agents = map[string]float64{}
	}
	return outcome{"queued": queue.GetTotalQueued(), "paused": queue.GetTotalPaused(), "agents": agents}, nil
}

func cut(ctx context.Context, _ *program, _ string, with arguments) (outcome, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, with.URL, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return outcome{}, answer.Body.Close()
}

func sleep(_ context.Context, _ *program, _ string, with arguments) (outcome, error) {
	time.Sleep(milliseconds(with.Ms))
	return outcome{}, nil
}

// A worker without a host, with the generated stubs

func register(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := taskyardv1.NewRuntimeHostServiceClient(p.client.Conn()).RegisterHost(
		ctx, &taskyardv1.RegisterHostRequest{HostId: with.Host})
	return outcome{"host": answer.GetHost().GetId()}, err
}

func claim(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	waitMs := uint32(with.Ms)
	answer, err := taskyardv1.NewLeaseServiceClient(p.client.Conn()).ClaimTask(ctx, &taskyardv1.ClaimTaskRequest{
		HostId: with.Host, LeaseSecs: with.LeaseSecs, WaitMs: &waitMs,
	})
	return outcome{"claimed": answer.GetClaimed(), "task": answer.TaskId, "token": answer.FencingToken}, err
}

func complete(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	result, err := structpb.NewValue(with.Result)
	if err != nil {
		return nil, err
	}
	answer, err := taskyardv1.NewLeaseServiceClient(p.client.Conn()).CompleteTask(ctx, &taskyardv1.CompleteTaskRequest{
		HostId: with.Host, TaskId: with.Task, FencingToken: float64(with.Token), Result: result,
		TokensUsed: with.Tokens,
	})
	if err != nil {
		return nil, err
	}
	return outcome{"state": stateName(answer.GetState())}, nil
}

func deregister(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := taskyardv1.NewRuntimeHostServiceClient(p.client.Conn()).DeregisterHost(
		ctx, &taskyardv1.DeregisterHostRequest{HostId: with.Host})
	return outcome{"deregistered": answer.GetDeregistered()}, err
}

func drain(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := taskyardv1.NewRuntimeHostServiceClient(p.client.Conn()).DrainHost(
		ctx, &taskyardv1.DrainHostRequest{HostId: with.Host, GracePeriodSecs: with.GraceSecs})
	return outcome{"draining": answer.GetHost().GetDraining()}, err
}

// stateName returns the name of a state in lower case, which is the first in the proto.
func stateName(state taskyardv1.Task_State) string {
	return string(state.Descriptor().Values().ByNumber(state.Number()).Name())
}

func taskOutcome(task *taskyard.Task) outcome {
	codes := []any{}
	for _, attempt := range task.Attempts {
		codes = append(codes, absent(attempt.Code))
	}
	found := outcome{
		"task": task.ID, "agent": task.AgentID, "action": task.Action, "state": task.State, "params": task.Params,
		"labels": task.Labels, "result": task.Result, "error_text": absent(task.Error), "run": task.Run,
		"attempts": len(task.Attempts), "codes": codes, "progress": nil, "tokens": absent(task.TokensUsed),
		"token_limit": absent(task.TokenLimit),
	}
	if task.Params == nil {
		found["params"] = outcome{}
	}
	if task.Labels == nil {
		found["labels"] = outcome{}
	}
	if task.Progress != nil {
		found["progress"] = outcome{"fraction": task.Progress.Fraction, "message": absent(task.Progress.Message)}
	}
	return found
}

// retryAfterMs returns nil where the server did not say when to try again.
func retryAfterMs(err *taskyard.Error) any { return absent(err.RetryAfter.Milliseconds()) }

// absent returns nil for the zero value.
func absent[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

func milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }
