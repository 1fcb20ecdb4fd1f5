package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// host is a runtime host whose work takes no time: it reports each message of tasks as completed at once.
type host struct {
	stream grpc.BidiStreamingClient[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse]
	// reported holds when the reports were sent that have no answer yet.
	reported chan time.Time
	// assigned is told when each message of tasks arrived.
	assigned func(at time.Time)
	// done is told of each answer: tasks completed, reports refused and why, and how long the answer took.
	done func(completed, refused int, why string, took time.Duration)
}

// unansweredReports is more than a host ever has: each message of tasks uses credit that the answer does not give back.
const unansweredReports = 100_000

// connect opens the stream of a host, which takes tasks of one action only, and is welcomed. It has no credit yet.
func connect(ctx context.Context, connection *grpc.ClientConn, id string, o *Options) (*host, error) {
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
		stream: stream, reported: make(chan time.Time, unansweredReports), assigned: func(time.Time) {},
	}, nil
}

// credit allows the server to hand out some tasks more.
func (h *host) credit(count int) error {
	credit := &taskyardv1.Credit{Count: uint32(count)}
	return h.stream.Send(&taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Credit{Credit: credit}})
}

// run works until the stream ends. As the SDK does, it sends the reports of a message of tasks in one message, and then
// credit for the slots that they free.
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
			h.assigned(time.Now())
			err = h.complete(answer.GetAssignments().GetAssignments())
		case answer.GetReportResults() != nil:
			h.answered(answer.GetReportResults().GetResults())
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
	h.reported <- time.Now()
	message := &taskyardv1.ConnectRequest_Reports{Reports: &taskyardv1.Reports{Reports: reports}}
	if err := h.stream.Send(&taskyardv1.ConnectRequest{Message: message}); err != nil {
		return err
	}
	return h.credit(len(assignments))
}

func (h *host) answered(results []*taskyardv1.ReportResult) {
	refused, why := 0, ""
	for _, result := range results {
		if failure := result.GetError(); failure != nil {
			refused, why = refused+1, failure.GetError()
		}
	}
	h.done(len(results)-refused, refused, why, time.Since(<-h.reported))
}
