// Streams of submissions: how a test makes tasks share one, and how the fake server answers.

package taskyard

import (
	"context"
	"errors"
	"io"
	"testing"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// shareStreams lets the next submissions of a client share streams, as if one were always in progress.
func shareStreams(t *testing.T, client *Client) {
	t.Helper()
	count := func(n int) {
		client.submitter.mu.Lock()
		defer client.submitter.mu.Unlock()
		client.submitter.inProgress += n
	}
	count(1)
	t.Cleanup(func() { count(-1) })
}

// accept accepts all tasks of a message. The id of each is its action.
func accept(request *taskyardv1.SubmitTasksRequest) *taskyardv1.SubmitTasksResponse {
	answer := &taskyardv1.SubmitTasksResponse{}
	for _, task := range request.GetTasks() {
		answer.Outcomes = append(answer.Outcomes, &taskyardv1.SubmitOutcome{
			Outcome: &taskyardv1.SubmitOutcome_Accepted{Accepted: &taskyardv1.SubmitTaskResponse{TaskId: &task.Action}},
		})
	}
	return answer
}

// refuse refuses the only task of a message.
func refuse(refusal *taskyardv1.Error) *taskyardv1.SubmitTasksResponse {
	return &taskyardv1.SubmitTasksResponse{Outcomes: []*taskyardv1.SubmitOutcome{{
		Outcome: &taskyardv1.SubmitOutcome_Error{Error: refusal},
	}}}
}

// acceptAllTasks accepts all tasks until the client half-closes. Each message is passed to seen.
func acceptAllTasks(stream submitTasksStream, seen func(*taskyardv1.SubmitTasksRequest)) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		seen(request)
		if err := stream.Send(accept(request)); err != nil {
			return err
		}
	}
}

type submitOutcome struct {
	task *Submitted
	err  error
}

// submitAsync submits a task in a goroutine of its own.
func submitAsync(ctx context.Context, client *Client, task NewTask) <-chan submitOutcome {
	ended := make(chan submitOutcome, 1)
	go func() {
		task, err := client.Submit(ctx, task)
		ended <- submitOutcome{task, err}
	}()
	return ended
}

// waitForStream waits until the stream of a client has this many unanswered messages and queued tasks.
func waitForStream(t *testing.T, client *Client, unanswered, queued int) {
	t.Helper()
	eventually(t, func() bool {
		client.submitter.mu.Lock()
		defer client.submitter.mu.Unlock()
		stream := client.submitter.stream
		return stream != nil && len(stream.unanswered) == unanswered && len(stream.queue) == queued
	})
}
