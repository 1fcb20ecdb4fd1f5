// The reports of a session: what is sent next, and what an answer means for a lease (docs/rules.md, Reports).

package taskyard

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	defaultMessageBytes = 4 << 20
	// envelopeBytes is the most that a message adds to the size of its reports, and a report to that of its fields.
	envelopeBytes = 32
)

// progressReported handles the progress of a handler. It replaces an earlier one that is still pending.
func (s *session) progressReported(report *taskyardv1.Report) {
	if lease := s.leases[keyOf(report)]; lease != nil && s.busy[lease.key] && !lease.lost {
		s.enqueue(lease, report)
	}
}

// handlerReturned handles the outcome of a handler: its last report, or nil if the handler was stopped before it had
// one.
func (s *session) handlerReturned(key leaseKey, outcome *taskyardv1.Report) {
	delete(s.busy, key)
	lease := s.leases[key]
	if lease == nil {
		return
	}
	if lease.lost || outcome == nil {
		outcome = key.release()
	}
	s.enqueue(lease, outcome)
}

// takeUnanswered takes so many of the oldest unanswered reports, or fewer if there are fewer.
func (s *session) takeUnanswered(count int) []*taskyardv1.Report {
	count = min(count, len(s.unanswered))
	taken := s.unanswered[:count:count]
	s.unanswered = s.unanswered[count:]
	return taken
}

// reportsAccepted handles the server's count of accepted reports: the oldest unanswered ones. It returns the tasks whose
// handlers begin now.
func (s *session) reportsAccepted(count int) (begin []*taskyardv1.Assignment) {
	for _, report := range s.takeUnanswered(count) {
		if assignment := s.reportAccepted(report); assignment != nil {
			begin = append(begin, assignment)
		}
	}
	return begin
}

// reportsAnswered handles the results of the oldest unanswered reports: of a message, or of those that are refused. It
// returns the tasks whose handlers begin now, and the leases whose handlers must be stopped.
func (s *session) reportsAnswered(results *taskyardv1.ReportResults) (begin []*taskyardv1.Assignment, stop []leaseKey) {
	var lost []leaseKey
	for i, report := range s.takeUnanswered(len(results.GetResults())) {
		result := results.GetResults()[i]
		switch refusal := result.GetError(); {
		case refusal == nil:
			if assignment := s.reportAccepted(report); assignment != nil {
				begin = append(begin, assignment)
			}
		case Code(refusal.GetCode()) == CodeLeaseLost, Code(refusal.GetCode()) == CodeNotFound:
			lost = append(lost, keyOf(report))
			if report.GetReleased() != nil {
				s.forget(keyOf(report))
			}
		default:
			s.reportRefused(report, refusal)
		}
	}
	return begin, s.lose(lost)
}

// reportAccepted returns the task whose handler begins with the answer; nil if there is none.
func (s *session) reportAccepted(report *taskyardv1.Report) *taskyardv1.Assignment {
	lease := s.leases[keyOf(report)]
	switch kind := kindOf(report); {
	case kind == finalReport:
		s.forget(keyOf(report))
	case kind == startReport && lease != nil && lease.assignment != nil:
		return lease.begin()
	}
	return nil
}

// reportRefused handles a report that was refused though its lease has not ended. Without an end of some kind the lease
// would hold its task forever.
func (s *session) reportRefused(report *taskyardv1.Report, refusal *taskyardv1.Error) {
	lease := s.leases[keyOf(report)]
	if lease == nil || !lease.needs(report) {
		return
	}
	s.log.Warn("taskyard: report refused",
		"task", report.GetTaskId(), "code", refusal.GetCode(), "error", refusal.GetError())
	mustBeAccepted := kindOf(report) == finalReport || kindOf(report) == startReport && lease.assignment != nil
	switch {
	case !mustBeAccepted:
	case refusal.GetRetryable():
		s.retryLater = append(s.retryLater, report)
	case kindOf(report) == startReport:
		s.giveBack(lease)
	case report.GetCompleted() != nil:
		s.enqueue(lease, finalFailure(report, "result refused: "+refusal.GetError(), refusal.GetCode()))
	case report.GetParked() != nil:
		s.enqueue(lease, finalFailure(report, "park refused: "+refusal.GetError(), refusal.GetCode()))
	case report.GetFailed() != nil:
		s.enqueue(lease, lease.key.release())
	default:
		s.forget(lease.key)
	}
}

// enqueueRefused makes the reports pending again that were refused for the time being.
func (s *session) enqueueRefused() {
	for _, report := range s.retryLater {
		if lease := s.leases[keyOf(report)]; lease != nil && lease.needs(report) {
			s.enqueue(lease, report)
		}
	}
	s.retryLater = nil
}

// enqueue makes a report pending. It replaces a pending one of the same kind.
func (s *session) enqueue(lease *lease, report *taskyardv1.Report) {
	lease.pending[kindOf(report)] = report
	if !lease.queued {
		lease.queued = true
		s.queue = append(s.queue, lease.key)
	}
}

// nextReports takes as many pending reports as fit one message. Those of one lease are in the order of their kinds;
// the last one waits for the output of the lease.
func (s *session) nextReports() []*taskyardv1.Report {
	var reports []*taskyardv1.Report
	size := 0
	for len(s.queue) > 0 {
		lease := s.leases[s.queue[0]]
		if lease == nil {
			s.queue = s.queue[1:]
			continue
		}
		for kind, report := range lease.pending {
			if report != nil {
				report = s.fitting(lease, report)
				lease.pending[kind] = report
			}
			if report == nil || kind == finalReport && s.output.isBehind(lease.key) {
				continue
			}
			if size += proto.Size(report) + envelopeBytes; len(reports) > 0 && size > s.maxReportsBytes {
				return reports
			}
			reports = append(reports, report)
			lease.pending[kind] = nil
		}
		lease.queued = false
		s.queue = s.queue[1:]
	}
	return reports
}

// fitting returns a report that fits a message. In place of one that does not, it returns a failure for an outcome, and
// nil for progress.
func (s *session) fitting(lease *lease, report *taskyardv1.Report) *taskyardv1.Report {
	size := proto.Size(report)
	switch {
	case size+envelopeBytes <= s.maxReportsBytes:
		return report
	case kindOf(report) == finalReport:
		reason := fmt.Sprintf("result of %d bytes does not fit a message to the server", size)
		return finalFailure(report, reason, string(CodeTooLarge))
	}
	s.log.Warn("taskyard: progress is too large to be reported", "task", lease.key.taskID)
	return nil
}
