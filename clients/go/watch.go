// Watches of tasks that go on across broken connections (docs/rules.md, Watching).

package taskyard

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// EventKind tells what happened to a task.
type EventKind string

// The kinds of events.
const (
	// EventCurrent is the state of a task when the watch began, or began again.
	EventCurrent EventKind = "current"
	// EventSubmitted means that the task was submitted, and accepted or rejected.
	EventSubmitted EventKind = "submitted"
	// EventChanged means that the task changed its state, or its next attempt began.
	EventChanged EventKind = "changed"
	// EventProgressed means that the host reported progress or tokens.
	EventProgressed EventKind = "progressed"
	// EventEvicted means that the task is no longer retained.
	EventEvicted EventKind = "evicted"
	// EventReprioritized means that the task got another priority.
	EventReprioritized EventKind = "reprioritized"
)

// Event is one thing that happened to a task.
type Event struct {
	// Kind tells what happened.
	Kind EventKind
	// At is when it happened.
	At time.Time
	// Task is the task just after the event, without its params.
	Task *Task
	// PreviousState is the state before the event, for [EventChanged] only.
	PreviousState State
	// Deprecated: use PreviousState.
	Previous State
	// Cursor lets another watch begin after this event, see WatchOptions.Cursor. Events that the server sent in the
	// same message may be repeated. It is "" while the current tasks are sent: begin with those again.
	Cursor string
}

// WatchOptions selects the tasks of [Client.Watch]. A zero filter does not filter.
type WatchOptions struct {
	// TaskIDs selects these tasks, at most 10,000.
	TaskIDs []string
	// BatchID selects the tasks of one batch.
	BatchID string
	// AgentID selects the tasks of one agent.
	AgentID string
	// Deprecated: use AgentID.
	Agent string
	// Target selects the tasks of one target.
	Target string
	// States selects the events that leave a task in one of these states.
	States []State
	// IncludeCurrent begins with the present state of the tasks, as events of the kind [EventCurrent]. Default: false.
	IncludeCurrent bool
	// UntilEnded ends the watch once all tasks of TaskIDs or BatchID, one of which is required, have ended or are no
	// longer retained. Each task is shown as ended once, and not again after that: a failed task may still be resumed,
	// resolved or, where it holds up its target, cancelled. Default: false, which shows that too.
	UntilEnded bool
	// OnGap is called with the reason when the watch begins again because the server's log no longer has the next events:
	// what happened in between is not shown, or the server was started anew and no longer has the tasks. Default: none.
	OnGap func(reason string)
	// Cursor begins after an event of an earlier watch with the same filters. Not together with IncludeCurrent.
	// Default: the watch begins now.
	Cursor string
}

// Watch iterates over the events of the tasks that match all filters. It does not end by itself without UntilEnded.
// Leave the loop, or end the context, to close it.
//
// A watch is resumed across broken connections without gap or repeat. If the server's log no longer has the next
// events, the watch begins again with the present state of all tasks, as events of the kind [EventCurrent]. An error is
// the last item: a refusal of the server, the end of the context, or [CodeUnavailable] after an outage longer than the
// patience of the client, see [WithPatience].
func (c *Client) Watch(ctx context.Context, options WatchOptions) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		w := &watch{
			streams: newStreams(c, "the watch"), cursor: options.Cursor, sendsCurrent: options.IncludeCurrent,
			current: map[string]uint64{}, yield: yield, onGap: options.OnGap,
			filter: &taskyardv1.WatchTasksRequest{
				TaskIds: options.TaskIDs, BatchId: optional(options.BatchID), AgentId: optional(cmp.Or(options.AgentID, options.Agent)),
				Target: optional(options.Target), State: statesOf(options.States),
				IncludeCurrent: optional(options.IncludeCurrent), UntilEnded: optional(options.UntilEnded),
				Cursor: optional(options.Cursor),
			},
		}
		if options.UntilEnded {
			w.ended = map[string]bool{}
		}
		if err := w.run(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// watch is one watch, over all of its streams.
type watch struct {
	*streams
	filter *taskyardv1.WatchTasksRequest
	yield  func(*Event, error) bool
	cursor string
	// sendsCurrent is true while the server sends the current tasks. There is no cursor to resume from in between:
	// after a break the server sends all of them again.
	sendsCurrent bool
	// current has a hash of each current task that was yielded.
	current map[string]uint64
	// ended has the tasks that were shown as ended, of a watch that ends with them; nil for others.
	ended map[string]bool
	onGap func(string)
}

// errWatchEnded means that the loop was left, or that all watched tasks have ended.
var errWatchEnded = errors.New("the watch is over")

func (w *watch) run(ctx context.Context) error {
	if err := encodingError(w.filter); err != nil {
		return err
	}
	for {
		err := w.readStream(ctx)
		if errors.Is(err, errWatchEnded) {
			return nil
		}
		if CodeOf(err) == CodeCursorExpired && ctx.Err() == nil {
			w.client.log.Info("taskyard: the watch begins anew", "error", err)
			w.cursor, w.sendsCurrent = "", true
			if w.onGap != nil {
				w.onGap(errorFrom(err).Reason)
			}
		}
		if err := w.waitForNext(ctx, err); err != nil {
			return err
		}
	}
}

// readStream yields the events of one stream until it ends.
func (w *watch) readStream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.client.tasks.WatchTasks(ctx, w.request())
	if err != nil {
		return errorFrom(err)
	}
	for {
		message, err := receiveFrom(stream, cancel, w.silenceTimeout)
		if err != nil {
			return errorFrom(err)
		}
		if !w.received(message) {
			return errWatchEnded
		}
		switch end := message.GetEnd(); {
		case end == nil:
			w.works()
		case end.GetReason() == taskyardv1.WatchEnd_tasks_ended:
			return errWatchEnded
		case end.GetReason() == taskyardv1.WatchEnd_cursor_expired:
			return &Error{Code: CodeCursorExpired, Reason: end.GetMessage(), Details: map[string]any{}}
		default:
			return unavailable(end.GetMessage())
		}
	}
}

func (w *watch) request() *taskyardv1.WatchTasksRequest {
	request := proto.CloneOf(w.filter)
	request.Cursor, request.IncludeCurrent = nil, nil
	if w.sendsCurrent {
		request.IncludeCurrent = &w.sendsCurrent
	} else {
		request.Cursor = optional(w.cursor)
	}
	return request
}

// received yields the events of a message that were not yielded before, and moves the cursor. It returns false if the
// loop was left.
func (w *watch) received(message *taskyardv1.WatchTasksResponse) bool {
	for i, event := range message.GetEvents() {
		cursor := ""
		if event.GetKind() == taskyardv1.TaskEvent_current {
			if w.wasYielded(event.GetTask()) {
				continue
			}
		} else {
			w.endOfCurrent()
			if cursor = w.cursor; i == len(message.GetEvents())-1 {
				cursor = message.GetCursor()
			}
		}
		yielded := &Event{
			Kind: EventKind(enumName(event.GetKind())), At: timeOf(event.GetOccurredAt()), Task: taskOf(event.GetTask()),
			Cursor: cursor,
		}
		if event.PreviousState != nil {
			yielded.PreviousState = stateOf(event.GetPreviousState())
			yielded.Previous = yielded.PreviousState
		}
		if w.hasEnded(yielded.Task) {
			continue
		}
		if !w.yield(yielded, nil) {
			return false
		}
	}
	if message.GetBookmark() {
		w.endOfCurrent()
	}
	if message.GetCursor() != "" {
		w.cursor = message.GetCursor()
	}
	return true
}

// hasEnded reports whether a task was shown as ended before, in a watch that ends with its tasks, and notes whether it is
// now.
func (w *watch) hasEnded(task *Task) bool {
	before := w.ended[task.ID]
	if w.ended != nil && task.State.Ended() {
		w.ended[task.ID] = true
	}
	return before
}

// wasYielded reports whether a current task was yielded in the same state before the stream broke.
func (w *watch) wasYielded(task *taskyardv1.Task) bool {
	hash := fnv.New64a()
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(task)
	if err != nil {
		return false
	}
	_, _ = hash.Write(encoded)
	before, known := w.current[task.GetTaskId()]
	w.current[task.GetTaskId()] = hash.Sum64()
	return known && before == hash.Sum64()
}

// endOfCurrent handles that all current tasks were sent: from now on the cursor is a position to resume from.
func (w *watch) endOfCurrent() {
	w.sendsCurrent = false
	clear(w.current)
}
