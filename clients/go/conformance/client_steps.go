// The operations of an agent.

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

func submit(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	task := taskyard.NewTask{
		AgentID: with.Agent, Action: with.Action, Params: with.Params, Labels: with.Labels, Priority: with.Priority,
		Hold: with.Hold, TokenLimit: with.TokenLimit, IdempotencyKey: with.Key, ParentID: with.Parent,
		RunTimeout: milliseconds(with.RunTimeoutMs), ConcurrencyKeys: with.Keys, After: with.After, Inputs: with.Inputs,
		AfterPolicy: taskyard.AfterPolicy(with.AfterPolicy), UniqueKey: with.UniqueKey,
		OnConflict: taskyard.OnConflict(with.OnConflict), Target: with.Target,
		OnTargetFailure: taskyard.OnTargetFailure(with.OnTargetFailure),
	}
	if given, ok := with.Params.(map[string]any); ok && with.Pad > 0 {
		given["pad"] = strings.Repeat("x", with.Pad)
	}
	if with.Input != nil {
		task.Input = taskyard.Payload{Data: []byte(*with.Input), Encoding: with.InputEncoding}
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
	return outcome{"task": submitted.ID, "state": submitted.State, "existing": submitted.Existing}, nil
}

// submitInexact submits an integer that params cannot hold exactly, which the client refuses.
func submitInexact(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	number, err := strconv.ParseInt(with.Number, 10, 64)
	if err != nil {
		return nil, err
	}
	submitted, err := p.client.Submit(ctx, taskyard.NewTask{
		AgentID: with.Agent, Action: with.Action, Params: map[string]int64{"id": number},
	})
	if taskyard.CodeOf(err) == taskyard.CodeBadRequest && strings.Contains(err.Error(), "params.id") {
		return outcome{"refused": true}, nil
	}
	if err != nil {
		return nil, err
	}
	return outcome{"task": submitted.ID, "state": submitted.State}, nil
}

func submitBatch(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	batch := taskyard.NewBatch{AgentID: with.Agent}
	for n := range with.Count {
		task := taskyard.NewTask{
			Action: with.Action, Params: map[string]int{"n": n}, Labels: with.Labels, Hold: with.Hold,
		}
		if with.Chain && n > 0 {
			task.AfterIndexes = []uint32{uint32(n - 1)}
		}
		if with.Handed && n > 0 {
			task.InputIndexes = map[string]uint32{"before": uint32(n - 1)}
		}
		batch.Tasks = append(batch.Tasks, task)
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
		AgentID: with.Agent, States: with.States, BatchID: with.Batch, PageSize: with.PageSize, ParentID: with.Parent,
		Labels: with.Selector, ConcurrencyKey: with.ConcurrencyKey, IDPrefix: with.IDPrefix,
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

func listSteps(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	steps, err := p.client.Steps(ctx, with.Task)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, step := range steps {
		found = append(found, fmt.Sprintf("%s %d %d", step.Name, step.Run, step.Attempt))
	}
	return outcome{"steps": found}, nil
}

func listQuestions(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	found := []string{}
	for open, err := range p.client.Questions(ctx, taskyard.QuestionOptions{}) {
		if err != nil {
			return nil, err
		}
		if open.TaskID == with.Task {
			found = append(found, open.QuestionID+" "+open.Question.Text)
		}
	}
	return outcome{"questions": found}, nil
}

func answer(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	state, err := p.client.Answer(ctx, with.Task, with.Question, with.Answer)
	return outcome{"state": state}, err
}

func sendEvent(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	waiting, err := p.client.SendEvent(ctx, with.Name, with.Payload)
	return outcome{"waiting": waiting}, err
}

func readArtifact(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	data, err := p.client.ReadArtifact(ctx, with.Task, with.Name)
	if err != nil {
		return nil, err
	}
	return outcome{"size": len(data), "sha256": sumOf(data)}, nil
}

// result shows the value of a result, wherever it is.
func result(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, milliseconds(with.Ms))
	defer cancel()
	task, err := p.client.Wait(ctx, with.Task)
	if err != nil {
		return nil, err
	}
	var value map[string]any
	if err := task.DecodeResult(&value); err != nil {
		return nil, err
	}
	pad, _ := value["pad"].(string)
	delete(value, "pad")
	return outcome{"value": value, "pad": len(pad)}, nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func cancel(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	if with.WaitMs != nil {
		stopping, err := p.client.CancelAndWait(ctx, with.Task, milliseconds(*with.WaitMs))
		return outcome{"state": taskyard.StateCancelled, "children_cancelled": nil, "stopping": stopping}, err
	}
	if with.Children {
		count, err := p.client.CancelWithChildren(ctx, with.Task)
		return outcome{"state": taskyard.StateCancelled, "children_cancelled": count, "stopping": nil}, err
	}
	state, err := p.client.Cancel(ctx, with.Task)
	return outcome{"state": state, "children_cancelled": nil, "stopping": nil}, err
}

// pause interrupts a task.
func pause(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	state, err := p.client.Pause(ctx, with.Task)
	return outcome{"state": state}, err
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

func taskOutcome(task *taskyard.Task) outcome {
	codes := []any{}
	for _, attempt := range task.Attempts {
		codes = append(codes, absent(attempt.Code))
	}
	found := outcome{
		"task": task.ID, "agent": task.AgentID, "action": task.Action, "state": task.State, "params": task.Params,
		"labels": task.Labels, "result": task.Result, "error_text": absent(task.Error), "run": task.Run,
		"attempts": len(task.Attempts), "codes": codes, "progress": nil, "tokens": absent(task.TokensUsed),
		"token_limit": absent(task.TokenLimit), "run_timeout_ms": absent(task.RunTimeout.Milliseconds()),
		"parent": absent(task.ParentID), "code": absent(task.Code), "traceback": absent(task.Traceback),
		"keys": present(task.ConcurrencyKeys), "after": present(task.After), "unique_key": absent(task.UniqueKey),
		"on_target_failure": absent(task.OnTargetFailure),
	}
	addPayload(found, "input", task.Input)
	addPayload(found, "output", task.Output)
	if task.Params == nil {
		found["params"] = outcome{}
	}
	if task.Labels == nil {
		found["labels"] = outcome{}
	}
	if found["inputs"] = task.Inputs; task.Inputs == nil {
		found["inputs"] = outcome{}
	}
	if task.Progress != nil {
		found["progress"] = outcome{"fraction": task.Progress.Fraction, "message": absent(task.Progress.Message)}
	}
	return found
}

// addPayload shows a payload by its bytes as a text, and its encoding.
func addPayload(found outcome, name string, payload *taskyard.Payload) {
	found[name], found[name+"_encoding"] = nil, nil
	if payload != nil {
		found[name], found[name+"_encoding"] = string(payload.Data), absent(payload.Encoding)
	}
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

// present returns an empty list for nil.
func present(list []string) []string { return append([]string{}, list...) }

func milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }
