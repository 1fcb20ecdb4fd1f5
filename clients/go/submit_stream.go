// One stream of submissions: which tasks share its messages, and who gets which answer.

package taskyard

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	// A message has at most this many tasks and bytes. The server reads larger ones.
	maxTasksPerMessage = 50
	maxBytesPerMessage = 1_000_000
	// maxUnansweredMessages hides the time of a round trip, and keeps the memory small.
	maxUnansweredMessages = 20
)

// submission is one attempt to submit a task by a stream.
type submission struct {
	request   *taskyardv1.SubmitTaskRequest
	size      int
	result    chan submitResult // Gets one item, unless the submission is abandoned.
	abandoned bool              // Nobody waits for the result any more.
}

type submitResult struct {
	answer *taskyardv1.SubmitTaskResponse
	err    error
}

func newSubmission(request *taskyardv1.SubmitTaskRequest, size int) *submission {
	return &submission{request: request, size: size, result: make(chan submitResult, 1)}
}

// submitStream is one stream, with a reader and a writer. The lock of the submitter guards its fields.
type submitStream struct {
	submitter *submitter
	ctx       context.Context
	cancel    context.CancelFunc
	wakeUp    chan struct{} // Holds an item when the writer may have something to write, or a reason to end.

	queue      []*submission   // Not sent yet.
	unanswered [][]*submission // One item for each message, oldest first.
	awaited    int             // The submissions without a result that somebody waits for.
}

func newSubmitStream(s *submitter) *submitStream {
	ctx, cancel := context.WithCancel(context.Background())
	return &submitStream{submitter: s, ctx: ctx, cancel: cancel, wakeUp: make(chan struct{}, 1)}
}

// The lock is held in these methods.

func (t *submitStream) add(submission *submission) {
	t.queue = append(t.queue, submission)
	t.awaited++
	t.wake()
}

func (t *submitStream) abandon(submission *submission) {
	submission.abandoned = true
	if t.awaited--; t.awaited == 0 {
		// Nobody waits for the answers to what was sent.
		t.detach()
		t.cancel()
	}
}

// detach lets the stream take no more tasks.
func (t *submitStream) detach() {
	if t.submitter.stream == t {
		t.submitter.stream = nil
	}
}

// nextMessage takes from the queue as many tasks as fit one message, without those that are abandoned.
func (t *submitStream) nextMessage() []*submission {
	if len(t.unanswered) >= maxUnansweredMessages {
		return nil
	}
	var message []*submission
	size := 0
	for len(t.queue) > 0 && len(message) < maxTasksPerMessage {
		first := t.queue[0]
		if !first.abandoned {
			if size += first.size; len(message) > 0 && size > maxBytesPerMessage {
				break
			}
			message = append(message, first)
		}
		t.queue = t.queue[1:]
	}
	if len(message) > 0 {
		t.unanswered = append(t.unanswered, message)
	}
	return message
}

func (t *submitStream) deliver(submission *submission, result submitResult) {
	if !submission.abandoned {
		submission.result <- result
		t.awaited--
	}
}

func (t *submitStream) wake() {
	select {
	case t.wakeUp <- struct{}{}:
	default:
	}
}

// The lock is not held in these methods.

// run sends tasks and delivers answers until nobody waits for anything or the stream breaks.
func (t *submitStream) run() {
	defer t.cancel()
	err := t.exchange()
	t.submitter.mu.Lock()
	defer t.submitter.mu.Unlock()
	t.detach()
	for _, submission := range slices.Concat(append(t.unanswered, t.queue)...) {
		// Each gets an error value of its own.
		result := submitResult{err: errorFrom(err)}
		if code := CodeOf(result.err); code != CodeUnavailable && code != CodeTooManyRequests {
			result.err = errStreamFailed
		}
		t.deliver(submission, result)
	}
}

func (t *submitStream) exchange() error {
	call, err := t.submitter.tasks.SubmitTasks(t.ctx)
	if err != nil {
		return err
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer t.cancel()
	writer.Go(func() { t.write(call) })
	for {
		answer, err := call.Recv()
		if err != nil {
			return err
		}
		if err := t.received(answer.GetOutcomes()); err != nil {
			return err
		}
	}
}

type submitCall = grpc.BidiStreamingClient[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse]

// write writes tasks until nobody waits for anything or the stream ends.
func (t *submitStream) write(call submitCall) {
	for {
		// Goroutines that are about to submit do so first, which makes fuller messages.
		runtime.Gosched()
		t.submitter.mu.Lock()
		message, isFinished := t.nextMessage(), t.awaited == 0
		t.submitter.mu.Unlock()
		switch {
		case len(message) > 0:
			request := &taskyardv1.SubmitTasksRequest{Tasks: make([]*taskyardv1.SubmitTaskRequest, len(message))}
			for i, submission := range message {
				request.Tasks[i] = submission.request
			}
			if call.Send(request) != nil {
				// The reader gets the reason.
				return
			}
		case isFinished:
			_ = call.CloseSend()
			// The reader gets the status of the stream, if it comes in time.
			select {
			case <-time.After(closeTimeout):
				t.cancel()
			case <-t.ctx.Done():
			}
			return
		default:
			select {
			case <-t.wakeUp:
			case <-t.ctx.Done():
				return
			}
		}
	}
}

// received delivers the answer to the oldest unanswered message.
func (t *submitStream) received(outcomes []*taskyardv1.SubmitOutcome) error {
	t.submitter.mu.Lock()
	defer t.submitter.mu.Unlock()
	if len(t.unanswered) == 0 || len(t.unanswered[0]) != len(outcomes) {
		return errors.New("the server answered for other tasks than were sent")
	}
	for i, submission := range t.unanswered[0] {
		err := streamItemError(outcomes[i].GetError())
		if CodeOf(err) == CodeUnavailable {
			// The server drains. The next tasks take another stream, which may lead to another server.
			t.detach()
		}
		t.deliver(submission, submitResult{outcomes[i].GetAccepted(), err})
	}
	t.unanswered = t.unanswered[1:]
	if t.awaited == 0 {
		t.detach()
	}
	t.wake()
	return nil
}
