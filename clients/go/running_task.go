// A task as its handler sees it, and why the host stops a handler.

package taskyard

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// StopError tells why the host cancelled the context of a handler: it is the [context.Cause].
type StopError struct {
	// Reason is that of the server, such as cancelled, paused, deadline_exceeded or timed_out. It is lease_lost if the lease
	// ended, and draining if the host leaves.
	Reason string
	// Message is a text for people.
	Message string
}

// Error returns the message.
func (e *StopError) Error() string { return e.Message }

// RunningTask is a task for its handler, with methods to report on it. The methods may be called by many goroutines at
// once.
type RunningTask struct {
	// Task is the task as it was handed out.
	Task
	// FencingToken grows with each hand-out of any task of the namespace. Send it along with side effects, so that what
	// they change can refuse those of an earlier execution, or of an earlier task.
	FencingToken int64
	// Attempt is the number of this execution within the run of the task, from 1.
	Attempt int
	// Checkpoint is what the last attempt saved with SaveCheckpoint, or reported as the details of its progress; nil for
	// nothing.
	Checkpoint map[string]any
	// Inputs are the tasks whose results are handed on to this one, by their names; nil if there are none.
	Inputs map[string]*TaskInput

	report func(*taskyardv1.Report)
	emit   func(*taskyardv1.NewChunk) error
	flush  func(context.Context) error // Waits until what was emitted is kept.
	held   *heldArtifacts
	steps  *runSteps
	waits  *runWaits
	handed map[string]*taskyardv1.Input // The inputs as they came along.
	tokens atomic.Pointer[uint32]
	// releasesTarget is whether its target is free while it is parked.
	releasesTarget atomic.Bool

	mu       sync.Mutex
	progress *taskyardv1.Progress // As reported last; before that, only the details that were handed out.
}

func newRunningTask(assignment *taskyardv1.Assignment, report func(*taskyardv1.Report)) *RunningTask {
	task := &RunningTask{
		Task: *taskOf(assignment.GetTask()), FencingToken: keyOf(assignment.GetLease()).token, Attempt: 1,
		handed: assignment.GetInputs(), report: report, progress: &taskyardv1.Progress{Details: assignment.GetTask().GetProgress().GetDetails()},
	}
	if task.Task.Progress != nil {
		task.Checkpoint = task.Task.Progress.Details
	}
	if count := len(task.Attempts); count > 0 {
		last := task.Attempts[count-1]
		if task.Attempt = last.Number; !last.EndedAt.IsZero() {
			task.Attempt++
		}
	}
	return task
}

// DecodeCheckpoint stores the checkpoint in what v points to, as encoding/json does; without one it changes nothing. The
// error is that of encoding/json.
func (t *RunningTask) DecodeCheckpoint(v any) error { return decode(t.Checkpoint, v) }

// Progress reports how far the work is, as a fraction of 0 to 1, and a line of text; "" is none. It does not wait: the
// report is sent soon, unless a later one replaces it. What was saved with SaveCheckpoint stays.
func (t *RunningTask) Progress(fraction float64, message string) {
	t.mu.Lock()
	progress := &taskyardv1.Progress{
		Fraction: &fraction, Message: optional(message), Details: t.progress.GetDetails(),
	}
	t.mu.Unlock()
	t.ReportProgress(progress)
}

// SaveCheckpoint reports how far the work is by details for the next attempt, which has them as its Checkpoint: anything
// that encoding/json encodes as an object. It does not wait: the report is sent soon, with the fraction and the text of
// the last Progress, unless a later one replaces it. The error tells that the details are no such object.
func (t *RunningTask) SaveCheckpoint(details any) error {
	object, err := structOf("details", details)
	if err != nil {
		return err
	}
	t.mu.Lock()
	progress := proto.CloneOf(t.progress)
	t.mu.Unlock()
	progress.Details = object
	t.ReportProgress(progress)
	return nil
}

// ReportProgress is [RunningTask.Progress] with all fields of a report. The fraction is limited to 0 to 1.
func (t *RunningTask) ReportProgress(progress *taskyardv1.Progress) {
	progress = proto.CloneOf(progress)
	if progress.Fraction != nil {
		progress.Fraction = proto.Float64(min(1, max(0, progress.GetFraction())))
	}
	if progress.Message != nil {
		progress.Message = proto.String(validText(progress.GetMessage()))
	}
	t.mu.Lock()
	t.progress = progress
	t.mu.Unlock()
	report := t.newReport()
	report.Event = &taskyardv1.Report_Progress{Progress: progress}
	t.report(report)
}

// SetTokensUsed sets how many tokens of a language model this attempt has used so far. It sends nothing by itself: the
// next heartbeat and every later report have the count. Once the task is over its budget (TokenLimit) it fails, and its
// handler is stopped.
func (t *RunningTask) SetTokensUsed(count uint32) { t.tokens.Store(&count) }

// SetReleasesTarget sets whether the target of the task is free for others while it waits without a slot. Set it before
// [RunningTask.Ask], Sleep, Join or Event. Default: false, so that a page or a repository that somebody works on stays as it
// is.
func (t *RunningTask) SetReleasesTarget(releases bool) { t.releasesTarget.Store(releases) }

// Environ returns the environment for a process that does the work: that of this process, with TASKYARD_TASK_ID,
// TASKYARD_ATTEMPT and TASKYARD_FENCING_TOKEN. For a task with a trace context it also has TRACEPARENT and
// TASKYARD_TRACE_ID (docs/rules.md, Logs).
func (t *RunningTask) Environ() []string {
	var found []string
	for _, each := range os.Environ() {
		switch name, _, _ := strings.Cut(each, "="); name {
		case "TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID":
			// These are of the trace of the host, not of the task.
		default:
			found = append(found, each)
		}
	}
	found = append(found, "TASKYARD_TASK_ID="+t.ID, "TASKYARD_ATTEMPT="+strconv.Itoa(t.Attempt),
		"TASKYARD_FENCING_TOKEN="+strconv.FormatInt(t.FencingToken, 10))
	if parts := strings.Split(t.Traceparent, "-"); len(parts) > 1 {
		found = append(found, "TRACEPARENT="+t.Traceparent, "TASKYARD_TRACE_ID="+parts[1])
	}
	return found
}

func (t *RunningTask) key() leaseKey { return leaseKey{t.ID, t.FencingToken} }

// completed returns the report of a result. A result that cannot be encoded is a final failure: another attempt would
// do the work again and fail in the same way.
func (t *RunningTask) completed(result any) *taskyardv1.Report {
	message := &taskyardv1.TaskCompleted{}
	var err error
	if output, isOutput := result.(Output); isOutput {
		message.Result, message.Output, err = encodeOutput(output.Value)
	} else if message.Output = givenPayload(result); message.Output == nil {
		message.Result, err = valueOf("result", result)
	}
	if err != nil {
		return t.failed(&ActionFailed{Reason: "result is not JSON: " + err.Error(), Code: badResult, Final: true}, "")
	}
	report := t.newReport()
	report.Event = &taskyardv1.Report_Completed{Completed: message}
	return report
}

func (t *RunningTask) failed(failure *ActionFailed, traceback string) *taskyardv1.Report {
	message := &taskyardv1.TaskFailed{
		Error: validText(failure.Error()), Code: optional(validText(failure.Code)),
		RetryAfterMs: optional(toMillis(min(failure.RetryAfter, maxRetryAfter))),
		Traceback:    optional(validText(traceback)),
	}
	if message.Error == "" {
		message.Error = "failed without a word"
	}
	if failure.Final {
		message.Retryable = new(bool)
	}
	report := t.newReport()
	report.Event = &taskyardv1.Report_Failed{Failed: message}
	return report
}

func (t *RunningTask) newReport() *taskyardv1.Report {
	return &taskyardv1.Report{TaskId: t.ID, FencingToken: float64(t.FencingToken), TokensUsed: t.tokens.Load()}
}

// validText returns a text as UTF-8, cut to the length that the server keeps.
func validText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxErrorBytes)], "\uFFFD")
}
