// Tasks that are submitted at the same time share the messages of one stream (DESIGN, Submitting fast).

package taskyard

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	// mostTogether and mostTogetherBytes are the most that shares a message; a server takes 8 MiB.
	mostTogether      = 50
	mostTogetherBytes = 1_000_000
	// mostUnanswered are the messages on their way. They hide the time of a round trip; the bound keeps memory small.
	mostUnanswered = 20
)

// errNotShared says that a stream broke by other than an outage, which may be the fault of any task on it: each is to be
// submitted by a call of its own, which tells.
var errNotShared = errors.New("the stream of submissions broke")

// submitter submits single tasks. One that is alone takes a call of its own, which waits for nothing. Those that come
// while others are under way take a stream together, which ends as soon as it owes no answer: none is kept for later.
type submitter struct {
	*settings
	tasks    taskyardv1.TaskServiceClient
	attempts sync.WaitGroup
	streams  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	underWay int
	shared   *submitStream // Takes more tasks; nil if there is none.
}

// submit answers the server's acceptance. The request must carry an idempotency key: where the server is unavailable, or
// the stream breaks, a task without an answer is submitted again.
func (s *submitter) submit(
	ctx context.Context, request *taskyardv1.SubmitTaskRequest,
) (answer *taskyardv1.SubmitTaskResponse, err error) {
	size := proto.Size(request)
	given, _ := metadata.FromOutgoingContext(ctx)
	// A larger one could break the stream for all; metadata are those of a call.
	mayShare := size <= mostTogetherBytes && len(given) == 0
	_, err = persist(ctx, s.patience, func() (err error) {
		answer, err = s.attempt(ctx, &submission{request: request, size: size, fate: make(chan fate, 1)}, mayShare)
		return err
	})
	return answer, err
}

func (s *submitter) attempt(
	ctx context.Context, one *submission, mayShare bool,
) (*taskyardv1.SubmitTaskResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, ErrorFrom(err)
	}
	stream, err := s.begin(one, mayShare)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if stream != nil {
		answer, err := s.await(ctx, stream, one)
		if !errors.Is(err, errNotShared) {
			return answer, err
		}
	}
	return s.tasks.SubmitTask(ctx, one.request)
}

// begin counts an attempt and puts its task on a stream; nil if it is to take a call of its own.
func (s *submitter) begin(one *submission, mayShare bool) (*submitStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errorFrom(status.Error(codes.Canceled, "the client is closed"))
	}
	s.attempts.Add(1)
	s.underWay++
	if !mayShare || s.shared == nil && s.underWay == 1 {
		return nil, nil
	}
	if s.shared == nil {
		s.shared = newSubmitStream(s)
		s.streams.Go(s.shared.run)
	}
	s.shared.add(one)
	return s.shared, nil
}

func (s *submitter) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.attempts.Done()
}

// await answers a task's fate. Who gives up waiting takes the task back unless it was sent, and disturbs no other.
func (s *submitter) await(
	ctx context.Context, stream *submitStream, one *submission,
) (*taskyardv1.SubmitTaskResponse, error) {
	limit, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case fate := <-one.fate:
		return fate.answer, fate.err
	case <-limit.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case fate := <-one.fate:
		return fate.answer, fate.err
	default:
	}
	stream.forsake(one)
	if ctx.Err() == nil {
		// It is the stream that is slow. Those who come next try another one.
		stream.takeNoMore()
	}
	return nil, ErrorFrom(limit.Err())
}

// drain waits until all attempts that have begun have their answers, each for no longer than a call may take, and lets
// no more begin.
func (s *submitter) drain() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.attempts.Wait()
	s.streams.Wait()
}

// submission is one attempt of a task on a stream.
type submission struct {
	request  *taskyardv1.SubmitTaskRequest
	size     int
	fate     chan fate // Told once, if the submitter still waits.
	forsaken bool      // Nobody waits for it any more.
}

type fate struct {
	answer *taskyardv1.SubmitTaskResponse
	err    error
}

// submitStream is one stream, with a reader and a writer. Its fields are guarded by the submitter's lock.
type submitStream struct {
	submitter *submitter
	ctx       context.Context
	cancel    context.CancelFunc
	more      chan struct{} // Full when there may be something to write, or a reason to end.

	waiting    []*submission
	unanswered [][]*submission
	wanted     int // The tasks without a fate that somebody waits for.
}

func newSubmitStream(s *submitter) *submitStream {
	ctx, cancel := context.WithCancel(context.Background())
	return &submitStream{submitter: s, ctx: ctx, cancel: cancel, more: make(chan struct{}, 1)}
}

// The lock is held.

func (t *submitStream) add(one *submission) {
	t.waiting = append(t.waiting, one)
	t.wanted++
	t.wake()
}

func (t *submitStream) forsake(one *submission) {
	one.forsaken = true
	if t.wanted--; t.wanted == 0 {
		// What was sent is answered to nobody.
		t.takeNoMore()
		t.cancel()
	}
}

func (t *submitStream) takeNoMore() {
	if t.submitter.shared == t {
		t.submitter.shared = nil
	}
}

// next takes as much of what waits as may share a message, without what nobody waits for any more.
func (t *submitStream) next() []*submission {
	if len(t.unanswered) >= mostUnanswered {
		return nil
	}
	var message []*submission
	size := 0
	for len(t.waiting) > 0 && len(message) < mostTogether {
		first := t.waiting[0]
		if !first.forsaken {
			if size += first.size; len(message) > 0 && size > mostTogetherBytes {
				break
			}
			message = append(message, first)
		}
		t.waiting = t.waiting[1:]
	}
	if len(message) > 0 {
		t.unanswered = append(t.unanswered, message)
	}
	return message
}

func (t *submitStream) settle(one *submission, fate fate) {
	if !one.forsaken {
		one.fate <- fate
		t.wanted--
	}
}

func (t *submitStream) wake() {
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// The lock is not held.

// run sends what waits and settles what is answered, until nobody waits for anything or the stream breaks.
func (t *submitStream) run() {
	defer t.cancel()
	err := t.converse()
	t.submitter.mu.Lock()
	defer t.submitter.mu.Unlock()
	t.takeNoMore()
	for _, one := range slices.Concat(append(t.unanswered, t.waiting)...) {
		// An error of its own for each.
		failure := fate{err: errorFrom(err)}
		if CodeOf(failure.err) != CodeUnavailable {
			failure.err = errNotShared
		}
		t.settle(one, failure)
	}
}

func (t *submitStream) converse() error {
	call, err := t.submitter.tasks.SubmitTasks(t.ctx)
	if err != nil {
		return err
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer t.cancel()
	writing.Go(func() { t.write(call) })
	for {
		answer, err := call.Recv()
		if err != nil {
			return err
		}
		if err := t.answered(answer.GetOutcomes()); err != nil {
			return err
		}
	}
}

type submitCall = grpc.BidiStreamingClient[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse]

// write writes until nobody waits for anything or the stream ends.
func (t *submitStream) write(call submitCall) {
	for {
		// Those who are about to submit do so first: it makes fuller messages.
		runtime.Gosched()
		t.submitter.mu.Lock()
		message, isOver := t.next(), t.wanted == 0
		t.submitter.mu.Unlock()
		switch {
		case len(message) > 0:
			request := &taskyardv1.SubmitTasksRequest{Tasks: make([]*taskyardv1.SubmitTaskRequest, len(message))}
			for i, one := range message {
				request.Tasks[i] = one.request
			}
			if call.Send(request) != nil {
				// The reader learns why.
				return
			}
		case isOver:
			_ = call.CloseSend()
			// The reader learns how it ended, but not for ever.
			select {
			case <-time.After(closeTime):
				t.cancel()
			case <-t.ctx.Done():
			}
			return
		default:
			select {
			case <-t.more:
			case <-t.ctx.Done():
				return
			}
		}
	}
}

// answered says that the oldest unanswered message was answered: its tasks have their fates.
func (t *submitStream) answered(outcomes []*taskyardv1.SubmitOutcome) error {
	t.submitter.mu.Lock()
	defer t.submitter.mu.Unlock()
	if len(t.unanswered) == 0 || len(t.unanswered[0]) != len(outcomes) {
		return errors.New("the server answered for other tasks than were sent")
	}
	for i, one := range t.unanswered[0] {
		err := refusalOf(outcomes[i].GetError())
		if CodeOf(err) == CodeUnavailable {
			// A server that drains is as good as gone. Those who come next try another one, or the next one in its place.
			t.takeNoMore()
		}
		t.settle(one, fate{outcomes[i].GetAccepted(), err})
	}
	t.unanswered = t.unanswered[1:]
	if t.wanted == 0 {
		t.takeNoMore()
	}
	t.wake()
	return nil
}
