// A runtime host of the load: it completes its tasks at once.

package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// host is a runtime host whose tasks take no time: it reports the tasks of each message as completed at once.
type host struct {
	stream grpc.BidiStreamingClient[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse]
	// counts says whether the server counts accepted reports, and reads the credit that comes with reports.
	counts bool
	// outputBytes is how many bytes of output may be sent and not acknowledged.
	outputBytes int
	// unanswered has the messages of reports that are not wholly answered, oldest first.
	unanswered []sentReports
	// assigned is called when a message of tasks has arrived.
	assigned func(at time.Time, assignments []*taskyardv1.Assignment)
	// answered is called for each answer to reports: how many tasks are completed, how many reports were refused, the
	// reason of a refusal, and how long the oldest of them waited.
	answered func(completed, refused int, reason string, took time.Duration)
}

// sentReports is a message of reports: when it was sent, and how many of its reports are unanswered.
type sentReports struct {
	at    time.Time
	count int
}

// connectHost opens the stream of a host, which takes tasks of one action. The server gets no credit yet.
func connectHost(ctx context.Context, connection *grpc.ClientConn, id string, o *Options) (*host, error) {
	stream, err := taskyardv1.NewRuntimeHostServiceClient(connection).Connect(ctx)
	if err != nil {
		return nil, err
	}
	slots := uint32(o.Slots)
	hello := &taskyardv1.Hello{HostId: id, Instance: id, Slots: &slots, Actions: []string{o.Action}}
	if o.Pattern == newPattern {
		hello.CountsAccepted = proto.Bool(true)
	}
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
		stream: stream, counts: answer.GetWelcome().GetCountsAccepted(),
		outputBytes: int(answer.GetWelcome().GetOutputBytes()),
		assigned:    func(time.Time, []*taskyardv1.Assignment) {},
	}, nil
}

// giveCredit allows the server to hand out more tasks.
func (h *host) giveCredit(count int) error {
	credit := &taskyardv1.Credit{Count: uint32(count)}
	return h.stream.Send(&taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Credit{Credit: credit}})
}

// run completes tasks until the stream ends. Like the SDK it sends one message with the reports on a message of tasks
// and the credit for the slots that are free again; in the old pattern credit is a message of its own.
func (h *host) run(ctx context.Context) error {
	for {
		answer, err := h.stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		// What is counted was reported before the results that come with the count.
		err = h.take(int(answer.GetAcceptedReports()), answer.GetReportResults().GetResults())
		if err != nil {
			return err
		}
		switch {
		case answer.GetAssignments() != nil:
			h.assigned(time.Now(), answer.GetAssignments().GetAssignments())
			err = h.complete(answer.GetAssignments().GetAssignments())
		case answer.GetReportResults() != nil, answer.GetHeartbeatAck() != nil:
		case answer.GetMessage() == nil && (answer.AcceptedReports > 0 || answer.AcknowledgedHeartbeat != nil):
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
	message := &taskyardv1.Reports{Reports: reports}
	if h.counts {
		message.Credit = uint32(len(assignments))
	}
	h.unanswered = append(h.unanswered, sentReports{at: time.Now(), count: len(reports)})
	err := h.stream.Send(&taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Reports{Reports: message}})
	if err != nil || h.counts {
		return err
	}
	return h.giveCredit(len(assignments))
}

// take notes an answer: so many accepted reports, and then the results of others. An error is a server that answers more
// than was reported.
func (h *host) take(accepted int, results []*taskyardv1.ReportResult) error {
	left := accepted + len(results)
	if left == 0 {
		return nil
	}
	refused, reason := 0, ""
	for _, result := range results {
		if refusal := result.GetError(); refusal != nil {
			refused, reason = refused+1, refusal.GetError()
		}
	}
	if len(h.unanswered) == 0 {
		return fmt.Errorf("%d answers to no report", left)
	}
	completed, took := left-refused, time.Since(h.unanswered[0].at)
	for left > 0 {
		if len(h.unanswered) == 0 {
			return fmt.Errorf("%d answers more than reports", left)
		}
		oldest := &h.unanswered[0]
		answered := min(left, oldest.count)
		left, oldest.count = left-answered, oldest.count-answered
		if oldest.count == 0 {
			h.unanswered = h.unanswered[1:]
		}
	}
	h.answered(completed, refused, reason, took)
	return nil
}
