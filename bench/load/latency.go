// The load that measures the time from a submission to the hand-out.

package main

import (
	"context"
	"fmt"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// handOutTimeout is how long the hand-out of a task may take. It ends a load that hangs.
const handOutTimeout = 20 * time.Second

// runLatency submits tasks by SubmitTask at -rate, one at a time, to a host in this process. The operations are tasks.
// The latencies are from just before the call until the host has the task, whether or not the call was answered by
// then.
func runLatency(ctx context.Context, o *Options) (*Result, error) {
	// An action of its own, since an earlier run may have left tasks behind.
	options := *o
	options.Action = fmt.Sprintf("%s-%d", o.Action, time.Now().UnixNano())
	o = &options
	return during(ctx, func(w *work) (*Result, error) {
		connections, err := w.dial(o, 2)
		if err != nil {
			return nil, err
		}
		host, err := connectHost(w.ctx, connections[0], "host-"+o.Action, o)
		if err != nil {
			return nil, err
		}
		meter := &Meter{serverPID: o.ServerPID}
		arrived, ended := make(chan time.Time, 1), make(chan struct{}, 1)
		host.assigned = func(at time.Time, _ []*taskyardv1.Assignment) { arrived <- at }
		host.answered = func(_, refused int, reason string, _ time.Duration) {
			meter.Failed(refused, reason)
			ended <- struct{}{}
		}
		w.start(host.run)
		if err := host.giveCredit(o.Slots); err != nil {
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

// submitToHost returns how long it took until the host had a task. It returns when the task has ended.
func submitToHost(
	ctx context.Context, stub taskyardv1.TaskServiceClient, task *taskyardv1.SubmitTaskRequest,
	arrived <-chan time.Time, ended <-chan struct{},
) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handOutTimeout, fmt.Errorf("the task was not at its host in %s", handOutTimeout))
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
