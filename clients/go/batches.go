// Batches: several tasks of one agent, submitted in one call (docs/rules.md, Batches).

package taskyard

import (
	"cmp"
	"context"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// NewBatch is a batch to submit.
type NewBatch struct {
	// AgentID submits all tasks of the batch. Default: that of [WithAgentID].
	AgentID string
	// Deprecated: use AgentID.
	Agent string
	// CallbackURL gets a POST for each task that ends, by http or https. Default: none.
	CallbackURL string
	// Tasks are 1 to 50 tasks, unless the server is configured otherwise, without an agent or a callback URL of their
	// own.
	Tasks []NewTask
}

// SubmittedBatch describes a batch that the server has accepted.
type SubmittedBatch struct {
	// ID is the id that the server gave the batch.
	ID string
	// Outcomes has one item for each task, in the order of the request.
	Outcomes []BatchOutcome
}

// TaskIDs returns the ids of the accepted tasks, in the order of the request.
func (b *SubmittedBatch) TaskIDs() []string {
	var ids []string
	for _, outcome := range b.Outcomes {
		if outcome.Err == nil {
			ids = append(ids, outcome.TaskID)
		}
	}
	return ids
}

// BatchOutcome tells whether one task of a batch was accepted.
type BatchOutcome struct {
	// TaskID is the id of the task, "" if it was refused and is not kept. A task that was refused with [CodeQueueFull]
	// is kept as rejected.
	TaskID string
	// State is [StateQueued] or [StatePending] if the task was accepted, else [StateRejected].
	State State
	// Position is the number of queued tasks of the namespace just after the task was accepted, 0 if it was refused.
	Position int
	// Err is nil if the task was accepted, else an *[Error].
	Err error
	// Existing is true if the task had the unique key already, so that nothing was submitted.
	Existing bool
}

// SubmitBatch submits several tasks of one agent. Each of them is accepted or refused by itself.
//
// Codes: [CodeBatchTooLarge], [CodeTooLarge] for the params of a task, which [Client.Submit] takes, and [CodeBadRequest] if a task is malformed.
// After these no task was submitted.
func (c *Client) SubmitBatch(ctx context.Context, batch NewBatch) (*SubmittedBatch, error) {
	request := &taskyardv1.SubmitBatchRequest{
		AgentId: cmp.Or(batch.AgentID, batch.Agent, c.agentID), CallbackUrl: optional(batch.CallbackURL),
	}
	for _, task := range batch.Tasks {
		message, err := task.batchMessage(ctx)
		if err != nil {
			return nil, err
		}
		request.Tasks = append(request.Tasks, message)
	}
	var answer *taskyardv1.SubmitBatchResponse
	inDoubt, err := retryWhileUnavailable(ctx, c.conn, c.patience, func(ctx context.Context) (err error) {
		answer, err = c.batches.SubmitBatch(ctx, request)
		return err
	})
	if refusesParams(err) {
		refused := *asError(err)
		refused.Reason += "; submit this task by itself: Submit makes an artifact of them"
		return nil, &refused
	}
	if err != nil {
		return nil, err
	}
	submitted := &SubmittedBatch{ID: answer.GetBatchId()}
	for _, task := range answer.GetTasks() {
		submitted.Outcomes = append(submitted.Outcomes, BatchOutcome{
			TaskID: task.GetTaskId(), State: stateOf(task.GetState()), Position: int(task.GetPosition()),
			Err: itemError(task.GetError()), Existing: task.GetExisting(),
		})
	}
	if ids := submitted.TaskIDs(); inDoubt && len(ids) > 0 {
		// An earlier attempt may have worked. Its batch then has the tasks, and the batch of this answer is empty.
		first, err := c.Get(ctx, ids[0])
		if err != nil {
			return nil, err
		}
		if first.BatchID != "" {
			submitted.ID = first.BatchID
		}
	}
	return submitted, nil
}

// Batch is the present state of a batch.
type Batch struct {
	// ID is the id of the batch.
	ID string
	// AgentID is who submitted the batch.
	AgentID string
	// Deprecated: use AgentID.
	Agent string
	// CreatedAt is when the server accepted the batch.
	CreatedAt time.Time
	// States has the number of tasks in each state. States without tasks are left out.
	States map[State]int
	// Ended is true if all tasks have ended.
	Ended bool
	// Tasks are the retained tasks, in the order of submission.
	Tasks []*Task
}

// GetBatch returns the present state of a batch. Codes: [CodeNotFound].
func (c *Client) GetBatch(ctx context.Context, batchID string) (*Batch, error) {
	request := &taskyardv1.GetBatchRequest{BatchId: batchID}
	var tasks []*Task
	for {
		answer, err := c.batches.GetBatch(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, task := range answer.GetTasks() {
			tasks = append(tasks, taskOf(task))
		}
		if answer.GetNextPageToken() != "" {
			request.PageToken = answer.NextPageToken
			continue
		}
		batch := &Batch{
			ID: answer.GetBatchId(), AgentID: answer.GetAgentId(), Agent: answer.GetAgentId(),
			CreatedAt: timeOf(answer.GetCreatedAt()), States: map[State]int{}, Ended: answer.GetEnded(), Tasks: tasks,
		}
		for state, count := range answer.GetStates() {
			batch.States[State(state)] = int(count)
		}
		return batch, nil
	}
}

// CancelBatch cancels every task of a batch that has not ended, and returns how many those were. Codes: [CodeNotFound].
func (c *Client) CancelBatch(ctx context.Context, batchID string, options ...EndOption) (int, error) {
	answer, err := c.batches.CancelBatch(ctx, &taskyardv1.CancelBatchRequest{
		BatchId: batchID, Reason: reasonOf(options),
	})
	return int(answer.GetCancelled()), err
}
