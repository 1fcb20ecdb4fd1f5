// Tasks that are run from here: submitted, awaited, and cancelled when nobody waits any more.

package taskyard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// cancelTimeout is how long the cancel of a task may take for which nobody waits any more.
const cancelTimeout = 5 * time.Second

var (
	// ErrTaskCancelled is what the error of [Client.Run] is, for [errors.Is], if the task was cancelled.
	ErrTaskCancelled = errors.New("the task was cancelled")
	// ErrTaskLost is what an error with [CodeNotFound] is, for [errors.Is], if the server knew the task before: it was
	// started anew without a store, or has forgotten the task since.
	ErrTaskLost = errors.New("the task is lost")
)

// TaskFailed is the error of [Client.Run] for a task that ended in another state than [StateDone].
type TaskFailed struct {
	// Task is the task as it ended.
	Task *Task
	// Code is the code of the failure, as the host reported it, or timed_out; "" if it has none.
	Code string
	// Message tells why the task did not end as done.
	Message string
	// Attempts are the executions of the run, oldest first. A single one is left out if there is no retry policy.
	Attempts []Attempt
	// Traceback tells where in the host's code the work failed, "" if the host did not say.
	Traceback string
}

// NotDoneError is [TaskFailed] by its former name.
//
// Deprecated: use TaskFailed.
type NotDoneError = TaskFailed

// Error returns the id, the state, the number of attempts if there were several, and the message.
func (e *TaskFailed) Error() string {
	times := ""
	if count := len(e.Attempts); count > 1 {
		times = fmt.Sprintf(" after %d attempts", count)
	}
	return fmt.Sprintf("%s is %s%s: %s", e.Task.ID, e.Task.State, times, e.Message)
}

// Is reports whether the target is [ErrTaskCancelled] and the task was cancelled.
func (e *TaskFailed) Is(target error) bool {
	return target == ErrTaskCancelled && e.Task.State == StateCancelled
}

func taskFailed(task *Task, submitted NewTask) *TaskFailed {
	message := cmp.Or(task.Error, task.Reason, "no reason given")
	isOfDeadline := task.Error == "deadline exceeded" || task.Error == "deadline exceeded while queued"
	if isOfDeadline && submitted.Deadline.IsZero() {
		message += fmt.Sprintf(" (the default deadline%s; see NewTask.Deadline)", defaultDeadline(task))
	}
	return &TaskFailed{
		Task: task, Code: task.Code, Message: message, Attempts: task.Attempts, Traceback: task.Traceback,
	}
}

// defaultDeadline returns how long the default deadline was, as a part of a sentence. It is "" for a task whose deadline
// did not count from its submission on.
func defaultDeadline(task *Task) string {
	waited := task.Target != "" || len(task.After)+len(task.Inputs) > 0 || !task.NotBefore.IsZero() || task.Hold || task.Run > 1
	if task.Deadline.IsZero() || waited {
		return ""
	}
	return " of " + task.Deadline.Sub(task.CreatedAt).Round(time.Second).String()
}

// Run submits one task and waits until it has ended, however long that takes; the context limits the time. It returns
// the task, also together with a *[TaskFailed] if the task did not end as done. Other errors are those of
// [Client.Submit] and [Client.Wait].
//
// When the context ends while Run waits, the task is cancelled, unless [CancelOnExit] says otherwise, or it had the unique
// key before ([Submitted.Existing]). When it ends before
// the submission was answered, the task may exist and go on.
func (c *Client) Run(ctx context.Context, task NewTask, options ...SubmitOption) (*Task, error) {
	submitted, err := c.Submit(ctx, task, options...)
	if err != nil {
		return nil, err
	}
	ended, err := c.wait(ctx, submitted.ID, true)
	if err != nil {
		if ctx.Err() != nil && !submitOptionsOf(options).keepsOnExit && !submitted.Existing {
			c.cancelAbandoned(ctx, submitted.ID)
		}
		return nil, err
	}
	if ended.State != StateDone {
		return ended, taskFailed(ended, task)
	}
	return ended, nil
}

// cancelAbandoned cancels a task for which nobody waits any more.
func (c *Client) cancelAbandoned(ctx context.Context, taskID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if _, err := c.Cancel(ctx, taskID); err != nil && CodeOf(err) != CodeConflict {
		c.log.Warn("taskyard: a task goes on that nobody waits for any more", "task", taskID, "error", err)
	}
}

// taskLost returns the error of a task that the server knew before.
func taskLost(taskID string, err error) error {
	found := *errorFrom(err)
	found.Reason = taskID + " is lost: the server was started anew without a store, or has forgotten the task since"
	found.cause = ErrTaskLost
	return &found
}
