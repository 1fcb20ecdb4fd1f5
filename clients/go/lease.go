// One lease of a host: when it ends, whether its handler has begun, and its reports that are not sent yet.

package taskyard

import (
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// lease is one lease, as its host knows it.
type lease struct {
	key       leaseKey
	number    int // The position of its hand-out among all leases of the session.
	length    time.Duration
	expiresAt time.Time // Unless it is renewed.
	// assignment is what its handler is given when it begins. It is nil once the handler has begun, and when it never
	// will.
	assignment *taskyardv1.Assignment
	// startWritten is true once the start report was written, so that the server may have read it.
	startWritten bool
	// unused is true if the lease was given back before its handler began.
	unused bool
	// lost is true once the lease has ended, for the server or by its time.
	lost bool
	// queued is true while the lease is in session.queue.
	queued bool
	// pending holds the reports that are not on the stream yet, by kind.
	pending [reportKinds]*taskyardv1.Report
}

// beginsWhenAnswered reports whether the handler begins when the start report was answered, instead of when it was
// written. That is so for a task with a target: the start report may be lost with the stream, and the server may then
// hand out another task of the target, which must not run at the same time (docs/rules.md, Acknowledged starts).
func (l *lease) beginsWhenAnswered() bool { return l.assignment.GetTask().GetTarget() != "" }

// outlivesBreak reports whether the lease stays held when the stream breaks. One whose handler has not begun does so
// only if the server may believe otherwise.
func (l *lease) outlivesBreak() bool {
	return l.assignment == nil || l.beginsWhenAnswered() && l.startWritten
}

// begin returns what the handler begins with.
func (l *lease) begin() *taskyardv1.Assignment {
	assignment := l.assignment
	l.assignment = nil
	return assignment
}

// needs reports whether a report that was refused, or not answered, still has a meaning.
func (l *lease) needs(report *taskyardv1.Report) bool {
	switch {
	case kindOf(report) == startReport:
		return !l.unused && !l.lost
	case report.GetReleased() != nil:
		return true
	}
	return !l.lost
}

func (l *lease) hasPending() bool { return l.pending != [reportKinds]*taskyardv1.Report{} }
