// Package taskyard submits tasks to a Taskyard server, follows them, and runs them.
//
// Connect answers a Client for agents; a Host takes tasks and runs their handlers. What has no method of its own is
// reached by the generated stubs of package taskyardv1 over Client.Conn, which retries and answers errors all the same.
package taskyard

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// waitPiece is how long one WaitTask waits: proxies end calls that are quiet for a minute.
const waitPiece = 20 * time.Second

// Client calls a Taskyard server. It may be used by many goroutines at once.
//
// Every method may answer an *Error with CodeBadRequest, CodeUnauthenticated, CodePermissionDenied, CodeUnavailable,
// CodeDeadlineExceeded, CodeCancelled or CodeInternal; the comments name the other codes. Where a repeat is safe, a call
// is repeated while the server is unavailable, see WithPatience.
type Client struct {
	*settings
	conn      *grpc.ClientConn
	tasks     taskyardv1.TaskServiceClient
	batches   taskyardv1.BatchServiceClient
	figures   taskyardv1.StatsServiceClient
	submitter *submitter
}

func newClient(conn *grpc.ClientConn, s *settings) *Client {
	tasks := taskyardv1.NewTaskServiceClient(conn)
	return &Client{
		settings:  s,
		conn:      conn,
		tasks:     tasks,
		batches:   taskyardv1.NewBatchServiceClient(conn),
		figures:   taskyardv1.NewStatsServiceClient(conn),
		submitter: &submitter{settings: s, tasks: tasks},
	}
}

// Close waits for the answers of tasks that are being submitted, for no longer than a call may take, then ends the
// connection, with the calls, watches and hosts that use it.
func (c *Client) Close() error {
	c.submitter.drain()
	return c.conn.Close()
}

// Conn is for the generated stubs: taskyardv1.NewScheduleServiceClient(client.Conn()). Calls carry the client's
// namespace and token. Unary ones answer *Error, and are repeated where their proto says that they are idempotent.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Submitted is a task that was accepted.
type Submitted struct {
	TaskID    string
	State     State
	Position  int // The number of queued tasks of the namespace just after.
	CreatedAt time.Time
}

// Submit submits one task. With or without a key of its own, it is made once, however often the connection breaks. Tasks
// that goroutines submit at the same time share the messages of a stream: a thousand cost little more than a batch.
//
// Codes: CodeQueueFull, CodeTooLarge for the params, CodeAlreadyExists for a key of another task. After CodeUnavailable
// the task may exist all the same.
func (c *Client) Submit(ctx context.Context, task NewTask) (*Submitted, error) {
	request, err := task.message(c.agent)
	if err != nil {
		return nil, err
	}
	answer, err := c.submitter.submit(ctx, request)
	if err != nil {
		return nil, err
	}
	return &Submitted{
		TaskID: answer.GetTaskId(), State: stateOf(answer.GetState()), Position: int(answer.GetPosition()),
		CreatedAt: timeOf(answer.GetCreatedAt()),
	}, nil
}

// NewBatch is a batch to submit. Agent is by default that of WithAgent.
type NewBatch struct {
	Agent       string
	CallbackURL string
	Tasks       []NewTask
}

// SubmittedBatch tells how each task of a batch fared, in the order of the request.
type SubmittedBatch struct {
	ID       string
	Outcomes []BatchOutcome
}

// TaskIDs answers the accepted tasks.
func (b *SubmittedBatch) TaskIDs() []string {
	var ids []string
	for _, outcome := range b.Outcomes {
		if outcome.Err == nil {
			ids = append(ids, outcome.TaskID)
		}
	}
	return ids
}

// BatchOutcome tells how one task of a batch fared. Err is nil if it was accepted, else an *Error; a task that was
// refused as CodeQueueFull is kept as rejected, under TaskID.
type BatchOutcome struct {
	TaskID   string
	State    State
	Position int
	Err      error
}

// SubmitBatch submits several tasks of one agent, each admitted by itself.
//
// Codes: CodeBatchTooLarge, CodeTooLarge for the params of a task, and CodeBadRequest where any task is malformed; then
// nothing was submitted.
func (c *Client) SubmitBatch(ctx context.Context, batch NewBatch) (*SubmittedBatch, error) {
	agent := batch.Agent
	if agent == "" {
		agent = c.agent
	}
	request := &taskyardv1.SubmitBatchRequest{AgentId: agent, CallbackUrl: optional(batch.CallbackURL)}
	for _, task := range batch.Tasks {
		message, err := task.batchMessage()
		if err != nil {
			return nil, err
		}
		request.Tasks = append(request.Tasks, message)
	}
	var answer *taskyardv1.SubmitBatchResponse
	repeated, err := persist(ctx, c.patience, func() (err error) {
		answer, err = c.batches.SubmitBatch(ctx, request)
		return err
	})
	if err != nil {
		return nil, err
	}
	submitted := &SubmittedBatch{ID: answer.GetBatchId()}
	for _, task := range answer.GetTasks() {
		submitted.Outcomes = append(submitted.Outcomes, BatchOutcome{
			TaskID: task.GetTaskId(), State: stateOf(task.GetState()), Position: int(task.GetPosition()),
			Err: itemError(task.GetError()),
		})
	}
	if ids := submitted.TaskIDs(); repeated && len(ids) > 0 {
		// The try before may have worked: its batch then holds the tasks, not the one that was answered.
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

// NotDoneError says that a task ended otherwise than done.
type NotDoneError struct{ Task *Task }

func (e *NotDoneError) Error() string {
	reason := e.Task.Error
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Sprintf("%s is %s: %s", e.Task.ID, e.Task.State, reason)
}

// Run submits one task and waits until it has ended. The error is a *NotDoneError if it did not end as done, else what
// Submit and Wait answer.
func (c *Client) Run(ctx context.Context, task NewTask) (*Task, error) {
	submitted, err := c.Submit(ctx, task)
	if err != nil {
		return nil, err
	}
	ended, err := c.Wait(ctx, submitted.TaskID)
	if err != nil {
		return nil, err
	}
	if ended.State != StateDone {
		return ended, &NotDoneError{ended}
	}
	return ended, nil
}

// Get answers one task as it stands. Codes: CodeNotFound.
func (c *Client) Get(ctx context.Context, taskID string) (*Task, error) {
	answer, err := c.tasks.GetTask(ctx, &taskyardv1.GetTaskRequest{TaskId: taskID})
	if err != nil {
		return nil, err
	}
	return taskOf(answer), nil
}

// Wait answers the task once it has ended, however long that takes; the context is the limit, and ends it with an error
// that is context.DeadlineExceeded or context.Canceled. Codes: CodeNotFound.
func (c *Client) Wait(ctx context.Context, taskID string) (*Task, error) {
	for {
		piece := waitPiece
		if deadline, ok := ctx.Deadline(); ok {
			piece = max(0, min(piece, time.Until(deadline)))
		}
		count := millis(piece)
		answer, err := c.tasks.WaitTask(ctx, &taskyardv1.WaitTaskRequest{TaskId: taskID, TimeoutMs: &count})
		if err != nil {
			return nil, err
		}
		if answer.GetEnded() {
			return taskOf(answer.GetTask()), nil
		}
		if err := ctx.Err(); err != nil {
			return nil, ErrorFrom(err)
		}
	}
}

// ListOptions selects tasks; what is zero selects all.
type ListOptions struct {
	Agent    string
	States   []State
	BatchID  string
	Target   string
	PageSize uint32 // At most 1,000, the default.
}

// List goes through the retained tasks that match all given filters, in order of submission, page after page. An error
// is the last thing it yields.
func (c *Client) List(ctx context.Context, options ListOptions) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		request := &taskyardv1.ListTasksRequest{
			AgentId: optional(options.Agent), State: statesOf(options.States), BatchId: optional(options.BatchID),
			Target: optional(options.Target), PageSize: optional(options.PageSize),
		}
		for {
			page, err := c.tasks.ListTasks(ctx, request)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, task := range page.GetTasks() {
				if !yield(taskOf(task), nil) {
					return
				}
			}
			if page.GetNextPageToken() == "" {
				return
			}
			request.PageToken = page.NextPageToken
		}
	}
}

// Batch tells how a batch stands, with all of its retained tasks in the order of their submission.
type Batch struct {
	ID        string
	Agent     string
	CreatedAt time.Time
	States    map[State]int // How many tasks are in each state; states without any are left out.
	Ended     bool
	Tasks     []*Task
}

// GetBatch answers how a batch stands. Codes: CodeNotFound.
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
			ID: answer.GetBatchId(), Agent: answer.GetAgentId(), CreatedAt: timeOf(answer.GetCreatedAt()),
			States: map[State]int{}, Ended: answer.GetEnded(), Tasks: tasks,
		}
		for state, count := range answer.GetStates() {
			batch.States[State(state)] = int(count)
		}
		return batch, nil
	}
}

// Stats answers the figures of the client's namespace.
func (c *Client) Stats(ctx context.Context) (*taskyardv1.GetStatsResponse, error) {
	return c.figures.GetStats(ctx, &taskyardv1.GetStatsRequest{})
}

// Cancel cancels a task at once. Codes: CodeNotFound, and CodeConflict if it has ended.
func (c *Client) Cancel(ctx context.Context, taskID string) (State, error) {
	return c.move(ctx, taskID, StateCancelled, func() (taskyardv1.Task_State, error) {
		answer, err := c.tasks.CancelTask(ctx, &taskyardv1.CancelTaskRequest{TaskId: taskID})
		return answer.GetStatus(), err
	})
}

// CancelBatch cancels every task of a batch that has not ended, and answers how many that were. Codes: CodeNotFound.
func (c *Client) CancelBatch(ctx context.Context, batchID string) (int, error) {
	answer, err := c.batches.CancelBatch(ctx, &taskyardv1.CancelBatchRequest{BatchId: batchID})
	return int(answer.GetCancelled()), err
}

// Pause interrupts a task that is assigned or running; it becomes paused, or failed if over its token budget.
// Codes: CodeNotFound, and CodeConflict if it does not run.
func (c *Client) Pause(ctx context.Context, taskID string) (State, error) {
	return c.move(ctx, taskID, StatePaused, func() (taskyardv1.Task_State, error) {
		answer, err := c.tasks.PauseTask(ctx, &taskyardv1.PauseTaskRequest{TaskId: taskID})
		return answer.GetStatus(), err
	})
}

// ResumeOption is an option of Resume.
type ResumeOption func(*taskyardv1.ResumeTaskRequest)

// WithTokenLimit sets the most tokens that the resumed task may use from now on, over all its attempts and runs. The
// default is the limit that the task has. A task that failed over its budget needs a limit above its TokensUsed.
func WithTokenLimit(limit uint32) ResumeOption {
	return func(request *taskyardv1.ResumeTaskRequest) { request.TokenLimit = &limit }
}

// Resume queues a paused or failed task again, or releases a held one. It returns the new state: queued or pending.
// Unlike other calls it is not repeated while the server is unavailable: a repeat could resume a new failure.
//
// Codes: CodeNotFound, and CodeConflict if the task is neither paused, failed nor held, or is over its token budget.
func (c *Client) Resume(ctx context.Context, taskID string, options ...ResumeOption) (State, error) {
	request := &taskyardv1.ResumeTaskRequest{TaskId: taskID}
	for _, option := range options {
		option(request)
	}
	answer, err := c.tasks.ResumeTask(ctx, request)
	if err != nil {
		return "", err
	}
	return stateOf(answer.GetStatus()), nil
}

// Resolve ends a paused or failed task as done, with a result unless that is nil.
// Codes: CodeNotFound, CodeConflict if it is neither paused nor failed, and CodeTooLarge for the result.
func (c *Client) Resolve(ctx context.Context, taskID string, result any) (State, error) {
	value, err := valueOf(result)
	if err != nil {
		return "", badRequest("result: " + err.Error())
	}
	return c.move(ctx, taskID, StateDone, func() (taskyardv1.Task_State, error) {
		answer, err := c.tasks.ResolveTask(ctx, &taskyardv1.ResolveTaskRequest{TaskId: taskID, Result: value})
		return answer.GetStatus(), err
	})
}

// move makes a call that leads a task to a state, after which the same call would be a conflict.
func (c *Client) move(
	ctx context.Context, taskID string, aim State, call func() (taskyardv1.Task_State, error),
) (State, error) {
	var state taskyardv1.Task_State
	repeated, err := persist(ctx, c.patience, func() (err error) {
		state, err = call()
		return err
	})
	if repeated && CodeOf(err) == CodeConflict {
		// After a lost answer it may be the call's own doing.
		if task, lookErr := c.Get(ctx, taskID); lookErr == nil && task.State == aim {
			return aim, nil
		}
	}
	if err != nil {
		return "", err
	}
	return stateOf(state), nil
}

// newKey answers 128 bits of chance as text.
func newKey() string { return rand.Text() }
