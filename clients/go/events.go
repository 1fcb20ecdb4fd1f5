// Events: who sends one to a name lets all tasks go on that wait for it (docs/rules.md, Events).

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// ErrEventTimeout is what the error of [RunningTask.Event] is, for [errors.Is], if no event has come in time.
var ErrEventTimeout = errors.New("no event has come in time")

var eventPattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,255}$`)

// EventOption is an option of [RunningTask.Event].
type EventOption func(*taskyardv1.NewWait) error

// EventAs sets the name of the wait, which no other wait of the task for an event has. Default: that of the event.
func EventAs(name string) EventOption {
	return func(wait *taskyardv1.NewWait) error {
		wait.Name = name
		return nil
	}
}

// EventWithin sets how long to wait at most, up to 366 days. Default: as long as it takes.
func EventWithin(limit time.Duration) EventOption {
	return func(wait *taskyardv1.NewWait) error { return setTimeout(wait, limit) }
}

// Event waits for an event without a lease and without a slot, as [RunningTask.Ask] waits for an answer. It is the
// oldest one of its name that the task has not had yet, of those that live, else the next one that is sent, see
// [Client.SendEvent]. The name has 1 to 256 letters, digits, ".", "_" or "-".
//
// It returns the payload: nil, bool, float64, string, []any or map[string]any. The error is [ErrEventTimeout] if none
// has come in time; others are those of Ask.
func (t *RunningTask) Event(ctx context.Context, event string, options ...EventOption) (any, error) {
	awaited := &taskyardv1.NewWait_Event{Event: &taskyardv1.EventWait{Name: event}}
	wait := &taskyardv1.NewWait{Name: event, Awaited: awaited}
	for _, option := range options {
		if err := option(wait); err != nil {
			return nil, waitFailed("event", wait.Name, err.Error())
		}
	}
	if !eventPattern.MatchString(event) {
		return nil, waitFailed("event", event, "a name has 1 to 256 letters, digits, `.`, `_` or `-`, and no `.` first")
	}
	if err := checkWait("event", wait.Name, 0); err != nil {
		return nil, err
	}
	step, err := t.waits.await(ctx, "event", wait)
	if step.GetExpired() {
		return nil, fmt.Errorf("event %q: %w", wait.Name, ErrEventTimeout)
	}
	return anyOf(step.GetResult()), err
}

// SendEventOption is an option of [Client.SendEvent].
type SendEventOption func(*taskyardv1.SendEventRequest)

// EventLife sets for how long those get the event, too, that begin to wait later, up to a day. Default: a minute.
func EventLife(life time.Duration) SendEventOption {
	return func(request *taskyardv1.SendEventRequest) {
		secs := life.Seconds()
		request.LifeSecs = &secs
	}
}

// EventID sets the id: within the life of the event the same id of the same name is the same event. Default: one is
// made.
func EventID(id string) SendEventOption {
	return func(request *taskyardv1.SendEventRequest) { request.EventId = &id }
}

// SendEvent sends an event to all tasks that wait for its name, see [RunningTask.Event], and returns how many waited
// when it came. The payload is anything that encoding/json encodes, up to 64 KiB; nil is null.
//
// Codes: [CodeBadRequest] for a name, an id or a life that cannot be, [CodeAlreadyExists] if the id is that of an event
// with another payload, [CodeTooLarge], and [CodeQueueFull] if too many events are kept.
func (c *Client) SendEvent(ctx context.Context, name string, payload any, options ...SendEventOption) (int, error) {
	value, err := orNull("payload", payload)
	if err != nil {
		return 0, badRequest(err.Error())
	}
	id := newKey() // By which it can be repeated.
	request := &taskyardv1.SendEventRequest{Name: name, Payload: value, EventId: &id}
	for _, option := range options {
		option(request)
	}
	var sent *taskyardv1.SendEventResponse
	_, err = retryWhileUnavailable(ctx, c.conn, c.patience, func(ctx context.Context) (err error) {
		sent, err = taskyardv1.NewEventServiceClient(c.conn).SendEvent(ctx, request)
		return err
	})
	return int(sent.GetWaiting()), err
}
