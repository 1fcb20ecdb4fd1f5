// Package taskyard submits tasks to a Taskyard server, follows them, and runs them.
//
// [Connect] returns a [Client] for agents. A [Host] takes tasks and runs their handlers. Calls without a method of
// their own are made with the generated stubs of package taskyardv1 over [Client.Conn]; they have the same retries and
// errors.
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

// maxWaitPerCall is how long one WaitTask waits: proxies end calls that are silent for a minute.
const maxWaitPerCall = 20 * time.Second

// Client calls a Taskyard server. It may be used by many goroutines at once.
//
// Every method may return an *[Error] with [CodeBadRequest], [CodeUnauthenticated], [CodePermissionDenied],
// [CodeUnavailable], [CodeDeadlineExceeded], [CodeCancelled] or [CodeInternal]. The comments of the methods name the
// other codes. A call that can be repeated safely is repeated while the server is unavailable, see [WithPatience].
type Client struct {
	*settings
	tasks     taskyardv1.TaskServiceClient
	batches   taskyardv1.BatchServiceClient
	stats     taskyardv1.StatsServiceClient
	targets   taskyardv1.TargetServiceClient
	submitter *submitter
}

func newClient(s *settings) *Client {
	tasks := taskyardv1.NewTaskServiceClient(s.conn)
	return &Client{
		settings:  s,
		tasks:     tasks,
		batches:   taskyardv1.NewBatchServiceClient(s.conn),
		stats:     taskyardv1.NewStatsServiceClient(s.conn),
		targets:   taskyardv1.NewTargetServiceClient(s.conn),
		submitter: &submitter{settings: s, tasks: tasks},
	}
}

// Close waits for the answers of submissions in progress, for no longer than the time-out of a call, see [WithTimeout].
// Then it closes the connection, which ends the calls, watches and hosts that use it. The error is that of the
// connection.
func (c *Client) Close() error {
	c.submitter.close()
	return c.conn.Close()
}

// Conn returns the connection for generated stubs: taskyardv1.NewScheduleServiceClient(client.Conn()). Their calls
// carry the namespace and the token of the client. Unary calls return an *[Error], and are repeated while the server is
// unavailable if their proto marks them as idempotent. For the errors of streams there is [ErrorFrom].
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Submitted describes a task that the server has accepted.
type Submitted struct {
	// TaskID is the id that the server gave the task.
	TaskID string
	// State is [StateQueued], or [StatePending] for a task that is held or not due yet.
	State State
	// Position is the number of queued tasks of the namespace just after the task was accepted.
	Position int
	// CreatedAt is when the server accepted the task.
	CreatedAt time.Time
}

// Submit submits one task. The task is created once, however often the connection breaks: without an idempotency key in
// the task, the client makes one. Tasks that are submitted at the same time share the messages of a stream; a thousand
// of them cost little more than a batch.
//
// Codes: [CodeQueueFull], [CodeTooLarge] for the params, and [CodeAlreadyExists] if the idempotency key belongs to a
// different task. After [CodeUnavailable], [CodeDeadlineExceeded] and [CodeCancelled] the task may exist.
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

// NotDoneError is the error of [Client.Run] for a task that ended in another state than [StateDone].
type NotDoneError struct {
	// Task is the task as it ended.
	Task *Task
}

// Error returns the id, the state and the error of the task.
func (e *NotDoneError) Error() string {
	reason := e.Task.Error
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Sprintf("%s is %s: %s", e.Task.ID, e.Task.State, reason)
}

// Run submits one task and waits until it has ended, however long that takes; the context limits the time. It returns
// the task, also together with a *[NotDoneError] if the task did not end as done. Other errors are those of
// [Client.Submit] and [Client.Wait].
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

// Get returns the present state of a task. Codes: [CodeNotFound].
func (c *Client) Get(ctx context.Context, taskID string) (*Task, error) {
	answer, err := c.tasks.GetTask(ctx, &taskyardv1.GetTaskRequest{TaskId: taskID})
	if err != nil {
		return nil, err
	}
	return taskOf(answer), nil
}

// Wait returns a task once it has ended, however long that takes. The context limits the time: its end is an error that
// is [context.DeadlineExceeded] or [context.Canceled]. Codes: [CodeNotFound].
func (c *Client) Wait(ctx context.Context, taskID string) (*Task, error) {
	for {
		wait := maxWaitPerCall
		if deadline, ok := ctx.Deadline(); ok {
			wait = max(0, min(wait, time.Until(deadline)))
		}
		waitMs := toMillis(wait)
		answer, err := c.tasks.WaitTask(ctx, &taskyardv1.WaitTaskRequest{TaskId: taskID, TimeoutMs: &waitMs})
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

// ListOptions selects the tasks of [Client.List]. A zero field does not filter.
type ListOptions struct {
	// Agent selects the tasks of one agent.
	Agent string
	// States selects the tasks in one of these states.
	States []State
	// BatchID selects the tasks of one batch.
	BatchID string
	// Target selects the tasks of one target.
	Target string
	// History lists all tasks that the server keeps, for days, except rejected ones.
	History bool
	// NewestFirst lists the youngest task first.
	NewestFirst bool
	// CreatedFrom selects the tasks submitted at this time or later.
	CreatedFrom time.Time
	// CreatedUntil selects the tasks submitted before this time.
	CreatedUntil time.Time
	// PageSize is how many tasks one call asks for. Default and maximum: 1,000.
	PageSize uint32
}

// List iterates over the retained tasks that match all filters, in order of submission unless the options say
// otherwise. It calls the server for one page after the other. An error is the last item.
func (c *Client) List(ctx context.Context, options ListOptions) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		request := &taskyardv1.ListTasksRequest{
			AgentId: optional(options.Agent), State: statesOf(options.States), BatchId: optional(options.BatchID),
			Target: optional(options.Target), PageSize: optional(options.PageSize),
			History: optional(options.History), NewestFirst: optional(options.NewestFirst),
			CreatedFrom: timestampOf(options.CreatedFrom), CreatedUntil: timestampOf(options.CreatedUntil),
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

// Stats returns the figures of the client's namespace.
func (c *Client) Stats(ctx context.Context) (*taskyardv1.GetStatsResponse, error) {
	return c.stats.GetStats(ctx, &taskyardv1.GetStatsRequest{})
}

// newKey returns 128 random bits as text.
func newKey() string { return rand.Text() }
