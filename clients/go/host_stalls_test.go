// Leases that end while the process of the host stands still (docs/rules.md, Stalls).

package taskyard

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// stalledHost returns a run of a host that holds a task whose lease ended a minute ago, which the session has not
// noticed.
func stalledHost(t *testing.T, task *taskyardv1.Task) *hostRun {
	t.Helper()
	host := NewHost(connect(t, address), "host", HostOptions{Slots: 1})
	host.Handle("work", func(context.Context, *RunningTask) (any, error) {
		t.Error("the handler began")
		return nil, nil
	})
	r := newHostRun(host)
	r.handlersContext = t.Context()
	r.session.streamOpened(&taskyardv1.Welcome{}, time.Now().Add(-2*time.Minute))
	task.TaskId = leaseNamed("a").TaskId
	r.session.taskAssigned(&taskyardv1.Assignment{Lease: leaseNamed("a"), Task: task})
	return r
}

// recordedStream records what is written to it. It calls done after credit, which is the last message.
type recordedStream struct {
	connectStream
	sent []string
	done func()
}

func (s *recordedStream) Send(message *taskyardv1.ConnectRequest) error {
	s.sent = append(s.sent, showMessages([]*taskyardv1.ConnectRequest{message}))
	if message.GetCredit() != nil {
		s.done()
	}
	return nil
}

func TestHandlerDoesNotBeginWhenTheLeaseEndedBeforeTheStartReportWasWritten(t *testing.T) {
	r := stalledHost(t, &taskyardv1.Task{Action: proto.String("work")})
	ctx, cancel := context.WithCancel(testContext(t))
	stream := &recordedStream{done: cancel}
	r.write(ctx, stream)
	r.runningHandlers.Wait()
	if want := []string{"a:started", "a:released", "credit 1"}; !slices.Equal(stream.sent, want) {
		t.Errorf("the host sends %q", stream.sent)
	}
}

func TestHandlerDoesNotBeginWhenTheLeaseEndedBeforeTheStartReportWasAnswered(t *testing.T) {
	r := stalledHost(t, &taskyardv1.Task{Action: proto.String("work"), Target: proto.String("page")})
	for _, message := range r.session.nextMessages(nil) {
		r.session.messageWritten(message)
	}
	r.received(&taskyardv1.ConnectResponse{Message: &taskyardv1.ConnectResponse_ReportResults{
		ReportResults: &taskyardv1.ReportResults{Results: []*taskyardv1.ReportResult{{}}},
	}})
	r.runningHandlers.Wait()
	if sent := showMessages(r.session.nextMessages(nil)); sent != "a:released | credit 1" {
		t.Errorf("the host sends %q", sent)
	}
}
