// The handlers that run on a host, and what their ends mean for their tasks.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// runningHandler is a handler that runs.
type runningHandler struct {
	task   *RunningTask
	cancel context.CancelCauseFunc
}

// begin runs the handlers of these tasks. The lock is held.
func (r *hostRun) begin(assignments []*taskyardv1.Assignment) {
	for _, assignment := range assignments {
		task := newRunningTask(assignment, r.reportProgress)
		ctx, cancel := context.WithCancelCause(r.handlersContext)
		task.emit = func(chunk *taskyardv1.NewChunk) error { return r.emit(ctx, task.key(), chunk) }
		task.flush = func(call context.Context) error { return r.flush(ctx, call, task.key()) }
		task.held = newHeldArtifacts(r.host.client, r.host.id, task.key(), task.Artifacts)
		task.steps = &runSteps{
			task: task, maxPayloadBytes: r.maxPayloadBytes, calls: taskyardv1.NewStepServiceClient(r.host.client.conn),
		}
		task.waits = &runWaits{steps: task.steps}
		r.handlers[task.key()] = &runningHandler{task, cancel}
		r.runningHandlers.Go(func() {
			defer cancel(nil)
			// This stays the outcome if the handler ends its goroutine instead of returning.
			outcome := task.failed(&ActionFailed{Reason: "the handler ended its goroutine"}, "")
			defer func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.handlers, task.key())
				r.session.handlerReturned(task.key(), outcome)
				r.wake()
			}()
			outcome = r.handle(ctx, task)
		})
	}
}

// stop cancels the handlers of these leases. The lock is held.
func (r *hostRun) stop(keys []leaseKey, cause *StopError) {
	for _, key := range keys {
		if handler := r.handlers[key]; handler != nil {
			handler.cancel(cause)
		}
	}
}

// tokensUsed returns how many tokens the handler of a lease stated last, nil if it stated none. The lock is held.
func (r *hostRun) tokensUsed(key leaseKey) *uint32 {
	if handler := r.handlers[key]; handler != nil {
		return handler.task.tokens.Load()
	}
	return nil
}

func (r *hostRun) reportProgress(report *taskyardv1.Report) {
	if err := encodingError(report); err != nil {
		// Written to the stream, it would break it for all tasks, and the next streams too.
		r.log.Warn("taskyard: progress cannot be reported", "task", report.GetTaskId(), "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session.progressReported(report)
	r.wake()
}

// handle runs a handler and returns the report of its outcome, nil if it was stopped before it had one. A panic fails
// its task only, also one of the result's or the error's own methods.
func (r *hostRun) handle(ctx context.Context, task *RunningTask) (outcome *taskyardv1.Report) {
	defer func() {
		if value := recover(); value != nil {
			stack := stackOfPanic(debug.Stack())
			r.log.Error("taskyard: handler panicked", "task", task.ID, "action", task.Action, "panic", value, "stack", stack)
			failure := &ActionFailed{Reason: fmt.Sprintf("panic: %v", value)}
			if task.waits.isParked() {
				outcome = r.park(ctx, task, failure)
			} else {
				outcome = task.failed(failure, stack)
			}
		}
	}()
	handler := r.host.handler(task.Action)
	if handler == nil {
		reason := fmt.Sprintf("this host has no action %q", task.Action)
		return task.failed(&ActionFailed{Reason: reason, Code: "unknown_action"}, "")
	}
	if err := task.fetchParams(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return task.failed(&ActionFailed{Reason: "the params cannot be fetched: " + err.Error(), Code: "bad_input"}, "")
	}
	if err := task.fetchInputs(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return task.failed(&ActionFailed{Reason: err.Error(), Code: "bad_input"}, "")
	}
	result, err := handler(withCurrentTask(ctx, task), task)
	if task.waits.isParked() {
		return r.park(ctx, task, err)
	}
	if err == nil {
		return r.shrink(ctx, task, task.completed(result))
	}
	if ctx.Err() != nil {
		return nil
	}
	failure, ok := errors.AsType[*ActionFailed](err)
	if !ok {
		failure = &ActionFailed{Reason: err.Error()}
	}
	outcome = task.failed(failure, tracebackOf(err))
	r.log.Info("taskyard: task failed", "task", task.ID, "action", task.Action, "error", outcome.GetFailed().GetError())
	return outcome
}
