// Loads of whole lives of tasks: submitted over streams, handed out, completed.

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// runFlow submits tasks over streams, and hosts complete them. Each of -watchers watchers watches one agent. The
// operations are completed tasks. At most -backlog tasks are in the server at the same time.
func runFlow(ctx context.Context, o *Options) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		meter, room := &Meter{serverPID: o.ServerPID}, newRoom(o.Backlog)
		if err := startWatchers(w, o, true, func(int) {}); err != nil {
			return nil, err
		}
		if err := startHosts(w, meter, o, room.free); err != nil {
			return nil, err
		}
		submissions, err := openSubmissions(w, meter, o)
		if err != nil {
			return nil, err
		}
		for _, submission := range submissions {
			waitForPace := submission.before
			submission.before = func(ctx context.Context, tasks int) error {
				if err := waitForPace(ctx, tasks); err != nil {
					return err
				}
				return room.take(ctx, tasks)
			}
			w.start(func(ctx context.Context) error { return submission.run(ctx, 0) })
		}
		return meter.Window(w.ctx, o)
	})
}

// runHostFlow fills the queue with -tasks tasks, and then lets the hosts complete them, each with -slots slots. The
// operations are completed tasks. The window ends early when nine tenths of the tasks are completed.
func runHostFlow(ctx context.Context, o *Options) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		meter := &Meter{serverPID: o.ServerPID}
		if err := startWatchers(w, o, true, func(int) {}); err != nil {
			return nil, err
		}
		if err := fill(w, meter, o); err != nil {
			return nil, err
		}
		var completed atomic.Int64
		nearlyEmpty := make(chan struct{})
		var once sync.Once
		err := startHosts(w, meter, o, func(tasks int) {
			if completed.Add(int64(tasks)) >= int64(o.Tasks)*9/10 {
				once.Do(func() { close(nearlyEmpty) })
			}
		})
		if err != nil {
			return nil, err
		}
		return meter.WindowUntil(w.ctx, o, nearlyEmpty)
	})
}

// startHosts connects -hosts hosts, each over a connection of its own, and gives credit for their slots. The meter
// counts the completed tasks. ended is called with the number of reports in each answer.
func startHosts(w *work, meter *Meter, o *Options, ended func(tasks int)) error {
	connections, err := w.dial(o, o.Hosts)
	if err != nil {
		return err
	}
	hosts := make([]*host, 0, o.Hosts)
	for number, connection := range connections {
		host, err := connectHost(w.ctx, connection, fmt.Sprintf("host-%s-%d", o.Action, number), o)
		if err != nil {
			return err
		}
		host.answered = func(completed, refused int, reason string, took time.Duration) {
			meter.Done(completed, took)
			meter.Failed(refused, reason)
			ended(completed + refused)
		}
		hosts = append(hosts, host)
		w.start(host.run)
	}
	for _, host := range hosts {
		if err := host.giveCredit(o.Slots); err != nil {
			return err
		}
	}
	return nil
}

// fill submits -tasks tasks over streams, with 50 in a message.
func fill(w *work, meter *Meter, o *Options) error {
	options := *o
	options.Batch, options.Inflight, options.Rate = 50, 4, 0
	submissions, err := openSubmissions(w, meter, &options)
	if err != nil {
		return err
	}
	failures := make(chan error, len(submissions))
	for _, submission := range submissions {
		go func() { failures <- submission.run(w.ctx, o.Tasks/options.Batch/len(submissions)) }()
	}
	for range submissions {
		if err := <-failures; err != nil {
			return err
		}
	}
	return context.Cause(w.ctx)
}
