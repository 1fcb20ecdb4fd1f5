// The rules of the host stream, without clock or connection (docs/rules.md, Host stream): which leases a host holds,
// when they end, which handlers begin and stop.

package taskyard

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// session holds the leases of one start of a host, over all of its streams. It is pure: the time is passed in, messages
// come in, and messages go out. A hostRun carries the messages, begins and stops handlers as the session tells it, and
// holds a lock during every call.
//
// The life of a lease: it is handed out, its handler begins, its handler returns, its last report is answered, and it
// is forgotten. It takes a slot from the hand-out until its handler has returned, also if it is lost in between.
type session struct {
	draining bool

	log    *slog.Logger
	slots  int
	count  int // Leases handed out so far.
	leases map[leaseKey]*lease
	busy   map[leaseKey]bool // The leases that take a slot.
	credit int               // Tasks that the server may still hand out.
	// confirmedAt is when the last answered heartbeat or Hello was sent. A lease that is handed out afterwards counts
	// from then. Its arrival would be too late: it may come long after the claim.
	confirmedAt time.Time
	grace       time.Duration // How long leases outlive a break of the stream.
	// noneEndsBefore is a lower bound of the ends of all leases, so that most looks for ended ones cost nothing. It is
	// zero if there were none.
	noneEndsBefore time.Time

	// Heartbeats.
	sequence   uint32
	heartbeats []sentHeartbeat // Those without an answer, oldest first.

	// Reports, see session_reports.go.
	queue           []leaseKey           // The leases with pending reports, oldest first. Some may be forgotten.
	unanswered      []*taskyardv1.Report // Oldest first; the server answers in this order.
	retryLater      []*taskyardv1.Report // Refused for the time being; sent again after the next heartbeat.
	maxReportsBytes int                  // The size limit of the reports of one message.
	maxPayloadBytes int                  // The size limit of a result that is no artifact; 0 for none.
	countsAccepted  bool                 // Whether the server counts accepted reports, and reads what comes with reports.

	output *outputBox // See session_output.go.
}

type sentHeartbeat struct {
	sequence uint32
	sentAt   time.Time
	listed   []leaseKey
}

func newSession(slots int, log *slog.Logger) *session {
	return &session{
		log: log, slots: slots, leases: map[leaseKey]*lease{}, busy: map[leaseKey]bool{},
		maxReportsBytes: defaultMessageBytes - envelopeBytes, output: newOutputBox(),
	}
}

// State

// active returns the number of tasks whose handlers run or are about to begin.
func (s *session) active() int { return len(s.busy) }

// holdsLeases reports whether there are leases that are not lost.
func (s *session) holdsLeases() bool { return len(s.liveLeases()) > 0 }

// isOver reports whether a lease is not held any more.
func (s *session) isOver(key leaseKey) bool {
	lease := s.leases[key]
	return lease == nil || lease.lost
}

// isFinished reports whether nothing runs, and no report is pending or unanswered.
func (s *session) isFinished() bool { return len(s.leases) == 0 }

// held returns the leases that a Hello lists: all that are not lost. An ended one is among them until its last report
// is answered.
func (s *session) held() []*taskyardv1.HeldLease { return heldLeases(s.liveLeases()) }

// Streams. A result named stop lists the leases whose handlers must be stopped.

// streamOpened begins a stream whose Hello was sent at sentAt. Leases that the Welcome does not keep are lost.
func (s *session) streamOpened(welcome *taskyardv1.Welcome, sentAt time.Time) (stop []leaseKey) {
	s.confirmedAt = sentAt
	s.grace, s.countsAccepted = fromMillis(welcome.GetReconnectGraceMs()), welcome.GetCountsAccepted()
	s.maxPayloadBytes = int(welcome.GetMaxPayloadBytes())
	s.maxReportsBytes = cmp.Or(int(welcome.GetMaxMessageBytes()), defaultMessageBytes) - envelopeBytes
	kept := map[leaseKey]time.Duration{}
	for _, each := range welcome.GetKept() {
		kept[keyOf(each)] = fromSecs(each.GetLeaseSecs())
	}
	var lost []leaseKey
	for _, lease := range s.inOrder() {
		if length, ok := kept[lease.key]; ok {
			lease.length = length
			s.endAt(lease, sentAt.Add(length))
		} else {
			lost = append(lost, lease.key)
		}
	}
	stop = s.lose(lost)
	s.output.opened(int(welcome.GetOutputBytes()))
	// Another server may accept what was refused for the time being.
	s.enqueueRefused()
	s.queue = nil
	for _, lease := range s.inOrder() {
		if lease.queued = lease.hasPending(); lease.queued {
			s.queue = append(s.queue, lease.key)
		}
	}
	return stop
}

// streamClosed handles a break of the stream at now. The leases end after the grace period unless a new stream keeps
// them. Reports without an answer are pending again.
func (s *session) streamClosed(now time.Time) {
	// A newer report of the same kind takes precedence.
	for _, report := range slices.Backward(s.unanswered) {
		lease := s.leases[keyOf(report)]
		if lease != nil && lease.pending[kindOf(report)] == nil && lease.needs(report) {
			lease.pending[kindOf(report)] = report
		}
	}
	graceEnd := now.Add(s.grace)
	for _, lease := range s.inOrder() {
		if graceEnd.Before(lease.expiresAt) {
			s.endAt(lease, graceEnd)
		}
		if !lease.outlivesBreak() {
			delete(s.busy, lease.key)
			s.forget(lease.key)
		}
		lease.queued = false
	}
	s.output.disconnected()
	s.queue, s.unanswered, s.heartbeats, s.credit = nil, nil, nil, 0
}

// expire ends the leases whose time is over at now.
func (s *session) expire(now time.Time) (stop []leaseKey) {
	if s.noneEndsBefore.IsZero() || now.Before(s.noneEndsBefore) {
		return nil
	}
	var expired []leaseKey
	s.noneEndsBefore = time.Time{}
	for _, key := range s.liveLeases() {
		if lease := s.leases[key]; lease.expiresAt.After(now) {
			s.endAt(lease, lease.expiresAt)
		} else {
			expired = append(expired, key)
		}
	}
	if len(expired) > 0 {
		s.log.Warn("taskyard: leases ended, since the server could not be reached to renew them", "leases", len(expired))
	}
	return s.lose(expired)
}

// What the server sends

// taskAssigned handles the hand-out of a task. Its start report is pending; a draining host gives it back instead.
func (s *session) taskAssigned(assignment *taskyardv1.Assignment) {
	given := assignment.GetLease()
	key := keyOf(given)
	s.credit = max(0, s.credit-1)
	if s.leases[key] != nil {
		return
	}
	length := fromSecs(given.GetLeaseSecs())
	lease := s.add(key)
	lease.length, lease.assignment = length, assignment
	s.endAt(lease, s.confirmedAt.Add(length))
	if s.draining {
		s.giveBack(lease)
		return
	}
	s.busy[key] = true
	s.enqueue(lease, key.start())
}

// heartbeatAcknowledged handles the answer to a heartbeat: the leases that the heartbeat listed are renewed from when
// it was sent, except for those that the answer names as lost.
func (s *session) heartbeatAcknowledged(ack *taskyardv1.HeartbeatAck) (stop []leaseKey) {
	for len(s.heartbeats) > 0 && s.heartbeats[0].sequence <= ack.GetSequence() {
		heartbeat := s.heartbeats[0]
		s.heartbeats = s.heartbeats[1:]
		if heartbeat.sequence != ack.GetSequence() {
			continue
		}
		s.confirmedAt = heartbeat.sentAt
		var lost []leaseKey
		for _, each := range ack.GetLost() {
			lost = append(lost, keyOf(each))
		}
		stop = s.lose(lost)
		for _, key := range heartbeat.listed {
			if lease := s.leases[key]; lease != nil {
				if renewed := heartbeat.sentAt.Add(lease.length); renewed.After(lease.expiresAt) {
					lease.expiresAt = renewed
				}
			}
		}
	}
	return stop
}

// taskCancelled handles the server's request to stop a task. The answer is a release, once nothing runs for the lease:
// at once if nothing does now.
func (s *session) taskCancelled(cancellation *taskyardv1.Cancellation) (stop []leaseKey) {
	key := keyOf(cancellation)
	stop = s.lose([]leaseKey{key})
	if s.leases[key] == nil {
		lease := s.add(key)
		lease.lost = true
		s.enqueue(lease, key.release())
	}
	return stop
}

// hostDeregistered handles that the server has ended all leases of the host.
func (s *session) hostDeregistered() (stop []leaseKey) { return s.lose(s.liveLeases()) }

// What the host does

// drain takes no more tasks: the host gives no more credit, and gives back the tasks whose handlers have not begun.
func (s *session) drain() {
	s.draining = true
	for _, lease := range s.inOrder() {
		if lease.assignment != nil {
			s.giveBack(lease)
		}
	}
}

// nextHeartbeat returns the heartbeat to send now. tokensUsed returns how many tokens the handler of a lease stated
// last, or nil if it stated none. Reports that were refused for the time being are pending again.
func (s *session) nextHeartbeat(
	now time.Time, machine *taskyardv1.Machine, tokensUsed func(leaseKey) *uint32,
) *taskyardv1.ConnectRequest {
	s.enqueueRefused()
	s.sequence++
	listed := s.liveLeases()
	s.heartbeats = append(s.heartbeats, sentHeartbeat{s.sequence, now, listed})
	message := &taskyardv1.Heartbeat{Sequence: s.sequence, Leases: heldLeases(listed), Machine: machine}
	for i, key := range listed {
		message.Leases[i].TokensUsed = tokensUsed(key)
	}
	if s.draining {
		message.Status = taskyardv1.RuntimeHost_STATUS_BUSY.Enum()
	}
	return &taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Heartbeat{Heartbeat: message}}
}

// heartbeatMayRide reports whether there are reports to send with which a heartbeat may come.
func (s *session) heartbeatMayRide() bool { return s.countsAccepted && len(s.queue) > 0 }

// nextMessages returns the messages to write next: the heartbeat if there is one, one message of reports, if any are
// pending, credit for the slots that are free, then one message of output. Reports wait for the output of their own
// task alone.
func (s *session) nextMessages(heartbeat *taskyardv1.ConnectRequest) []*taskyardv1.ConnectRequest {
	messages := s.nextReportMessages(heartbeat)
	if output := s.nextOutput(); output != nil {
		messages = append(messages, output)
	}
	return messages
}

// nextReportMessages returns those without output. Credit follows the reports that freed its slots, and does not wait
// for the reports after them. A server that counts accepted reports gets all of it in the message of reports.
func (s *session) nextReportMessages(heartbeat *taskyardv1.ConnectRequest) []*taskyardv1.ConnectRequest {
	var messages []*taskyardv1.ConnectRequest
	if heartbeat != nil {
		messages = append(messages, heartbeat)
	}
	reports := &taskyardv1.Reports{Reports: s.nextReports()}
	hasReports := len(reports.Reports) > 0
	if hasReports {
		s.unanswered = append(s.unanswered, reports.Reports...)
		messages = append(messages, &taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Reports{Reports: reports}})
	}
	if free := s.slots - len(s.busy) - s.credit; free > 0 && !s.draining {
		s.credit += free
		if hasReports && s.countsAccepted {
			reports.Credit = uint32(free)
		} else {
			messages = append(messages, &taskyardv1.ConnectRequest{
				Message: &taskyardv1.ConnectRequest_Credit{Credit: &taskyardv1.Credit{Count: uint32(free)}},
			})
		}
	}
	if heartbeat == nil || !hasReports || !s.countsAccepted {
		return messages
	}
	if proto.Size(heartbeat)+proto.Size(reports)+envelopeBytes > s.maxReportsBytes {
		return messages
	}
	reports.Heartbeat = heartbeat.GetHeartbeat()
	return messages[1:]
}

// messageWritten handles that a message was written to the stream. It returns the tasks whose handlers begin now.
func (s *session) messageWritten(message *taskyardv1.ConnectRequest) (begin []*taskyardv1.Assignment) {
	for _, report := range message.GetReports().GetReports() {
		lease := s.leases[keyOf(report)]
		// The task may have been cancelled or given back while the message was written.
		if kindOf(report) != startReport || lease == nil || lease.assignment == nil {
			continue
		}
		lease.startWritten = true
		if !lease.beginsWhenAnswered() {
			begin = append(begin, lease.begin())
		}
	}
	return begin
}

// Leases

func (s *session) add(key leaseKey) *lease {
	s.count++
	s.leases[key] = &lease{key: key, number: s.count}
	return s.leases[key]
}

// forget ends the life of a lease.
func (s *session) forget(key leaseKey) {
	delete(s.leases, key)
	s.output.drop(key)
}

// endAt sets when a lease ends. One that ends later than before may be set without it.
func (s *session) endAt(lease *lease, at time.Time) {
	lease.expiresAt = at
	if s.noneEndsBefore.IsZero() || at.Before(s.noneEndsBefore) {
		s.noneEndsBefore = at
	}
}

// inOrder returns all leases in the order of their hand-out.
func (s *session) inOrder() []*lease {
	return slices.SortedFunc(maps.Values(s.leases), func(a, b *lease) int { return cmp.Compare(a.number, b.number) })
}

// liveLeases returns the leases that are not lost, in the order of their hand-out.
func (s *session) liveLeases() []leaseKey {
	var keys []leaseKey
	for _, lease := range s.inOrder() {
		if !lease.lost {
			keys = append(keys, lease.key)
		}
	}
	return keys
}

// lose ends these leases. It returns those whose handlers run and are not stopped yet.
func (s *session) lose(keys []leaseKey) (stop []leaseKey) {
	for _, key := range keys {
		lease := s.leases[key]
		if lease == nil || lease.lost {
			continue
		}
		lease.lost = true
		s.output.drop(key)
		switch {
		case !s.busy[key]:
			// The outcome no longer matters. A release still does: a target may wait for it.
			if lease.pending[finalReport].GetReleased() == nil {
				s.forget(key)
			}
		case lease.assignment != nil:
			s.giveBack(lease)
		default:
			clear(lease.pending[:])
			stop = append(stop, key)
		}
	}
	return stop
}

// giveBack returns a task whose handler has not begun, and now never will.
func (s *session) giveBack(lease *lease) {
	delete(s.busy, lease.key)
	lease.assignment, lease.unused = nil, true
	clear(lease.pending[:])
	s.enqueue(lease, lease.key.release())
}
