// The load that measures the time from when a task should be submitted to its hand-out, whatever the tasks before it took.

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// dueLabel holds when its task was due, in nanoseconds of this process.
const dueLabel = "due"

// runSteady submits tasks by SubmitTask at -rate, each when it is due, whether or not those before it have ended. A host
// in this process has -slots slots and completes them. The operations are tasks; the latencies are from when a task was
// due until its host has it, so that what a pause of the server holds up counts as well, and not only what came first.
func runSteady(ctx context.Context, o *Options) (*Result, error) {
	options := *o
	options.Action = fmt.Sprintf("%s-%d", o.Action, time.Now().UnixNano())
	o = &options
	return during(ctx, func(w *work) (*Result, error) {
		connections, err := w.dial(o, o.Connections+1)
		if err != nil {
			return nil, err
		}
		meter, begin := &Meter{serverPID: o.ServerPID}, time.Now()
		host, err := connectHost(w.ctx, connections[0], "host-"+o.Action, o)
		if err != nil {
			return nil, err
		}
		host.assigned = func(at time.Time, assignments []*taskyardv1.Assignment) {
			for _, assignment := range assignments {
				due, err := strconv.ParseInt(assignment.GetTask().GetLabels()[dueLabel], 10, 64)
				if err != nil {
					meter.Failed(1, err.Error())
					continue
				}
				meter.Done(1, at.Sub(begin)-time.Duration(due))
			}
		}
		host.answered = func(_, refused int, reason string, _ time.Duration) { meter.Failed(refused, reason) }
		w.start(host.run)
		if err := host.giveCredit(o.Slots); err != nil {
			return nil, err
		}
		w.start(func(ctx context.Context) error { return submitWhenDue(ctx, w, o, meter, connections[1:], begin) })
		return meter.Window(w.ctx, o)
	})
}

// submitWhenDue submits tasks over the connections in turn, each in a goroutine of its own.
func submitWhenDue(
	ctx context.Context, w *work, o *Options, meter *Meter, connections []*grpc.ClientConn, begin time.Time,
) error {
	tasks := newTasks(o)
	pace, err := newOpenPace(o.Rate, 0)
	if err != nil {
		return err
	}
	defer pace.close()
	for number := 0; pace.wait(ctx) == nil; number++ {
		task, stub := tasks.One(), taskyardv1.NewTaskServiceClient(connections[number%len(connections)])
		task.Labels[dueLabel] = strconv.FormatInt(int64(pace.due().Sub(begin)), 10)
		w.start(func(ctx context.Context) error {
			if _, err := stub.SubmitTask(ctx, task); err != nil && ctx.Err() == nil {
				meter.Failed(1, err.Error())
			}
			return nil
		})
	}
	return nil
}

// runSteadyCalls makes unary calls at -rate, each when it is due, and measures from then to its answer.
func runSteadyCalls(ctx context.Context, o *Options) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		connections, err := w.dial(o, o.Connections)
		if err != nil {
			return nil, err
		}
		meter := &Meter{serverPID: o.ServerPID}
		w.start(func(ctx context.Context) error {
			tasks := newTasks(o)
			pace, err := newOpenPace(o.Rate, 0)
			if err != nil {
				return err
			}
			defer pace.close()
			for number := 0; pace.wait(ctx) == nil; number++ {
				due, task, stub := pace.due(), tasks.One(), taskyardv1.NewTaskServiceClient(connections[number%len(connections)])
				w.start(func(ctx context.Context) error {
					if _, err := stub.SubmitTask(ctx, task); err == nil {
						meter.Done(1, time.Since(due))
					} else if ctx.Err() == nil {
						meter.Failed(1, err.Error())
					}
					return nil
				})
			}
			return nil
		})
		return meter.Window(w.ctx, o)
	})
}
