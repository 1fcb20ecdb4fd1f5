// Package taskyard submits tasks to a Taskyard server, follows them, and runs them.
//
// [Connect] returns a [Client] for agents. A [Host] takes tasks and runs their handlers. Calls without a method of
// their own are made with the generated stubs of package taskyardv1 over [Client.Conn]; they have the same retries and
// errors.
package taskyard

import (
	"cmp"
	"context"
	"crypto/rand"
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
	outputs   taskyardv1.OutputServiceClient
	artifacts taskyardv1.ArtifactServiceClient
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
		outputs:   taskyardv1.NewOutputServiceClient(s.conn),
		artifacts: taskyardv1.NewArtifactServiceClient(s.conn),
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
	// ID is the id that the server gave the task.
	ID string
	// Deprecated: use ID.
	TaskID string
	// State is [StateQueued], or [StatePending] for a task that is held or not due yet.
	State State
	// Position is the number of queued tasks of the namespace just after the task was accepted.
	Position int
	// CreatedAt is when the server accepted the task.
	CreatedAt time.Time
	// Existing is true if the task had the unique key already, so that nothing was submitted.
	Existing bool
}

// Submit submits one task. The task is created once, however often the connection breaks: without an idempotency key in
// the task, the client makes one. Tasks that are submitted at the same time share the messages of a stream; a thousand
// of them cost little more than a batch. Within a handler, with its context, the task of the handler is the parent. Params
// of more than 256 KiB become an artifact of the task, and its handler sees the value.
//
// Codes: [CodeQueueFull], [CodeTooLarge] for params that are too large for an artifact too, or where the server keeps none,
// [CodeAlreadyExists] if the idempotency key belongs to a
// different task or the unique key is taken, and [CodeNotFound] for a task in After or Inputs. After [CodeUnavailable],
// [CodeDeadlineExceeded] and [CodeCancelled] the task may exist.
func (c *Client) Submit(ctx context.Context, task NewTask, options ...SubmitOption) (*Submitted, error) {
	request, err := task.singleMessage(ctx, c.agentID)
	if err != nil {
		return nil, err
	}
	submit := func() (*taskyardv1.SubmitTaskResponse, error) {
		return c.submitAnySize(ctx, request, task.IdempotencyKey != "")
	}
	var answer *taskyardv1.SubmitTaskResponse
	if submitOptionsOf(options).waitsWhenFull {
		answer, err = untilRoom(ctx, submit)
	} else {
		answer, err = submit()
	}
	if err != nil {
		return nil, err
	}
	return &Submitted{
		ID: answer.GetTaskId(), TaskID: answer.GetTaskId(), State: stateOf(answer.GetState()),
		Position: int(answer.GetPosition()), CreatedAt: timeOf(answer.GetCreatedAt()), Existing: answer.GetExisting(),
	}, nil
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
// is [context.DeadlineExceeded] or [context.Canceled]. A result that is an artifact, since it is too large for a message, is
// fetched: it is the Output. Codes: [CodeNotFound]; the error also is [ErrTaskLost] if the
// server knew the task when the wait began.
func (c *Client) Wait(ctx context.Context, taskID string) (*Task, error) {
	return c.wait(ctx, taskID, false)
}

func (c *Client) wait(ctx context.Context, taskID string, isKnown bool) (*Task, error) {
	for ; ; isKnown = true {
		wait := maxWaitPerCall
		if deadline, ok := ctx.Deadline(); ok {
			wait = max(0, min(wait, time.Until(deadline)))
		}
		waitMs := toMillis(wait)
		answer, err := c.tasks.WaitTask(ctx, &taskyardv1.WaitTaskRequest{TaskId: taskID, TimeoutMs: &waitMs})
		if isKnown && CodeOf(err) == CodeNotFound {
			return nil, taskLost(taskID, err)
		}
		if err != nil {
			return nil, err
		}
		if answer.GetEnded() {
			return c.withResult(ctx, taskOf(answer.GetTask()))
		}
		if err := ctx.Err(); err != nil {
			return nil, ErrorFrom(err)
		}
	}
}

// ListOptions selects the tasks of [Client.List]. A zero field does not filter.
type ListOptions struct {
	// AgentID selects the tasks of one agent.
	AgentID string
	// Deprecated: use AgentID.
	Agent string
	// ParentID selects the tasks that the work of one task has submitted.
	ParentID string
	// States selects the tasks in one of these states. "live" means all that have not ended.
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
	// Labels selects the tasks with labels that match: requirements separated by commas, such as
	// "site=shop,env!=dev,team in (a,b),!old".
	Labels string
	// Action selects the tasks with this action.
	Action string
	// HostID selects the tasks that this host holds, or held last.
	HostID string
	// ConcurrencyKey selects the tasks with this concurrency key.
	ConcurrencyKey string
	// EndedFrom selects the tasks that ended at this time or later.
	EndedFrom time.Time
	// EndedUntil selects the tasks that ended before this time.
	EndedUntil time.Time
	// Error selects the tasks whose error holds this text, whatever its case.
	Error string
	// IDPrefix selects the tasks whose id begins with this text, 4 to 64 characters.
	IDPrefix string
	// PageSize is how many tasks one call asks for. Default and maximum: 1,000.
	PageSize uint32
}

// List iterates over the retained tasks that match all filters, in order of submission unless the options say
// otherwise. It calls the server for one page after the other. An error is the last item.
func (c *Client) List(ctx context.Context, options ListOptions) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		request := &taskyardv1.ListTasksRequest{
			AgentId: optional(cmp.Or(options.AgentID, options.Agent)), State: statesOf(options.States),
			BatchId: optional(options.BatchID), ParentId: optional(options.ParentID),
			Target: optional(options.Target), PageSize: optional(options.PageSize),
			History: optional(options.History), NewestFirst: optional(options.NewestFirst),
			CreatedFrom: timestampOf(options.CreatedFrom), CreatedUntil: timestampOf(options.CreatedUntil),
			Labels: optional(options.Labels), Action: optional(options.Action), HostId: optional(options.HostID),
			ConcurrencyKey: optional(options.ConcurrencyKey), Error: optional(options.Error),
			EndedFrom: timestampOf(options.EndedFrom), EndedUntil: timestampOf(options.EndedUntil),
			IdPrefix: optional(options.IDPrefix),
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
