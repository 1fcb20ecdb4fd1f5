// Children of the task that a handler runs: each is submitted once under its name, and every run of the task has the same
// (docs/rules.md, Children).

package taskyard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// ChildFailed is the error of [Child.Result] for a child that did not end as done.
type ChildFailed struct {
	// Name is its name among the children of the task.
	Name string
	// ID is its id.
	ID string
	// State is [StateFailed] or [StateCancelled].
	State State
	// Message tells why.
	Message string
}

// Error returns the name, the id, the state and the message.
func (f *ChildFailed) Error() string {
	return fmt.Sprintf("the child %q (%s) is %s: %s", f.Name, f.ID, f.State, f.Message)
}

// Child is a child of a running task, see [RunningTask.Child].
type Child struct {
	// Name is its name among the children of the task.
	Name string
	// ID is its id, for [RunningTask.Join] and for what a task comes after, or is handed.
	ID string

	parent *RunningTask
}

// Child submits a child of the task, once and for all: a later attempt or run gets the same one by its name, whatever else
// it says. The name has 1 to 128 letters, digits, ".", "_" or "-", and no "." first.
//
// It is a task like any other, of this task's agent, and is cancelled when this one ends unless OnParentEnd is
// [ParentEndKeeps]. It has neither an idempotency key nor a unique key, since the name is one. [Child.Result] and
// [RunningTask.Join] wait for its end without a slot. Params that are too large for a message become an artifact of it by
// themselves.
//
// The error is an *[Error]: [CodeBadRequest], [CodeLeaseLost], [CodeQueueFull], [CodeTooLarge] for params that are too large
// for an artifact too, or where the server keeps none, or one of more than 1,000 children, [CodeNotFound] for a task that it comes after. It is [ErrParked] if the task
// is parked, and a *[StopError] if the handler is to stop.
func (t *RunningTask) Child(ctx context.Context, name string, task NewTask) (*Child, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	request, err := task.singleMessage(ctx, "")
	if err != nil {
		return nil, err
	}
	// Those that the client adds by itself.
	request.IdempotencyKey, request.ParentId = optional(task.IdempotencyKey), optional(task.ParentID)
	if !t.waits.begin() {
		return nil, goesOn("child", name)
	}
	defer t.waits.underWay.Done()
	answer, err := t.submitChildOfAnySize(ctx, name, request)
	if err != nil {
		return nil, err
	}
	return &Child{name, answer.GetTaskId(), t}, nil
}

// submitChildOfAnySize submits a child, whatever the size of its params.
func (t *RunningTask) submitChildOfAnySize(
	ctx context.Context, name string, request *taskyardv1.SubmitTaskRequest,
) (*taskyardv1.SubmitChildResponse, error) {
	most := t.steps.maxPayloadBytes()
	if most == 0 || sizeOfParams(request) <= most {
		answer, err := t.submitChild(ctx, name, request)
		if most == 0 || !refusesParams(err) {
			return answer, err
		}
	}
	return t.submitLargeChild(ctx, name, request)
}

// submitLargeChild submits a child held, gives it its params as an artifact, and lets it go. What was cut off in between
// is done by the next run, which does the same.
func (t *RunningTask) submitLargeChild(
	ctx context.Context, name string, request *taskyardv1.SubmitTaskRequest,
) (*taskyardv1.SubmitChildResponse, error) {
	held, data, err := heldRequest(request)
	if err != nil {
		return nil, badRequest("params: " + err.Error())
	}
	answer, err := t.submitChild(ctx, name, held)
	if err != nil || !answer.GetHeld() {
		return answer, err
	}
	if _, err = t.held.put(ctx, name, paramsArtifact, bytes.NewReader(data), "application/json"); err != nil {
		if CodeOf(err) != CodeConflict {
			return nil, err
		}
		// Somebody may have let it go.
		if again, failed := t.submitChild(ctx, name, held); failed != nil || !again.GetHeld() {
			return again, failed
		}
		return nil, noArtifact(err)
	}
	if request.GetHold() {
		return answer, nil
	}
	held.Hold = proto.Bool(false)
	return t.submitChild(ctx, name, held)
}

func (t *RunningTask) submitChild(
	ctx context.Context, name string, child *taskyardv1.SubmitTaskRequest,
) (*taskyardv1.SubmitChildResponse, error) {
	return t.childCalls().SubmitChild(ctx, &taskyardv1.SubmitChildRequest{
		HostId: t.held.hostID, TaskId: t.ID, FencingToken: float64(t.FencingToken), Name: name, Child: child,
	})
}

// Result stores the result in what v points to, as [Task.DecodeResult] does, whatever its size: a *[Payload] gets the
// output as it is, nil nothing. Until the child has ended, the task is parked as by [RunningTask.Join], for which there are
// the options; return the [ErrParked].
//
// It may be called again, after a timeout too, and by several goroutines: the waits of a run are named "child NAME",
// "child NAME 2" and so on, in the order in which they begin, by which a later run finds them again. Goroutines whose order
// may differ, and which have different limits, name theirs by [JoinAs].
//
// The error is a *[ChildFailed] if the child failed or was cancelled, one of Join, such as [ErrJoinTimeout], or that of
// encoding/json.
func (c *Child) Result(ctx context.Context, v any, options ...JoinOption) error {
	found, err := c.fetch(ctx)
	for err == nil && !found.State.Ended() {
		named := append([]JoinOption{JoinAs(c.parent.waits.nameOf(c.Name))}, options...)
		err = c.parent.Join(ctx, []string{c.ID}, named...)
		// Without a limit it is another goroutine's wait, whose place this one has in this run.
		if err == nil || errors.Is(err, ErrJoinTimeout) && len(options) == 0 {
			found, err = c.fetch(ctx)
		}
	}
	if err != nil {
		return err
	}
	if found.State != StateDone {
		return &ChildFailed{c.Name, c.ID, found.State, cmp.Or(found.Error, "no reason given")}
	}
	if v == nil {
		return nil
	}
	if err := (&TaskStep{Result: found.Result, Output: found.Output}).decodeInto(v); err != nil {
		return fmt.Errorf("child %q: its result does not fit: %w", c.Name, err)
	}
	return nil
}

// JoinChildren is [RunningTask.Join] for children.
func (t *RunningTask) JoinChildren(ctx context.Context, children []*Child, options ...JoinOption) error {
	ids := make([]string, len(children))
	for i, child := range children {
		ids[i] = child.ID
	}
	return t.Join(ctx, ids, options...)
}

// fetch returns the child as it stands.
func (c *Child) fetch(ctx context.Context) (*TaskInput, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := c.parent
	answer, err := t.childCalls().FetchChild(ctx, &taskyardv1.FetchChildRequest{
		HostId: t.held.hostID, TaskId: t.ID, FencingToken: float64(t.FencingToken), Name: c.Name,
	})
	if err != nil {
		return nil, err
	}
	return t.inputOf(ctx, c.Name, answer.GetChild())
}

func (t *RunningTask) childCalls() taskyardv1.ChildServiceClient {
	return taskyardv1.NewChildServiceClient(t.held.client.conn)
}
