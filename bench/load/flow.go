package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// runFlow submits over streams what hosts take and complete, beside watchers of one agent each. Its operations are
// tasks completed. No more than -backlog tasks are in the server at once.
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
		for _, one := range submissions {
			inTime := one.before
			one.before = func(ctx context.Context, tasks int) error {
				if err := inTime(ctx, tasks); err != nil {
					return err
				}
				return room.take(ctx, tasks)
			}
			w.start(func(ctx context.Context) error { return one.run(ctx, 0) })
		}
		return meter.Window(w.ctx, o)
	})
}

// runHostFlow fills the queue with -tasks tasks and then has the hosts empty it, each by -slots tasks at a time. Its
// operations are tasks completed. The window ends early when nine tenths of the queue are done.
func runHostFlow(ctx context.Context, o *Options) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		meter := &Meter{serverPID: o.ServerPID}
		if err := startWatchers(w, o, true, func(int) {}); err != nil {
			return nil, err
		}
		if err := fill(w, meter, o); err != nil {
			return nil, err
		}
		var done atomic.Int64
		short := make(chan struct{})
		var once sync.Once
		err := startHosts(w, meter, o, func(tasks int) {
			if done.Add(int64(tasks)) >= int64(o.Tasks)*9/10 {
				once.Do(func() { close(short) })
			}
		})
		if err != nil {
			return nil, err
		}
		return meter.WindowUntil(w.ctx, o, short)
	})
}

// startHosts connects the hosts, each over a connection of its own, and has them work with credit for their slots. What
// they complete goes to the meter and, as every report that was answered, to ended.
func startHosts(w *work, meter *Meter, o *Options, ended func(tasks int)) error {
	connections, err := w.dial(o.Address, o.Hosts)
	if err != nil {
		return err
	}
	hosts := make([]*host, 0, o.Hosts)
	for number, connection := range connections {
		one, err := connect(w.ctx, connection, fmt.Sprintf("host-%s-%d", o.Action, number), o)
		if err != nil {
			return err
		}
		one.done = func(completed, refused int, why string, took time.Duration) {
			meter.Done(completed, took)
			meter.Failed(refused, why)
			ended(completed + refused)
		}
		hosts = append(hosts, one)
		w.start(one.run)
	}
	for _, one := range hosts {
		if err := one.credit(o.Slots); err != nil {
			return err
		}
	}
	return nil
}

// fill submits -tasks tasks over streams, 50 a message.
func fill(w *work, meter *Meter, o *Options) error {
	filling := *o
	filling.Batch, filling.Inflight, filling.Rate = 50, 4, 0
	submissions, err := openSubmissions(w, meter, &filling)
	if err != nil {
		return err
	}
	failures := make(chan error, len(submissions))
	for _, one := range submissions {
		go func() { failures <- one.run(w.ctx, o.Tasks/filling.Batch/len(submissions)) }()
	}
	for range submissions {
		if err := <-failures; err != nil {
			return err
		}
	}
	return context.Cause(w.ctx)
}
