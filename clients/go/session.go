// What a host holds and what it has to say next: the rules of the host stream, without clock or connection.

package taskyard

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	defaultMessageBytes = 4 << 20
	// envelopeBytes is what a message adds to its reports at most, and a report to its own fields.
	envelopeBytes = 32
)

// lease is one lease, as its host sees it.
type lease struct {
	key    leaseKey
	number int // Of all leases of the session, by hand-out.
	length time.Duration
	endsAt time.Time // When it is over unless it is renewed.
	// waiting is what its handler is to begin with, nil once it has begun or never will.
	waiting *taskyardv1.Assignment
	// startWritten tells whether its start report was written, so that the server may know of it.
	startWritten bool
	// givenBack tells that nothing will run for it.
	givenBack bool
	lost      bool // It has ended for the server, or by its time.
	queued    bool // It is in toSay.
	unsaid    [kindsOfReports]*taskyardv1.Report
}

// session holds the leases of a host of so many slots, over all streams of one start of it: what it holds, and what it
// has to say next. It is pure: now is passed in, messages come in and messages go out. A hostRun carries them, runs and
// stops the handlers as it is told here, and holds a lock meanwhile.
//
// A lease goes this way: handed out; begun, once its started report was written; ended, when its handler has returned;
// gone, when its last report was answered. Its slot is taken from the hand-out until its handler has returned, also
// where the lease is lost meanwhile.
type session struct {
	draining bool

	log    *slog.Logger
	slots  int
	count  int
	leases map[leaseKey]*lease
	// busy are the leases that take a slot.
	busy map[leaseKey]bool
	// toSay are the leases with unsaid reports, in the order in which they got them. Some may be gone.
	toSay         []leaseKey
	unanswered    [][]*taskyardv1.Report
	refusedForNow []*taskyardv1.Report
	credit        int // How many tasks the server may still hand out.
	sequence      uint32
	beats         []beat // The heartbeats without an answer.
	// countsFrom is when the last answered heartbeat or Hello was sent. A lease handed out since counts from here: not
	// from when it arrived, which may be long after the claim.
	countsFrom time.Time
	grace      time.Duration
	mostBytes  int
}

type beat struct {
	sequence uint32
	sentAt   time.Time
	listed   []leaseKey
}

// awaitsAnswer tells whether the task begins only when its start report was answered, not when it was written: another
// task of its target must not run at the same time, though the report be lost (docs/rules.md, Acknowledged starts).
func (l *lease) awaitsAnswer() bool { return l.waiting.GetTask().GetTarget() != "" }

func newSession(slots int, log *slog.Logger) *session {
	return &session{
		log: log, slots: slots, leases: map[leaseKey]*lease{}, busy: map[leaseKey]bool{},
		mostBytes: defaultMessageBytes - envelopeBytes,
	}
}

// What others ask

// active answers the tasks whose handlers have not returned, or are about to begin.
func (s *session) active() int { return len(s.busy) }

// holdsLeases answers whether there are leases that the host has not lost.
func (s *session) holdsLeases() bool { return len(s.living()) > 0 }

// isFinished answers whether nothing runs and nothing waits to be said or answered.
func (s *session) isFinished() bool { return len(s.leases) == 0 }

// A stream's life. Methods that answer keys answer those whose handlers are to be stopped.

// held answers the leases that a Hello lists: all that are not lost, ended ones too until their report was answered.
func (s *session) held() []*taskyardv1.HeldLease { return heldOf(s.living()) }

// welcomed begins a stream, whose Hello was sent at sentAt. What it does not name as kept is lost.
func (s *session) welcomed(welcome *taskyardv1.Welcome, sentAt time.Time) []leaseKey {
	s.countsFrom = sentAt
	s.grace = milliseconds(welcome.GetReconnectGraceMs())
	s.mostBytes = defaultMessageBytes - envelopeBytes
	if most := welcome.GetMaxMessageBytes(); most > 0 {
		s.mostBytes = int(most) - envelopeBytes
	}
	kept := map[leaseKey]time.Duration{}
	for _, each := range welcome.GetKept() {
		kept[leaseKey{each.GetTaskId(), each.GetFencingToken()}] = seconds(each.GetLeaseSecs())
	}
	var gone []leaseKey
	for _, lease := range s.inOrder() {
		if length, ok := kept[lease.key]; ok {
			lease.length, lease.endsAt = length, sentAt.Add(length)
		} else {
			gone = append(gone, lease.key)
		}
	}
	stop := s.lose(gone)
	s.toSay = nil
	for _, lease := range s.inOrder() {
		if lease.queued = lease.unsaid != [kindsOfReports]*taskyardv1.Report{}; lease.queued {
			s.toSay = append(s.toSay, lease.key)
		}
	}
	return stop
}

// broken says that the stream is gone: leases live on for the grace only, what had no answer is to be said again.
func (s *session) broken(now time.Time) {
	for _, report := range slices.Concat(s.unanswered...) {
		lease := s.leases[keyOf(report)]
		// What was to be said since is newer. The start of what was given back never happens.
		if lease == nil || lease.unsaid[kindOf(report)] != nil || kindOf(report) == startedReport && lease.givenBack {
			continue
		}
		lease.unsaid[kindOf(report)] = report
	}
	for _, lease := range s.inOrder() {
		if over := now.Add(s.grace); over.Before(lease.endsAt) {
			lease.endsAt = over
		}
		if lease.waiting != nil && !(lease.startWritten && lease.awaitsAnswer()) {
			// For the server it was never started, so it goes to whoever has room.
			delete(s.busy, lease.key)
			delete(s.leases, lease.key)
		}
		lease.queued = false
	}
	s.toSay, s.unanswered, s.beats, s.credit = nil, nil, nil, 0
}

// expired says that time has come to now: leases that were not renewed are lost.
func (s *session) expired(now time.Time) []leaseKey {
	var over []leaseKey
	for _, key := range s.living() {
		if !s.leases[key].endsAt.After(now) {
			over = append(over, key)
		}
	}
	if len(over) > 0 {
		s.log.Warn("taskyard: leases ended, since the server could not be reached to renew them", "leases", len(over))
	}
	return s.lose(over)
}

// What the server says

// assigned says that a task was handed out: it is reported as started, or given back at once if the host drains.
func (s *session) assigned(assignment *taskyardv1.Assignment) {
	given := assignment.GetLease()
	key := leaseKey{given.GetTaskId(), given.GetFencingToken()}
	s.credit = max(0, s.credit-1)
	if s.leases[key] != nil {
		return
	}
	length := seconds(given.GetLeaseSecs())
	lease := s.add(key)
	lease.length, lease.endsAt, lease.waiting = length, s.countsFrom.Add(length), assignment
	if s.draining {
		s.giveBack(lease)
		return
	}
	s.busy[key] = true
	s.say(lease, &taskyardv1.Report{
		TaskId: key.taskID, FencingToken: key.token,
		Event: &taskyardv1.Report_Started{Started: &taskyardv1.TaskStarted{}},
	})
}

// acknowledged says that a heartbeat was answered: what it listed is renewed from when it was sent, but for the lost.
func (s *session) acknowledged(ack *taskyardv1.HeartbeatAck) []leaseKey {
	var stop []leaseKey
	for len(s.beats) > 0 && s.beats[0].sequence <= ack.GetSequence() {
		beat := s.beats[0]
		s.beats = s.beats[1:]
		if beat.sequence != ack.GetSequence() {
			continue
		}
		s.countsFrom = beat.sentAt
		var lost []leaseKey
		for _, each := range ack.GetLost() {
			lost = append(lost, leaseKey{each.GetTaskId(), each.GetFencingToken()})
		}
		stop = s.lose(lost)
		for _, key := range beat.listed {
			if lease := s.leases[key]; lease != nil {
				if renewed := beat.sentAt.Add(lease.length); renewed.After(lease.endsAt) {
					lease.endsAt = renewed
				}
			}
		}
	}
	return stop
}

// answered says that the oldest unanswered message of reports was answered. It answers the tasks whose handlers begin
// now, and the leases whose handlers are to be stopped.
func (s *session) answered(results *taskyardv1.ReportResults) (begin []*taskyardv1.Assignment, stop []leaseKey) {
	if len(s.unanswered) == 0 {
		return nil, nil
	}
	asked := s.unanswered[0]
	s.unanswered = s.unanswered[1:]
	var gone []leaseKey
	for i, result := range results.GetResults()[:min(len(asked), len(results.GetResults()))] {
		report := asked[i]
		switch why := result.GetError(); {
		case why == nil && kindOf(report) == finalReport:
			delete(s.leases, keyOf(report))
		case why == nil && kindOf(report) == startedReport:
			if lease := s.leases[keyOf(report)]; lease != nil && lease.waiting != nil {
				begin = append(begin, s.begin(lease))
			}
		case why == nil:
		case Code(why.GetCode()) == CodeLeaseLost, Code(why.GetCode()) == CodeNotFound:
			if gone = append(gone, keyOf(report)); report.GetReleased() != nil {
				// That nothing runs is then nobody's business either.
				delete(s.leases, keyOf(report))
			}
		default:
			s.refused(report, why)
		}
	}
	return begin, s.lose(gone)
}

// cancelled says that the server wants a task stopped. It is told released once nothing runs, or now if nothing does.
func (s *session) cancelled(cancellation *taskyardv1.Cancellation) []leaseKey {
	key := leaseKey{cancellation.GetTaskId(), cancellation.GetFencingToken()}
	stop := s.lose([]leaseKey{key})
	if s.leases[key] == nil {
		lease := s.add(key)
		lease.lost = true
		s.say(lease, key.released())
	}
	return stop
}

// deregistered says that the server has ended all leases.
func (s *session) deregistered() []leaseKey { return s.lose(s.living()) }

// What the host says

// progressed says that a handler reports progress; it takes the place of an earlier word that is not yet on the stream.
func (s *session) progressed(report *taskyardv1.Report) {
	if lease := s.leases[keyOf(report)]; lease != nil && s.busy[lease.key] && !lease.lost {
		s.say(lease, report)
	}
}

// ended says that a handler has returned, with its outcome; nil if it was stopped before it had one.
func (s *session) ended(key leaseKey, final *taskyardv1.Report) {
	delete(s.busy, key)
	lease := s.leases[key]
	if lease == nil {
		return
	}
	if lease.lost || final == nil {
		final = key.released()
	}
	s.say(lease, final)
}

// drain has the host take no more: no credit is given, and what has not begun is given back.
func (s *session) drain() {
	s.draining = true
	for _, lease := range s.inOrder() {
		if lease.waiting != nil {
			s.giveBack(lease)
		}
	}
}

// heartbeat returns the heartbeat to send now. tokensUsed returns the tokens that a task's handler stated last, nil if it
// stated none. Reports that were refused for the time being are sent again after it.
func (s *session) heartbeat(
	now time.Time, machine *taskyardv1.Machine, tokensUsed func(leaseKey) *uint32,
) *taskyardv1.ConnectRequest {
	for _, report := range s.refusedForNow {
		lease := s.leases[keyOf(report)]
		if lease == nil {
			continue
		}
		if isStart := kindOf(report) == startedReport; isStart && lease.waiting != nil || !isStart && mayBeSaid(lease, report) {
			s.say(lease, report)
		}
	}
	s.refusedForNow = nil
	s.sequence++
	listed := s.living()
	s.beats = append(s.beats, beat{s.sequence, now, listed})
	message := &taskyardv1.Heartbeat{Sequence: s.sequence, Leases: heldOf(listed), Machine: machine}
	for i, key := range listed {
		message.Leases[i].TokensUsed = tokensUsed(key)
	}
	if s.draining {
		message.Status = taskyardv1.RuntimeHost_STATUS_BUSY.Enum()
	}
	return &taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Heartbeat{Heartbeat: message}}
}

// turn answers the messages to write next: a batch of reports, then credit for the slots that are free, if there are
// any. Credit follows the reports that freed its slots, and one batch does not hold it back for the next.
func (s *session) turn() []*taskyardv1.ConnectRequest {
	var messages []*taskyardv1.ConnectRequest
	if reports := s.nextReports(); len(reports) > 0 {
		s.unanswered = append(s.unanswered, reports)
		messages = append(messages, &taskyardv1.ConnectRequest{
			Message: &taskyardv1.ConnectRequest_Reports{Reports: &taskyardv1.Reports{Reports: reports}},
		})
	}
	if free := s.slots - len(s.busy) - s.credit; free > 0 && !s.draining {
		s.credit += free
		messages = append(messages, &taskyardv1.ConnectRequest{
			Message: &taskyardv1.ConnectRequest_Credit{Credit: &taskyardv1.Credit{Count: uint32(free)}},
		})
	}
	return messages
}

// written says that a message is on its way to the server. It answers the tasks whose handlers begin now.
func (s *session) written(message *taskyardv1.ConnectRequest) []*taskyardv1.Assignment {
	var begin []*taskyardv1.Assignment
	for _, report := range message.GetReports().GetReports() {
		lease := s.leases[keyOf(report)]
		// Nothing waits any more if it was cancelled or given back while the message was written.
		if kindOf(report) != startedReport || lease == nil || lease.waiting == nil {
			continue
		}
		if lease.startWritten = true; !lease.awaitsAnswer() {
			begin = append(begin, s.begin(lease))
		}
	}
	return begin
}

// Within

func (s *session) add(key leaseKey) *lease {
	s.count++
	s.leases[key] = &lease{key: key, number: s.count}
	return s.leases[key]
}

func (s *session) begin(lease *lease) *taskyardv1.Assignment {
	assignment := lease.waiting
	lease.waiting = nil
	return assignment
}

func (s *session) inOrder() []*lease {
	return slices.SortedFunc(maps.Values(s.leases), func(a, b *lease) int { return cmp.Compare(a.number, b.number) })
}

// living answers the leases that are not lost, in the order of their hand-out.
func (s *session) living() []leaseKey {
	var keys []leaseKey
	for _, lease := range s.inOrder() {
		if !lease.lost {
			keys = append(keys, lease.key)
		}
	}
	return keys
}

func (s *session) say(lease *lease, report *taskyardv1.Report) {
	lease.unsaid[kindOf(report)] = report
	if !lease.queued {
		lease.queued = true
		s.toSay = append(s.toSay, lease.key)
	}
}

// lose says that these leases have ended. It answers those whose handlers run and did not know.
func (s *session) lose(keys []leaseKey) []leaseKey {
	var stop []leaseKey
	for _, key := range keys {
		lease := s.leases[key]
		if lease == nil || lease.lost {
			continue
		}
		lease.lost = true
		switch {
		case !s.busy[key]:
			// An outcome is nobody's business any more, but that nothing runs may still free a target.
			if lease.unsaid[finalReport].GetReleased() == nil {
				delete(s.leases, key)
			}
		case lease.waiting != nil:
			s.giveBack(lease)
		default:
			clear(lease.unsaid[:])
			stop = append(stop, key)
		}
	}
	return stop
}

// giveBack says that nothing will run for a lease, which had not begun.
func (s *session) giveBack(lease *lease) {
	delete(s.busy, lease.key)
	lease.waiting, lease.givenBack = nil, true
	clear(lease.unsaid[:])
	s.say(lease, lease.key.released())
}

// refused says that a report was not taken, though its lease lives. It must end somehow, or it would keep its task for
// ever.
func (s *session) refused(report *taskyardv1.Report, why *taskyardv1.Error) {
	lease := s.leases[keyOf(report)]
	if lease == nil || !mayBeSaid(lease, report) {
		return
	}
	s.log.Warn("taskyard: report refused", "task", report.GetTaskId(), "code", why.GetCode(), "error", why.GetError())
	switch {
	case kindOf(report) == startedReport && lease.waiting != nil:
		if !why.GetRetryable() {
			s.giveBack(lease)
			return
		}
		s.refusedForNow = append(s.refusedForNow, report)
	case kindOf(report) != finalReport:
	case why.GetRetryable():
		s.refusedForNow = append(s.refusedForNow, report)
	case report.GetCompleted() != nil:
		s.say(lease, failedFor(report, "result refused: "+why.GetError(), why.GetCode()))
	case report.GetFailed() != nil:
		s.say(lease, lease.key.released())
	default:
		delete(s.leases, lease.key)
	}
}

// mayBeSaid answers whether a report on a lease still means something: of one that is lost, only that nothing runs.
func mayBeSaid(lease *lease, report *taskyardv1.Report) bool {
	return !lease.lost || report.GetReleased() != nil
}

// nextReports answers the reports of the next message, as many as fit; those of one lease in their order.
func (s *session) nextReports() []*taskyardv1.Report {
	var reports []*taskyardv1.Report
	size := 0
	for len(s.toSay) > 0 {
		lease := s.leases[s.toSay[0]]
		if lease == nil {
			s.toSay = s.toSay[1:]
			continue
		}
		for kind, report := range lease.unsaid {
			if report == nil {
				continue
			}
			if bytes := proto.Size(report); bytes+envelopeBytes > s.mostBytes {
				if kind != finalReport {
					s.log.Warn("taskyard: progress is too large to be reported", "task", lease.key.taskID)
					lease.unsaid[kind] = nil
					continue
				}
				reason := fmt.Sprintf("result of %d bytes does not fit a message to the server", bytes)
				report = failedFor(report, reason, string(CodeTooLarge))
				lease.unsaid[kind] = report
			}
			size += proto.Size(report) + envelopeBytes
			if len(reports) > 0 && size > s.mostBytes {
				return reports
			}
			reports = append(reports, report)
			lease.unsaid[kind] = nil
		}
		lease.queued = false
		s.toSay = s.toSay[1:]
	}
	return reports
}
