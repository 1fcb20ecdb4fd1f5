package main

import (
	"context"
	"fmt"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// answerTime is how long a task may take to its host. It is not a time to measure, but the end of a load that hangs.
const answerTime = 20 * time.Second

// runLatency submits tasks by SubmitTask at -rate, one at a time, to a host in this process. Its operations are tasks,
// and its latencies go from just before the call until the host has the task, be the call answered before or after.
func runLatency(ctx context.Context, o *Options) (*Result, error) {
	// What an earlier run left behind must not be taken for a task of this one.
	own := *o
	own.Action = fmt.Sprintf("%s-%d", o.Action, time.Now().UnixNano())
	o = &own
	return during(ctx, func(w *work) (*Result, error) {
		connections, err := w.dial(o.Address, 2)
		if err != nil {
			return nil, err
		}
		one, err := connect(w.ctx, connections[0], "host-"+o.Action, o)
		if err != nil {
			return nil, err
		}
		meter := &Meter{serverPID: o.ServerPID}
		arrived, ended := make(chan time.Time, 1), make(chan struct{}, 1)
		one.assigned = func(at time.Time) { arrived <- at }
		one.done = func(_, refused int, why string, _ time.Duration) {
			meter.Failed(refused, why)
			ended <- struct{}{}
		}
		w.start(one.run)
		if err := one.credit(o.Slots); err != nil {
			return nil, err
		}
		w.start(func(ctx context.Context) error {
			stub, tasks, pace := taskyardv1.NewTaskServiceClient(connections[1]), newTasks(o), newPace(o.Rate, 0)
			for pace.wait(ctx) == nil {
				took, err := submitToHost(ctx, stub, tasks.One(), arrived, ended)
				if ctx.Err() == nil && err != nil {
					return err
				}
				meter.Done(1, took)
			}
			return nil
		})
		return meter.Window(w.ctx, o)
	})
}

// submitToHost answers how long a task took to its host, once the host has ended it.
func submitToHost(
	ctx context.Context, stub taskyardv1.TaskServiceClient, task *taskyardv1.SubmitTaskRequest,
	arrived <-chan time.Time, ended <-chan struct{},
) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("the task was not at its host in %s", answerTime))
	defer cancel()
	begin := time.Now()
	if _, err := stub.SubmitTask(ctx, task); err != nil {
		return 0, err
	}
	at, err := next(ctx, arrived)
	if err != nil {
		return 0, err
	}
	_, err = next(ctx, ended)
	return at.Sub(begin), err
}

func next[T any](ctx context.Context, from <-chan T) (T, error) {
	select {
	case got := <-from:
		return got, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
