// What tasks say of others (docs/rules.md, Predecessors, Unique keys, Waiting for a stop), and waits for a stop.

package taskyard

import (
	"context"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// AfterPolicy is what a task asks of those that it comes after.
type AfterPolicy string

// The policies of [NewTask.AfterPolicy].
const (
	AfterSuccess AfterPolicy = "success" // All end as done; else the task is cancelled.
	AfterEnded   AfterPolicy = "ended"   // All end, however that is.
)

// UniqueWhile is for how long a unique key is taken.
type UniqueWhile string

// The spans of [NewTask.UniqueWhile].
const (
	UniqueWhileQueued UniqueWhile = "queued" // While its task is pending or queued.
	UniqueWhileLive   UniqueWhile = "live"   // Until its task has ended.
)

// OnConflict is what a submission does whose unique key is taken.
type OnConflict string

// What [NewTask.OnConflict] can be.
const (
	// ConflictExisting answers with the task that has the key.
	ConflictExisting OnConflict = "existing"
	// ConflictReject fails with [CodeAlreadyExists].
	ConflictReject OnConflict = "reject"
	// ConflictReplaceQueued cancels the task that has the key, if that waits, and else answers with it.
	ConflictReplaceQueued OnConflict = "replaceQueued"
)

// OnParentEnd is what becomes of a task when its parent ends.
type OnParentEnd string

// What [NewTask.OnParentEnd] can be.
const (
	ParentEndKeeps   OnParentEnd = "keep"   // It goes on.
	ParentEndCancels OnParentEnd = "cancel" // It is cancelled.
)

// OnTargetFailure is what becomes of the target of a task that fails after its start.
type OnTargetFailure string

// What [NewTask.OnTargetFailure] can be.
const (
	TargetBlocks    OnTargetFailure = "block"    // The target waits until the task is resumed, resolved or cancelled.
	TargetContinues OnTargetFailure = "continue" // The next task of the target is due.
)

// Stopping tells whether anything of a task may still run that was cancelled or paused.
type Stopping string

// The outcomes of [Client.CancelAndWait] and [Client.PauseAndWait].
const (
	StoppingReleased   Stopping = "released"    // Its host has said that nothing runs any more.
	StoppingPresumed   Stopping = "presumed"    // The time of its lease is over, and its host has said nothing.
	StoppingNotRunning Stopping = "not_running" // No host had it.
	StoppingWaiting    Stopping = "waiting"     // The wait was over before its host said anything.
)

// CancelAndWait cancels a task as [Client.Cancel] does, and waits for its host to say that nothing of it runs any more, for
// at most a minute. Where the answer was lost and the call was repeated, that is not known: [StoppingWaiting]. Codes: those
// of Cancel.
func (c *Client) CancelAndWait(
	ctx context.Context, taskID string, wait time.Duration, options ...EndOption,
) (Stopping, error) {
	waitMs, stopping := toMillis(wait), StoppingWaiting
	_, err := c.command(ctx, taskID, StateCancelled, func(ctx context.Context) (taskyardv1.Task_State, error) {
		answer, err := c.tasks.CancelTask(ctx, &taskyardv1.CancelTaskRequest{
			TaskId: taskID, WaitMs: &waitMs, Reason: reasonOf(options),
		})
		if answer.GetStopping() != 0 {
			stopping = Stopping(enumName(answer.GetStopping()))
		}
		return answer.GetStatus(), err
	})
	if err != nil {
		return "", err
	}
	return stopping, nil
}

// PauseAndWait pauses a task as [Client.Pause] does, and waits as [Client.CancelAndWait] does. Codes: those of Pause.
func (c *Client) PauseAndWait(
	ctx context.Context, taskID string, wait time.Duration, options ...EndOption,
) (Stopping, error) {
	waitMs, stopping := toMillis(wait), StoppingWaiting
	_, err := c.command(ctx, taskID, StatePaused, func(ctx context.Context) (taskyardv1.Task_State, error) {
		answer, err := c.tasks.PauseTask(ctx, &taskyardv1.PauseTaskRequest{
			TaskId: taskID, WaitMs: &waitMs, Reason: reasonOf(options),
		})
		if answer.GetStopping() != 0 {
			stopping = Stopping(enumName(answer.GetStopping()))
		}
		return answer.GetStatus(), err
	})
	if err != nil {
		return "", err
	}
	return stopping, nil
}

// addQueueing adds to a request what the task says of others. The error tells which word is unknown.
func (t NewTask) addQueueing(request *taskyardv1.SubmitTaskRequest) error {
	request.ConcurrencyKeys, request.After, request.Inputs = t.ConcurrencyKeys, t.After, t.Inputs
	request.UniqueKey, request.OnTargetFailure = optional(t.UniqueKey), optional(string(t.OnTargetFailure))
	if t.AfterPolicy != "" {
		value, known := taskyardv1.After_Policy_value[string(t.AfterPolicy)]
		if !known {
			return badRequest("after_policy: is no policy: " + string(t.AfterPolicy))
		}
		request.AfterPolicy = taskyardv1.After_Policy(value).Enum()
	}
	if t.UniqueWhile != "" {
		value, known := taskyardv1.Unique_While_value[string(t.UniqueWhile)]
		if !known {
			return badRequest("unique_while: is no span: " + string(t.UniqueWhile))
		}
		request.UniqueWhile = taskyardv1.Unique_While(value).Enum()
	}
	if t.OnConflict != "" {
		value, known := taskyardv1.Unique_Conflict_value[string(t.OnConflict)]
		if !known {
			return badRequest("on_conflict: is no action: " + string(t.OnConflict))
		}
		request.OnConflict = taskyardv1.Unique_Conflict(value).Enum()
	}
	if t.OnParentEnd != "" {
		value, known := taskyardv1.Parent_OnEnd_value[string(t.OnParentEnd)]
		if !known {
			return badRequest("on_parent_end: is neither keep nor cancel: " + string(t.OnParentEnd))
		}
		request.OnParentEnd = taskyardv1.Parent_OnEnd(value).Enum()
	}
	return nil
}

// showQueueing adds to a task what it says of others.
func (t *Task) showQueueing(m *taskyardv1.Task) {
	t.ConcurrencyKeys, t.After, t.Inputs = m.GetConcurrencyKeys(), m.GetAfter(), m.GetInputs()
	t.UniqueKey = m.GetUniqueKey()
	t.OnTargetFailure, t.Notice = OnTargetFailure(m.GetOnTargetFailure()), m.GetNotice()
	t.Reason = m.GetReason()
	if m.AfterPolicy != nil {
		t.AfterPolicy = AfterPolicy(enumName(m.GetAfterPolicy()))
	}
	if m.UniqueWhile != nil {
		t.UniqueWhile = UniqueWhile(enumName(m.GetUniqueWhile()))
	}
	if m.OnParentEnd != nil {
		t.OnParentEnd = OnParentEnd(enumName(m.GetOnParentEnd()))
	}
}
