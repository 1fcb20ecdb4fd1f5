// Watching tasks across broken connections (DESIGN, Watching).

package taskyard

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// quietTime is after how long a stream that says nothing is dead: a bookmark comes every 15 s.
const quietTime = 45 * time.Second

// EventKind tells what happened to a task.
type EventKind string

// The kinds of events. EventCurrent is how a task stood when the watch began, or began anew.
const (
	EventCurrent    EventKind = "current"
	EventSubmitted  EventKind = "submitted"
	EventChanged    EventKind = "changed"
	EventProgressed EventKind = "progressed"
	EventEvicted    EventKind = "evicted"
)

// Event is one thing that happened, and the task just after it, without its params.
type Event struct {
	Kind EventKind
	At   time.Time
	Task *Task
	// Previous is the state before, for EventChanged only.
	Previous State
	// Cursor has another watch go on after this event; events that the server sent together with it may come again.
	// Empty where there is no such place yet: begin anew with the current tasks.
	Cursor string
}

// WatchOptions selects what to watch; what is zero selects all.
type WatchOptions struct {
	TaskIDs []string
	BatchID string
	Agent   string
	Target  string
	States  []State
	// IncludeCurrent has the tasks told first as they stand.
	IncludeCurrent bool
	// UntilEnded ends the watch once all tasks of TaskIDs or BatchID have ended.
	UntilEnded bool
	// Cursor has the watch go on after an earlier event. Default: from now.
	Cursor string
}

// Watch goes through what happens to the tasks that match all given filters: without end unless UntilEnded was asked
// for. Leave the loop, or end the context, to close it.
//
// Broken connections are resumed without gap or repeat; where the server's log no longer reaches back so far, all tasks
// are told anew, by events of the kind EventCurrent. An error is the last thing it yields: what the server refuses, the
// context's end, or CodeUnavailable after an outage longer than the client's patience.
func (c *Client) Watch(ctx context.Context, options WatchOptions) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		w := &watch{
			client: c, outage: newOutage(c.patience), cursor: options.Cursor, telling: options.IncludeCurrent,
			told: map[string]uint64{}, yield: yield, quiet: quietTime,
			asked: &taskyardv1.WatchTasksRequest{
				TaskIds: options.TaskIDs, BatchId: optional(options.BatchID), AgentId: optional(options.Agent),
				Target: optional(options.Target), State: statesOf(options.States),
				IncludeCurrent: optional(options.IncludeCurrent), UntilEnded: optional(options.UntilEnded),
				Cursor: optional(options.Cursor),
			},
		}
		if err := w.run(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// watch is one watch, over as many streams as it takes.
type watch struct {
	client  *Client
	asked   *taskyardv1.WatchTasksRequest
	outage  *outage
	quiet   time.Duration
	yield   func(*Event, error) bool
	cursor  string
	telling bool
	// told are the current tasks that were told, by what they looked like. While they are being told there is no place
	// to resume from: after a break all come again.
	told map[string]uint64
}

// errOver says that nobody asks for more, or that all watched tasks have ended.
var errOver = errors.New("the watch is over")

func (w *watch) run(ctx context.Context) error {
	if err := malformed(w.asked); err != nil {
		return err
	}
	for {
		err := w.follow(ctx)
		if errors.Is(err, errOver) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return ErrorFrom(err)
		}
		if w.client.conn.GetState() == connectivity.Shutdown {
			return err
		}
		switch CodeOf(err) {
		case CodeCursorExpired:
			w.client.log.Info("taskyard: the watch begins anew", "error", err)
			w.cursor, w.telling = "", true
		case CodeUnavailable, CodeInternal, CodeCancelled, CodeDeadlineExceeded:
			// A server that goes away shows as any of these.
			w.client.log.Info("taskyard: the watch goes on over a new stream", "error", err)
		default:
			return err
		}
		if err := w.outage.bear(ctx, err); err != nil {
			return err
		}
	}
}

// follow yields what one stream tells, until it ends.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.client.tasks.WatchTasks(ctx, w.request())
	if err != nil {
		return errorFrom(err)
	}
	for {
		silence := time.AfterFunc(w.quiet, cancel)
		message, err := stream.Recv()
		if !silence.Stop() && err != nil {
			return unavailable("nothing was heard of the server for " + w.quiet.String())
		}
		if err != nil {
			return errorFrom(err)
		}
		if !w.tell(message) {
			return errOver
		}
		switch end := message.GetEnd(); {
		case end == nil:
			w.outage.over()
		case end.GetReason() == taskyardv1.WatchEnd_tasks_ended:
			return errOver
		case end.GetReason() == taskyardv1.WatchEnd_cursor_expired:
			return &Error{Code: CodeCursorExpired, Reason: end.GetMessage(), Details: map[string]any{}}
		default:
			return unavailable(end.GetMessage())
		}
	}
}

func (w *watch) request() *taskyardv1.WatchTasksRequest {
	request := proto.CloneOf(w.asked)
	request.Cursor, request.IncludeCurrent = nil, nil
	if w.telling {
		request.IncludeCurrent = &w.telling
	} else {
		request.Cursor = optional(w.cursor)
	}
	return request
}

// tell yields the events of a message that were not told yet, and moves the cursor. False once nobody asks for more.
func (w *watch) tell(message *taskyardv1.WatchTasksResponse) bool {
	for i, event := range message.GetEvents() {
		cursor := ""
		if event.GetKind() == taskyardv1.TaskEvent_current {
			if w.isTold(event.GetTask()) {
				continue
			}
		} else {
			w.allTold()
			if cursor = w.cursor; i == len(message.GetEvents())-1 {
				cursor = message.GetCursor()
			}
		}
		told := &Event{
			Kind: EventKind(word(event.GetKind())), At: timeOf(event.GetOccurredAt()), Task: taskOf(event.GetTask()),
			Cursor: cursor,
		}
		if event.PreviousState != nil {
			told.Previous = stateOf(event.GetPreviousState())
		}
		if !w.yield(told, nil) {
			return false
		}
	}
	if message.GetBookmark() {
		w.allTold()
	}
	if message.GetCursor() != "" {
		w.cursor = message.GetCursor()
	}
	return true
}

// isTold answers whether a current task was told already as it stands, before the stream broke.
func (w *watch) isTold(task *taskyardv1.Task) bool {
	look := fnv.New64a()
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(task)
	if err != nil {
		return false
	}
	_, _ = look.Write(text)
	before, known := w.told[task.GetTaskId()]
	w.told[task.GetTaskId()] = look.Sum64()
	return known && before == look.Sum64()
}

// allTold says that the current tasks are through: from here on the cursor is a place to resume from.
func (w *watch) allTold() {
	w.telling = false
	clear(w.told)
}
