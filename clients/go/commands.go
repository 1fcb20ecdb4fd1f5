// Commands that change the state of one task (docs/rules.md, Commands).

package taskyard

import (
	"context"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// EndOption is an option of the calls that cancel, pause or resolve tasks.
type EndOption func(*endOptions)

type endOptions struct{ reason string }

// reasonOf returns the reason that the options give, nil for none.
func reasonOf(options []EndOption) *string {
	var found endOptions
	for _, option := range options {
		option(&found)
	}
	return optional(found.reason)
}

// WithReason says why, for people, in up to 1,000 characters: the task shows it, and the host of one that is cancelled or
// paused is told. Default: none.
func WithReason(reason string) EndOption {
	return func(options *endOptions) { options.reason = reason }
}

// Cancel cancels a task at once and returns its new state. A handler that runs it is stopped. Codes: [CodeNotFound],
// and [CodeConflict] if the task has ended.
func (c *Client) Cancel(ctx context.Context, taskID string, options ...EndOption) (State, error) {
	return c.command(ctx, taskID, StateCancelled, func(ctx context.Context) (taskyardv1.Task_State, error) {
		answer, err := c.tasks.CancelTask(ctx, &taskyardv1.CancelTaskRequest{TaskId: taskID, Reason: reasonOf(options)})
		return answer.GetStatus(), err
	})
}

// CancelWithChildren cancels a task as [Client.Cancel] does, and with it what its work has submitted and has not ended,
// what the work of those has submitted, and so on. It returns how many tasks were cancelled beside the task itself, 0 if
// the answer was lost and the call was repeated. Codes: those of Cancel.
func (c *Client) CancelWithChildren(
	ctx context.Context, taskID string, options ...EndOption,
) (children int, err error) {
	cancelChildren := true
	_, err = c.command(ctx, taskID, StateCancelled, func(ctx context.Context) (taskyardv1.Task_State, error) {
		answer, err := c.tasks.CancelTask(ctx, &taskyardv1.CancelTaskRequest{
			TaskId: taskID, CancelChildren: &cancelChildren, Reason: reasonOf(options),
		})
		children = int(answer.GetChildrenCancelled())
		return answer.GetStatus(), err
	})
	return children, err
}

// Pause interrupts a task that is assigned or running, and returns its new state: paused, or failed if the task is over
// its token budget. Codes: [CodeNotFound], and [CodeConflict] if the task is neither assigned nor running.
func (c *Client) Pause(ctx context.Context, taskID string, options ...EndOption) (State, error) {
	return c.command(ctx, taskID, StatePaused, func(ctx context.Context) (taskyardv1.Task_State, error) {
		answer, err := c.tasks.PauseTask(ctx, &taskyardv1.PauseTaskRequest{TaskId: taskID, Reason: reasonOf(options)})
		return answer.GetStatus(), err
	})
}

// ResumeOption is an option of [Client.Resume] and [Client.ResumeTargetTask].
type ResumeOption func(*resumeOptions)

type resumeOptions struct{ tokenLimit *uint32 }

func resumeOptionsOf(options []ResumeOption) (found resumeOptions) {
	for _, option := range options {
		option(&found)
	}
	return found
}

// WithTokenLimit sets the most tokens that the resumed task may use from now on, over all its attempts and runs.
// Default: the limit that the task has. A task that failed over its budget needs a limit above its TokensUsed.
func WithTokenLimit(limit uint32) ResumeOption {
	return func(options *resumeOptions) { options.tokenLimit = &limit }
}

// Resume queues a paused or failed task again, or releases a held one. It returns the new state: queued or pending. It
// is the one call that is not repeated while the server is unavailable: a repeat could resume a new failure.
//
// Codes: [CodeNotFound], and [CodeConflict] if the task is neither paused, failed nor held, or is over its token
// budget.
func (c *Client) Resume(ctx context.Context, taskID string, options ...ResumeOption) (State, error) {
	answer, err := c.tasks.ResumeTask(ctx, &taskyardv1.ResumeTaskRequest{
		TaskId: taskID, TokenLimit: resumeOptionsOf(options).tokenLimit,
	})
	if err != nil {
		return "", err
	}
	return stateOf(answer.GetStatus()), nil
}

// ResumeTargetTask is [Client.Resume] for a task of a target. Codes: those of Resume, and [CodeNotFound] for a task that
// does not belong to the target.
func (c *Client) ResumeTargetTask(ctx context.Context, target, taskID string, options ...ResumeOption) (State, error) {
	answer, err := c.targets.ResumeTargetTask(ctx, &taskyardv1.ResumeTargetTaskRequest{
		Target: target, TaskId: taskID, TokenLimit: resumeOptionsOf(options).tokenLimit,
	})
	if err != nil {
		return "", err
	}
	return stateOf(answer.GetStatus()), nil
}

// Resolve ends a paused or failed task as done and returns its new state. The result is anything that encoding/json can
// encode; nil is none. Codes: [CodeNotFound], [CodeConflict] if the task is neither paused nor failed, and
// [CodeTooLarge] for the result.
func (c *Client) Resolve(ctx context.Context, taskID string, result any, options ...EndOption) (State, error) {
	value, err := valueOf("result", result)
	if err != nil {
		return "", badRequest(err.Error())
	}
	return c.command(ctx, taskID, StateDone, func(ctx context.Context) (taskyardv1.Task_State, error) {
		answer, err := c.tasks.ResolveTask(ctx, &taskyardv1.ResolveTaskRequest{
			TaskId: taskID, Result: value, Reason: reasonOf(options),
		})
		return answer.GetStatus(), err
	})
}

// command makes a call that brings a task into the state target, and then is a conflict when it is repeated.
func (c *Client) command(
	ctx context.Context, taskID string, target State, call func(context.Context) (taskyardv1.Task_State, error),
) (State, error) {
	var state taskyardv1.Task_State
	inDoubt, err := retryWhileUnavailable(ctx, c.conn, c.patience, func(ctx context.Context) (err error) {
		state, err = call(ctx)
		return err
	})
	if inDoubt && CodeOf(err) == CodeConflict {
		// An earlier attempt may have worked, and its answer was lost.
		if task, getErr := c.Get(ctx, taskID); getErr == nil && task.State == target {
			return target, nil
		}
	}
	if err != nil {
		return "", err
	}
	return stateOf(state), nil
}
