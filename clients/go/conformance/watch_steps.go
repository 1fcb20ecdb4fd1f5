// The operations of a watch.

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

// openWatch is a watch that is read by a goroutine of its own, so that a step can limit how long it waits.
type openWatch struct {
	events chan *taskyard.Event
	err    error // Valid once events is closed.
	close  context.CancelFunc
}

func watch(_ context.Context, p *program, id string, with arguments) (outcome, error) {
	options := taskyard.WatchOptions{
		BatchID: with.Batch, AgentID: with.Agent, IncludeCurrent: with.IncludeCurrent, UntilEnded: with.UntilEnded,
		Cursor: with.Cursor,
	}
	if with.Task != "" {
		options.TaskIDs = []string{with.Task}
	}
	// The watch may outlive its step.
	ctx, cancel := context.WithCancel(context.Background())
	w := &openWatch{events: make(chan *taskyard.Event), close: cancel}
	go func() {
		defer close(w.events)
		for event, err := range p.client.Watch(ctx, options) {
			if err != nil {
				w.err = err
				return
			}
			select {
			case w.events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	p.watches[id] = w
	return w.read(p, id, with)
}

func watchMore(_ context.Context, p *program, _ string, with arguments) (outcome, error) {
	w := p.watches[with.Watch]
	if w == nil {
		return nil, fmt.Errorf("no watch %q is open", with.Watch)
	}
	return w.read(p, with.Watch, with)
}

// readOutput follows the output of a task to its end.
func readOutput(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, milliseconds(with.Ms))
	defer cancel()
	chunks := []string{}
	for chunk, err := range p.client.Output(ctx, with.Task, taskyard.OutputOptions{
		After: with.AfterChunk, Channels: with.Channels, Follow: true,
	}) {
		if err != nil {
			return nil, err
		}
		said := cmp.Or(chunk.Text, string(chunk.Binary))
		if chunk.IsJSON {
			text, err := json.Marshal(chunk.JSON)
			if err != nil {
				return nil, err
			}
			said = string(text)
		}
		chunks = append(chunks, fmt.Sprintf("%d %s %s", chunk.Sequence, chunk.Channel, said))
	}
	return outcome{"chunks": chunks}, nil
}

// read waits for as many events as requested, or for all if the count is 0, until the time is over.
func (w *openWatch) read(p *program, id string, with arguments) (outcome, error) {
	found := outcome{"cursor": nil, "ended": false}
	events := []string{}
	timeout := time.After(milliseconds(with.Ms))
	for over := false; !over && (with.Count == 0 || len(events) < with.Count); {
		select {
		case event, ok := <-w.events:
			if over = !ok; over {
				if w.err != nil {
					return nil, w.err
				}
				found["ended"] = true
				break
			}
			events = append(events, fmt.Sprintf("%s %s", event.Kind, event.Task.State))
			found["cursor"] = absent(event.Cursor)
		case <-timeout:
			over = true
		}
	}
	if found["events"] = events; with.Keep {
		found["watch"] = id
	} else {
		w.close()
		delete(p.watches, id)
	}
	return found, nil
}
