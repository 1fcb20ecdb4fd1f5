// The names of leases, and the reports about them.

package taskyard

import (
	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// leaseKey names a lease.
type leaseKey struct {
	taskID string
	token  int64
}

func (k leaseKey) held() *taskyardv1.HeldLease {
	return &taskyardv1.HeldLease{TaskId: k.taskID, FencingToken: float64(k.token)}
}

// start returns the report that the work begins.
func (k leaseKey) start() *taskyardv1.Report {
	return &taskyardv1.Report{
		TaskId: k.taskID, FencingToken: float64(k.token),
		Event: &taskyardv1.Report_Started{Started: &taskyardv1.TaskStarted{}},
	}
}

// release returns the report that nothing runs for the lease.
func (k leaseKey) release() *taskyardv1.Report {
	return &taskyardv1.Report{
		TaskId: k.taskID, FencingToken: float64(k.token),
		Event: &taskyardv1.Report_Released{Released: &taskyardv1.TaskReleased{}},
	}
}

// The kinds of reports, in the order in which those of one lease are sent. A lease has at most one unsent report of
// each kind.
const (
	startReport = iota
	progressReport
	finalReport
	reportKinds
)

// ofLease is a message about a lease. On the wire a fencing token is a double that holds a whole number.
type ofLease interface {
	GetTaskId() string
	GetFencingToken() float64
}

func keyOf(message ofLease) leaseKey {
	return leaseKey{message.GetTaskId(), int64(message.GetFencingToken())}
}

func kindOf(report *taskyardv1.Report) int {
	switch report.GetEvent().(type) {
	case *taskyardv1.Report_Started:
		return startReport
	case *taskyardv1.Report_Progress:
		return progressReport
	}
	return finalReport
}

func heldLeases(keys []leaseKey) []*taskyardv1.HeldLease {
	held := make([]*taskyardv1.HeldLease, len(keys))
	for i, key := range keys {
		held[i] = key.held()
	}
	return held
}

// finalFailure returns a failure in place of an outcome that the server does not accept. It is final, since another
// attempt would have the same outcome.
func finalFailure(report *taskyardv1.Report, reason, code string) *taskyardv1.Report {
	retryable := false
	return &taskyardv1.Report{
		TaskId: report.GetTaskId(), FencingToken: report.GetFencingToken(),
		Event: &taskyardv1.Report_Failed{
			Failed: &taskyardv1.TaskFailed{Error: reason, Retryable: &retryable, Code: &code},
		},
	}
}
