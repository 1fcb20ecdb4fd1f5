// The output of a session: which chunks are on the stream, which are sent next, and what an answer means for a lease
// (docs/rules.md, Output).

package taskyard

import (
	"time"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	// outputMessageBytes is about the most that one message carries, so that the reports behind it do not wait for long.
	outputMessageBytes = 128 << 10
	// outputRetryDelay is how long chunks wait that the server cannot keep for now.
	outputRetryDelay = time.Second
)

var errNoOutput = &Error{
	Code: CodeUnimplemented, Details: map[string]any{},
	Reason: "the server takes no output: it, or a replica beside it, is of an earlier version",
}

// Sessions

// chunkSaid handles a chunk that a handler says. It returns false if it does not fit yet. The error tells that the
// chunk never will: the server takes no output, or the lease is over.
func (s *session) chunkSaid(key leaseKey, chunk *taskyardv1.NewChunk) (fits bool, err error) {
	if s.isOver(key) || !s.busy[key] {
		return false, leaseLost
	}
	return s.output.add(key, chunk)
}

// outputAcknowledged handles the answer to the oldest message of output that has none. It returns the leases whose
// handlers must be stopped.
func (s *session) outputAcknowledged(acks *taskyardv1.OutputAcks, now time.Time) (stop []leaseKey) {
	lost := s.output.acknowledged(acks.GetAcks(), now)
	for _, each := range lost {
		s.log.Warn("taskyard: output refused", "task", each.key.taskID, "code", each.error.GetCode(),
			"error", each.error.GetError())
		stop = append(stop, s.lose([]leaseKey{each.key})...)
	}
	for _, ack := range acks.GetAcks() {
		s.lookAgain(keyOf(ack))
	}
	return stop
}

// nextOutput returns the next message of output, nil if there is none.
func (s *session) nextOutput() *taskyardv1.ConnectRequest {
	output := s.output.next(min(outputMessageBytes, s.maxReportsBytes))
	if output == nil {
		return nil
	}
	for _, each := range output.GetLeases() {
		s.lookAgain(keyOf(each))
	}
	return &taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Output{Output: output}}
}

// lookAgain has the reports of a lease looked at that may have waited for its output.
func (s *session) lookAgain(key leaseKey) {
	if lease := s.leases[key]; lease != nil && !lease.queued && lease.hasPending() {
		lease.queued = true
		s.queue = append(s.queue, key)
	}
}

// outputBox holds the chunks of all leases, from when they are said until the server keeps them.
type outputBox struct {
	// hasRoom is called when chunks are no longer held, or never will be.
	hasRoom func()

	// limit is how many bytes may be held, and be on the stream without an answer. It is 0 where the server takes no
	// output.
	limit      int
	heldBytes  int
	unanswered []sentOutput // Oldest first; the server answers in this order.
	sentBytes  int          // Of all of these.
	leases     map[leaseKey]*leaseOutput
	queue      []leaseKey // The leases that have chunks to send, in turn. Some may be dropped, or have none any more.
	retryAt    time.Time  // When chunks are sent again that were refused for the time being; zero if there are none.
}

// leaseOutput is what the handler of one lease has said.
type leaseOutput struct {
	chunks []*taskyardv1.NewChunk // Those that the server does not keep yet.
	sent   int                    // How many of these are on the stream.
	kept   int                    // How many came before them.
	// round grows when chunks are to be sent again: an answer to an earlier round says nothing about the lease.
	round int
	// waits is true while chunks that were refused for the time being wait.
	waits bool
	// refused is true from then on until all are kept.
	refused bool
	// closed is true if it is not known how many the server keeps, so that nothing more can be said.
	closed bool
}

// sentOutput is a message without an answer.
type sentOutput struct {
	bytes  int
	rounds map[leaseKey]int
}

// refusedOutput names a lease that is over, and why.
type refusedOutput struct {
	key   leaseKey
	error *taskyardv1.Error
}

func newOutputBox() *outputBox {
	return &outputBox{hasRoom: func() {}, leases: map[leaseKey]*leaseOutput{}}
}

func (b *outputBox) add(key leaseKey, chunk *taskyardv1.NewChunk) (fits bool, err error) {
	lease, size := b.leases[key], proto.Size(chunk)
	switch {
	case b.limit == 0 || lease != nil && lease.closed:
		return false, errNoOutput
	case b.heldBytes > 0 && b.heldBytes+size > b.limit:
		return false, nil
	case lease == nil:
		lease = &leaseOutput{}
		b.leases[key] = lease
	}
	b.heldBytes += size
	lease.chunks = append(lease.chunks, chunk)
	if !lease.waits && lease.sent == len(lease.chunks)-1 {
		b.queue = append(b.queue, key)
	}
	return true, nil
}

// isBehind reports whether the report of the end of a lease must wait for its chunks: until they are on the stream, and
// once some were refused for the time being until they are kept.
func (b *outputBox) isBehind(key leaseKey) bool {
	lease := b.leases[key]
	return lease != nil && (lease.sent < len(lease.chunks) || lease.refused)
}

// last returns the number of the chunk that was said last under a lease, 0 for none.
func (b *outputBox) last(key leaseKey) int {
	if lease := b.leases[key]; lease != nil {
		return lease.kept + len(lease.chunks)
	}
	return 0
}

// isKept reports whether the server keeps the chunks of a lease up to this number, or never will.
func (b *outputBox) isKept(key leaseKey, number int) bool {
	lease := b.leases[key]
	return lease == nil || lease.closed || lease.kept >= number
}

// drop forgets the chunks of a lease that is over. Those on the stream are still answered.
func (b *outputBox) drop(key leaseKey) {
	if lease := b.leases[key]; lease != nil {
		b.free(lease, len(lease.chunks))
		delete(b.leases, key)
	}
}

// opened begins a stream with a limit of its own.
func (b *outputBox) opened(limit int) {
	if b.limit = limit; limit == 0 {
		for _, lease := range b.leases {
			lease.closed = lease.closed || len(lease.chunks) > 0
			lease.waits, lease.refused = false, false
			b.free(lease, len(lease.chunks))
		}
		b.queue = nil
	}
	b.hasRoom()
}

// disconnected ends a stream: what has no answer is to be sent again.
func (b *outputBox) disconnected() {
	b.unanswered, b.sentBytes, b.retryAt, b.queue = nil, 0, time.Time{}, nil
	for key, lease := range b.leases {
		lease.sent, lease.waits, lease.refused = 0, false, false
		if len(lease.chunks) > 0 {
			b.queue = append(b.queue, key)
		}
	}
}

// next takes as many chunks as fit a message of so many bytes. Leases take turns; a chunk that is larger goes alone.
func (b *outputBox) next(limit int) *taskyardv1.Output {
	message, size, rounds := &taskyardv1.Output{}, 0, map[leaseKey]int{}
	isFull := false
	for len(b.queue) > 0 && !isFull {
		key := b.queue[0]
		lease := b.leases[key]
		if lease == nil || lease.waits || lease.sent == len(lease.chunks) {
			b.queue = b.queue[1:]
			continue
		}
		begin := lease.sent
		for lease.sent < len(lease.chunks) {
			chunk := proto.Size(lease.chunks[lease.sent])
			ahead := b.sentBytes + size
			if isFull = size > 0 && size+chunk > limit || ahead > 0 && ahead+chunk > b.limit; isFull {
				break
			}
			size += chunk
			lease.sent++
		}
		if lease.sent == begin {
			break
		}
		rounds[key] = lease.round
		message.Leases = append(message.Leases, &taskyardv1.LeaseOutput{
			TaskId: key.taskID, FencingToken: float64(key.token), Number: uint32(lease.kept + begin + 1),
			Chunks: lease.chunks[begin:lease.sent:lease.sent],
		})
		b.queue = b.queue[1:]
		if lease.sent < len(lease.chunks) {
			b.queue = append(b.queue, key)
		}
	}
	if size == 0 {
		return nil
	}
	b.sentBytes += size
	b.unanswered = append(b.unanswered, sentOutput{size, rounds})
	return message
}

// acknowledged takes the answers to the oldest message without one. It returns the leases that are over.
func (b *outputBox) acknowledged(acks []*taskyardv1.OutputAck, now time.Time) (over []refusedOutput) {
	if len(b.unanswered) == 0 {
		return nil
	}
	sent := b.unanswered[0]
	b.unanswered = b.unanswered[1:]
	b.sentBytes -= sent.bytes
	for _, ack := range acks {
		key := keyOf(ack)
		lease := b.leases[key]
		round, known := sent.rounds[key]
		if lease == nil || !known {
			continue
		}
		if count := min(int(ack.GetTaken())-lease.kept, len(lease.chunks)); count > 0 {
			b.free(lease, count)
			lease.kept += count
			lease.refused = lease.refused && len(lease.chunks) > 0
		}
		code := Code(ack.GetError().GetCode())
		switch isOld := round != lease.round; {
		case ack.GetError() == nil:
		case code == CodeUnavailable && !isOld:
			lease.sent, lease.waits, lease.refused = 0, true, true
			lease.round++
			if b.retryAt.IsZero() {
				b.retryAt = now.Add(outputRetryDelay)
			}
		// What was sent behind chunks that were refused leaves a gap, which says nothing.
		case !isOld || code == CodeLeaseLost || code == CodeNotFound:
			over = append(over, refusedOutput{key, ack.GetError()})
		}
	}
	return over
}

// retry makes the chunks ready again that were refused for the time being. It returns false if there are none, or it is
// too early.
func (b *outputBox) retry(now time.Time) bool {
	if b.retryAt.IsZero() || now.Before(b.retryAt) {
		return false
	}
	b.retryAt = time.Time{}
	for key, lease := range b.leases {
		if lease.waits {
			lease.waits = false
			b.queue = append(b.queue, key)
		}
	}
	return true
}

// free takes out the first chunks of a lease.
func (b *outputBox) free(lease *leaseOutput, count int) {
	for _, chunk := range lease.chunks[:count] {
		b.heldBytes -= proto.Size(chunk)
	}
	lease.chunks = lease.chunks[count:]
	lease.sent = max(0, lease.sent-count)
	if count > 0 {
		b.hasRoom()
	}
}
