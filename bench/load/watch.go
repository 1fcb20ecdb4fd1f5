package main

import (
	"context"
	"sync/atomic"
	"time"
)

// runWatch submits messages of -batch tasks, of which -watchers watchers are told. Its operations are events delivered,
// and its latencies go from the newest message to each delivery. The next message is sent once the events of all but
// -inflight messages have been delivered, so that with one the events of each message stay together.
func runWatch(ctx context.Context, o *Options) (*Result, error) {
	return watch(ctx, o, false, o.Batch*o.Watchers)
}

// runWatchAgents is runWatch with watchers of one agent each, and every task of an agent that one of them watches.
func runWatchAgents(ctx context.Context, o *Options) (*Result, error) {
	watched := *o
	watched.Agents = o.Watchers
	return watch(ctx, &watched, true, o.Batch)
}

func watch(ctx context.Context, o *Options, filtered bool, deliveries int) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		meter, room := &Meter{serverPID: o.ServerPID}, newRoom(o.Inflight*deliveries)
		var sent atomic.Int64
		err := startWatchers(w, o, filtered, func(events int) {
			meter.Done(events, time.Duration(time.Now().UnixNano()-sent.Load()))
			room.free(events)
		})
		if err != nil {
			return nil, err
		}
		one := *o
		one.Submitters, one.Connections, one.Inflight = 1, 1, unansweredSubmits
		submissions, err := openSubmissions(w, meter, &one)
		if err != nil {
			return nil, err
		}
		for _, one := range submissions {
			one.before = func(ctx context.Context, _ int) error {
				if err := room.take(ctx, deliveries); err != nil {
					return err
				}
				sent.Store(time.Now().UnixNano())
				return nil
			}
			w.start(func(ctx context.Context) error { return one.run(ctx, 0) })
		}
		return meter.Window(w.ctx, o)
	})
}

// unansweredSubmits is more than there ever are: it is the events that hold the next message back.
const unansweredSubmits = 1_000
