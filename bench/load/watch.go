// Loads of watchers: how fast events reach them.

package main

import (
	"context"
	"sync/atomic"
	"time"
)

// runWatch submits messages of -batch tasks, and -watchers watchers get their events. The operations are delivered
// events. The latencies are from the newest message to each delivery. A message is sent when the events of fewer than
// -inflight messages are undelivered; with an -inflight of 1 the events of each message stay together.
func runWatch(ctx context.Context, o *Options) (*Result, error) {
	return watch(ctx, o, false, o.Batch*o.Watchers)
}

// runWatchAgents is runWatch with watchers of one agent each. Every task is of an agent that one of them watches.
func runWatchAgents(ctx context.Context, o *Options) (*Result, error) {
	watched := *o
	watched.Agents = o.Watchers
	return watch(ctx, &watched, true, o.Batch)
}

func watch(ctx context.Context, o *Options, filtered bool, deliveries int) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		meter, room := &Meter{serverPID: o.ServerPID}, newRoom(o.Inflight*deliveries)
		var sentAt atomic.Int64
		err := startWatchers(w, o, filtered, func(events int) {
			meter.Done(events, time.Duration(time.Now().UnixNano()-sentAt.Load()))
			room.free(events)
		})
		if err != nil {
			return nil, err
		}
		options := *o
		options.Submitters, options.Connections, options.Inflight = 1, 1, maxUnansweredSubmits
		submissions, err := openSubmissions(w, meter, &options)
		if err != nil {
			return nil, err
		}
		for _, submission := range submissions {
			submission.before = func(ctx context.Context, _ int) error {
				if err := room.take(ctx, deliveries); err != nil {
					return err
				}
				sentAt.Store(time.Now().UnixNano())
				return nil
			}
			w.start(func(ctx context.Context) error { return submission.run(ctx, 0) })
		}
		return meter.Window(w.ctx, o)
	})
}

// maxUnansweredSubmits is more messages than there ever are without an answer: undelivered events limit them first.
const maxUnansweredSubmits = 1_000
