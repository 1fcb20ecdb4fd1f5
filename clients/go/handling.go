// Handlers at work: what their end means for their tasks.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// runningHandler is a handler at work.
type runningHandler struct {
	task   *RunningTask
	cancel context.CancelCauseFunc
}

// begin runs these tasks. The lock is held.
func (r *hostRun) begin(assignments []*taskyardv1.Assignment) {
	for _, assignment := range assignments {
		task := newRunningTask(assignment, r.progressed)
		ctx, cancel := context.WithCancelCause(r.handlersContext)
		r.handlers[task.key()] = &runningHandler{task, cancel}
		r.working.Go(func() {
			defer cancel(nil)
			// What stands if the handler ends its goroutine instead of returning.
			final := task.failed(&TaskFailure{Reason: "the handler ended its goroutine"})
			defer func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.handlers, task.key())
				r.session.ended(task.key(), final)
				r.wake()
			}()
			final = r.work(ctx, task)
		})
	}
}

// stop cancels the handlers of these leases. The lock is held.
func (r *hostRun) stop(keys []leaseKey, why *StopError) {
	for _, key := range keys {
		if handler := r.handlers[key]; handler != nil {
			handler.cancel(why)
		}
	}
}

// tokensUsed returns the tokens that the handler of a lease stated last, nil if it stated none. The lock is held.
func (r *hostRun) tokensUsed(key leaseKey) *uint32 {
	if handler := r.handlers[key]; handler != nil {
		return handler.task.tokens.Load()
	}
	return nil
}

func (r *hostRun) progressed(report *taskyardv1.Report) {
	if err := malformed(report); err != nil {
		// It would break the stream of all tasks, and each one after it.
		r.log.Warn("taskyard: progress cannot be reported", "task", report.GetTaskId(), "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session.progressed(report)
	r.wake()
}

// work runs a handler. It answers the report on its outcome, nil if it was stopped before it had one. A panic, be it of
// the handler's result or error, ends its task only.
func (r *hostRun) work(ctx context.Context, task *RunningTask) (final *taskyardv1.Report) {
	defer func() {
		if what := recover(); what != nil {
			r.log.Error("taskyard: handler panicked", "task", task.ID, "panic", what, "stack", string(debug.Stack()))
			final = task.failed(&TaskFailure{Reason: fmt.Sprintf("panic: %v", what)})
		}
	}()
	handler := r.host.handler(task.Action)
	if handler == nil {
		reason := fmt.Sprintf("this host has no action %q", task.Action)
		return task.failed(&TaskFailure{Reason: reason, Code: "unknown_action"})
	}
	result, err := handler(ctx, task)
	if err == nil {
		return task.completed(result)
	}
	if ctx.Err() != nil {
		return nil
	}
	failure, ok := errors.AsType[*TaskFailure](err)
	if !ok {
		failure = &TaskFailure{Reason: err.Error()}
	}
	report := task.failed(failure)
	r.log.Info("taskyard: task failed", "task", task.ID, "action", task.Action, "error", report.GetFailed().GetError())
	return report
}
