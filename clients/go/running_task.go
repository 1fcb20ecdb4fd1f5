// A task as the handler that runs it sees it, and how a handler fails one by its own words.

package taskyard

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// maxErrorBytes is the most of an error that the server keeps.
const maxErrorBytes = 10_000

// TaskFailure is an error with which a handler fails its task by its own words; any other error fails it with its text.
type TaskFailure struct {
	// Reason is the text for people.
	Reason string
	// Code is a word for the kind of failure, which a retry policy may name as final.
	Code string
	// Final says that no other attempt can help, whatever the retry policy allows.
	Final bool
}

// Error answers the reason.
func (f *TaskFailure) Error() string { return f.Reason }

// StopError is why the host cancelled a handler's context: see context.Cause.
type StopError struct {
	// Reason is the server's word, such as cancelled, paused or deadline_exceeded; lease_lost where the lease has ended
	// while the host was away, and draining where the host leaves.
	Reason string
	// Message is the same for people.
	Message string
}

// Error answers the message.
func (e *StopError) Error() string { return e.Message }

// RunningTask is what a handler is given: the task as it was handed out, and a way to report on it. Its methods may be
// called by several goroutines at once.
type RunningTask struct {
	Task
	// FencingToken grows with each hand-out of the task: give it along with side effects, so that a later run is told
	// from an earlier one.
	FencingToken uint32
	// Attempt is the number of this execution within the task's run, from 1.
	Attempt int

	report func(*taskyardv1.Report)
	tokens atomic.Pointer[uint32]
}

func newRunningTask(assignment *taskyardv1.Assignment, report func(*taskyardv1.Report)) *RunningTask {
	task := &RunningTask{
		Task: *taskOf(assignment.GetTask()), FencingToken: assignment.GetLease().GetFencingToken(), Attempt: 1,
		report: report,
	}
	if count := len(task.Attempts); count > 0 {
		last := task.Attempts[count-1]
		if task.Attempt = last.Number; !last.EndedAt.IsZero() {
			task.Attempt++
		}
	}
	return task
}

// Progress tells how far the work is: a fraction of 0 to 1, and one line of text. It waits for nobody: the report goes
// out soon, unless a later one takes its place first.
func (t *RunningTask) Progress(fraction float64, message string) {
	t.ReportProgress(&taskyardv1.Progress{Fraction: &fraction, Message: optional(message)})
}

// ReportProgress is Progress with all that a report may hold.
func (t *RunningTask) ReportProgress(progress *taskyardv1.Progress) {
	progress = proto.CloneOf(progress)
	if progress.Fraction != nil {
		progress.Fraction = proto.Float64(min(1, max(0, progress.GetFraction())))
	}
	if progress.Message != nil {
		progress.Message = proto.String(validText(progress.GetMessage()))
	}
	report := t.newReport()
	report.Event = &taskyardv1.Report_Progress{Progress: progress}
	t.report(report)
}

// SetTokensUsed states how many tokens of a language model this attempt has used so far. It sends nothing by itself: the
// next heartbeat and every later report carry the count. Once it is over the task's budget (NewTask.TokenLimit), the
// task fails and its handler is stopped.
func (t *RunningTask) SetTokensUsed(count uint32) { t.tokens.Store(&count) }

// Environ answers the environment for a process that does the work: that of this process, with TASKYARD_TASK_ID,
// TASKYARD_ATTEMPT and TASKYARD_FENCING_TOKEN, and for a task with a trace context TRACEPARENT and TASKYARD_TRACE_ID
// (scheduler-daemon, Structured Logging).
func (t *RunningTask) Environ() []string {
	var found []string
	for _, each := range os.Environ() {
		switch name, _, _ := strings.Cut(each, "="); name {
		case "TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID":
			// That of the host's own process is not the task's.
		default:
			found = append(found, each)
		}
	}
	found = append(found, "TASKYARD_TASK_ID="+t.ID, "TASKYARD_ATTEMPT="+strconv.Itoa(t.Attempt),
		"TASKYARD_FENCING_TOKEN="+strconv.FormatUint(uint64(t.FencingToken), 10))
	if parts := strings.Split(t.Traceparent, "-"); len(parts) > 1 {
		found = append(found, "TRACEPARENT="+t.Traceparent, "TASKYARD_TRACE_ID="+parts[1])
	}
	return found
}

func (t *RunningTask) key() leaseKey { return leaseKey{t.ID, t.FencingToken} }

// completed answers the report of a result. One that is not JSON is a final failure: the work is done, and another
// attempt would do it twice, to the same end.
func (t *RunningTask) completed(result any) *taskyardv1.Report {
	value, err := valueOf(result)
	if err != nil {
		return t.failed(&TaskFailure{Reason: "result is not JSON: " + err.Error(), Code: "bad_result", Final: true})
	}
	report := t.newReport()
	report.Event = &taskyardv1.Report_Completed{Completed: &taskyardv1.TaskCompleted{Result: value}}
	return report
}

func (t *RunningTask) failed(failure *TaskFailure) *taskyardv1.Report {
	message := &taskyardv1.TaskFailed{Error: validText(failure.Reason), Code: optional(validText(failure.Code))}
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
	return &taskyardv1.Report{TaskId: t.ID, FencingToken: t.FencingToken, TokensUsed: t.tokens.Load()}
}

// validText cuts a text to what the server keeps, without what no message may hold.
func validText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxErrorBytes)], "\uFFFD")
}
