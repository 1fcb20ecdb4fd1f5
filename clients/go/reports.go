// Leases by name, and the reports on them.

package taskyard

import (
	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// leaseKey names a lease.
type leaseKey struct {
	taskID string
	token  uint32
}

func (k leaseKey) held() *taskyardv1.HeldLease {
	return &taskyardv1.HeldLease{TaskId: k.taskID, FencingToken: k.token}
}

func (k leaseKey) released() *taskyardv1.Report {
	return &taskyardv1.Report{
		TaskId: k.taskID, FencingToken: k.token,
		Event: &taskyardv1.Report_Released{Released: &taskyardv1.TaskReleased{}},
	}
}

// The reports of a lease, of which it has one each at a time, in the order in which they are said.
const (
	startedReport = iota
	progressReport
	finalReport
	kindsOfReports
)

func keyOf(report *taskyardv1.Report) leaseKey {
	return leaseKey{report.GetTaskId(), report.GetFencingToken()}
}

func kindOf(report *taskyardv1.Report) int {
	switch report.GetEvent().(type) {
	case *taskyardv1.Report_Started:
		return startedReport
	case *taskyardv1.Report_Progress:
		return progressReport
	}
	return finalReport
}

func heldOf(keys []leaseKey) []*taskyardv1.HeldLease {
	held := make([]*taskyardv1.HeldLease, len(keys))
	for i, key := range keys {
		held[i] = key.held()
	}
	return held
}

// failedFor stands in the place of an outcome that the server does not take; another attempt would give the same.
func failedFor(report *taskyardv1.Report, reason, code string) *taskyardv1.Report {
	final := false
	return &taskyardv1.Report{
		TaskId: report.GetTaskId(), FencingToken: report.GetFencingToken(),
		Event: &taskyardv1.Report_Failed{Failed: &taskyardv1.TaskFailed{Error: reason, Retryable: &final, Code: &code}},
	}
}
