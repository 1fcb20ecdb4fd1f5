// A runtime host of the load: it completes its tasks at once.

package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// host is a runtime host whose tasks take no time: it reports the tasks of each message as completed at once.
type host struct {
	stream grpc.BidiStreamingClient[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse]
	// sentAt has the times at which the unanswered messages of reports were sent.
	sentAt chan time.Time
	// assigned is called when a message of tasks has arrived.
	assigned func(at time.Time, assignments []*taskyardv1.Assignment)
	// answered is called for each answer to reports: how many tasks are completed, how many reports were refused, the
	// reason of a refusal, and how long the answer took.
	answered func(completed, refused int, reason string, took time.Duration)
}

// maxUnansweredReports is more messages than a host ever has without an answer: each uses credit.
const maxUnansweredReports = 100_000

// connectHost opens the stream of a host, which takes tasks of one action. The server gets no credit yet.
func connectHost(ctx context.Context, connection *grpc.ClientConn, id string, o *Options) (*host, error) {
	stream, err := taskyardv1.NewRuntimeHostServiceClient(connection).Connect(ctx)
	if err != nil {
		return nil, err
	}
	slots := uint32(o.Slots)
	hello := &taskyardv1.Hello{HostId: id, Instance: id, Slots: &slots, Actions: []string{o.Action}}
	err = stream.Send(&taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Hello{Hello: hello}})
	if err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if answer.GetWelcome() == nil {
		return nil, fmt.Errorf("%s was not welcomed", id)
	}
	return &host{
		stream: stream, sentAt: make(chan time.Time, maxUnansweredReports), assigned: func(time.Time, []*taskyardv1.Assignment) {},
	}, nil
}

// giveCredit allows the server to hand out more tasks.
func (h *host) giveCredit(count int) error {
	credit := &taskyardv1.Credit{Count: uint32(count)}
	return h.stream.Send(&taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Credit{Credit: credit}})
}

// run completes tasks until the stream ends. Like the SDK it sends one message with the reports on a message of tasks,
// and then credit for the slots that are free again.
func (h *host) run(ctx context.Context) error {
	for {
		answer, err := h.stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case answer.GetAssignments() != nil:
			h.assigned(time.Now(), answer.GetAssignments().GetAssignments())
			err = h.complete(answer.GetAssignments().GetAssignments())
		case answer.GetReportResults() != nil:
			h.countResults(answer.GetReportResults().GetResults())
		case answer.GetHeartbeatAck() != nil:
		default:
			err = fmt.Errorf("not expected here: %v", answer)
		}
		if err != nil {
			return err
		}
	}
}

func (h *host) complete(assignments []*taskyardv1.Assignment) error {
	reports := make([]*taskyardv1.Report, len(assignments))
	for i, assignment := range assignments {
		reports[i] = &taskyardv1.Report{
			TaskId:       assignment.GetLease().GetTaskId(),
			FencingToken: assignment.GetLease().GetFencingToken(),
			Event:        &taskyardv1.Report_Completed{Completed: &taskyardv1.TaskCompleted{}},
		}
	}
	h.sentAt <- time.Now()
	message := &taskyardv1.ConnectRequest_Reports{Reports: &taskyardv1.Reports{Reports: reports}}
	if err := h.stream.Send(&taskyardv1.ConnectRequest{Message: message}); err != nil {
		return err
	}
	return h.giveCredit(len(assignments))
}

func (h *host) countResults(results []*taskyardv1.ReportResult) {
	refused, reason := 0, ""
	for _, result := range results {
		if refusal := result.GetError(); refusal != nil {
			refused, reason = refused+1, refusal.GetError()
		}
	}
	h.answered(len(results)-refused, refused, reason, time.Since(<-h.sentAt))
}
