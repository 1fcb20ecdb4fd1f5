// Submissions: a single task is submitted by a unary call, and tasks that are submitted at the same time share a stream
// (docs/rules.md, Submission streams).

package taskyard

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// errStreamFailed means that a stream ended with another error than an outage. Any of its tasks may be the reason, so
// each is submitted by a unary call, which returns its own error.
var errStreamFailed = errors.New("the stream of submissions broke")

// submitter submits single tasks. A task that is submitted while no other is in progress takes a unary call, which has
// the shortest latency. Tasks that come while others are in progress share a stream. The stream ends as soon as it has
// nothing left to answer: none is kept open for later.
type submitter struct {
	*settings
	tasks    taskyardv1.TaskServiceClient
	attempts sync.WaitGroup
	streams  sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	inProgress int
	stream     *submitStream // The stream that takes more tasks; nil if there is none.
}

// submit submits a task and returns the answer of the server. The request must have an idempotency key: while the
// server is unavailable, and when the stream breaks, a task without an answer is submitted again.
func (s *submitter) submit(
	ctx context.Context, request *taskyardv1.SubmitTaskRequest,
) (answer *taskyardv1.SubmitTaskResponse, err error) {
	size := proto.Size(request)
	outgoing, _ := metadata.FromOutgoingContext(ctx)
	// A larger task could break the stream for all. Metadata belong to one call.
	mayShare := size <= maxBytesPerMessage && len(outgoing) == 0
	_, err = retryWhileUnavailable(ctx, s.conn, s.patience, func(ctx context.Context) (err error) {
		answer, err = s.attempt(ctx, newSubmission(request, size), mayShare)
		return err
	})
	return answer, err
}

func (s *submitter) attempt(
	ctx context.Context, submission *submission, mayShare bool,
) (*taskyardv1.SubmitTaskResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, ErrorFrom(err)
	}
	stream, err := s.begin(submission, mayShare)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if stream != nil {
		answer, err := s.await(ctx, stream, submission)
		if !errors.Is(err, errStreamFailed) {
			return answer, err
		}
	}
	return s.tasks.SubmitTask(ctx, submission.request)
}

// begin counts an attempt and adds its task to a stream. The stream is nil if the attempt must take a unary call.
func (s *submitter) begin(submission *submission, mayShare bool) (*submitStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		closed := errorFrom(status.Error(codes.Canceled, "the client is closed"))
		closed.cause = errClosed
		return nil, closed
	}
	s.attempts.Add(1)
	s.inProgress++
	if !mayShare || s.stream == nil && s.inProgress == 1 {
		return nil, nil
	}
	if s.stream == nil {
		s.stream = newSubmitStream(s)
		s.streams.Go(s.stream.run)
	}
	s.stream.add(submission)
	return s.stream, nil
}

func (s *submitter) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inProgress--
	s.attempts.Done()
}

// await returns the result of a task on a stream. When the context ends, or the answer takes too long, the task is
// taken back unless it was sent already. Other tasks are not affected.
func (s *submitter) await(
	ctx context.Context, stream *submitStream, submission *submission,
) (*taskyardv1.SubmitTaskResponse, error) {
	limit, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case result := <-submission.result:
		return result.answer, result.err
	case <-limit.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case result := <-submission.result:
		return result.answer, result.err
	default:
	}
	stream.abandon(submission)
	if ctx.Err() == nil {
		// The stream is too slow. The next tasks take another one.
		stream.detach()
	}
	return nil, ErrorFrom(limit.Err())
}

// close lets no more attempts begin, and waits for those that have begun, each for no longer than the time-out of a
// call.
func (s *submitter) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.attempts.Wait()
	s.streams.Wait()
}
