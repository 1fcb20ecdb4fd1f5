// The server's end of the stream of a host, in the fake server.

package taskyard

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// runHost runs a host of one slot and one action, work, against a fake server until the test ends.
func runHost(t *testing.T, f *fakeServer, handler Handler) {
	t.Helper()
	host := NewHost(serve(t, f), "host", HostOptions{Slots: 1})
	host.Handle("work", handler)
	ctx, drain := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- host.Run(ctx) }()
	t.Cleanup(func() {
		drain()
		if err := receive(t, left); err != nil {
			t.Error(err)
		}
	})
}

// countHandlers is runHost with handlers that return at once. It returns how many have begun.
func countHandlers(t *testing.T, f *fakeServer) (begun *atomic.Int32) {
	t.Helper()
	begun = new(atomic.Int32)
	runHost(t, f, func(context.Context, *RunningTask) (any, error) {
		begun.Add(1)
		return nil, nil
	})
	return begun
}

// fakeHostStream is the server's end of the stream of a host.
type fakeHostStream struct {
	grpc.BidiStreamingServer[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse]
	// intervalMs is the interval of heartbeats in the Welcome. Default: an hour.
	intervalMs uint32
	// counts says whether the Welcome promises to count accepted reports.
	counts bool
}

const hourMs = 3_600_000

// Connect passes the stream to connectHost.
func (f *fakeServer) Connect(
	stream grpc.BidiStreamingServer[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse],
) error {
	f.mu.Lock()
	f.hostStreams++
	number := f.hostStreams
	f.mu.Unlock()
	return f.connectHost(number, &fakeHostStream{BidiStreamingServer: stream, intervalMs: hourMs})
}

// DrainHost accepts the call, late enough for other messages of the host to arrive before its answer.
func (f *fakeServer) DrainHost(
	context.Context, *taskyardv1.DrainHostRequest,
) (*taskyardv1.DrainHostResponse, error) {
	time.Sleep(50 * time.Millisecond)
	f.noteLeaving("drain answered")
	return &taskyardv1.DrainHostResponse{}, nil
}

// DeregisterHost accepts the call.
func (f *fakeServer) DeregisterHost(
	context.Context, *taskyardv1.DeregisterHostRequest,
) (*taskyardv1.DeregisterHostResponse, error) {
	f.noteLeaving("deregistered")
	return &taskyardv1.DeregisterHostResponse{}, nil
}

// welcome reads the Hello and answers it. The leases of the given names are kept.
func (s *fakeHostStream) welcome(kept ...string) (*taskyardv1.Hello, error) {
	message, err := s.Recv()
	if err != nil {
		return nil, err
	}
	welcome := &taskyardv1.Welcome{
		HeartbeatIntervalMs: s.intervalMs, LeaseSecs: 60, ReconnectGraceMs: 60_000,
		CountsAccepted: s.counts && message.GetHello().GetCountsAccepted(),
	}
	for _, name := range kept {
		welcome.Kept = append(welcome.Kept, leaseNamed(name))
	}
	return message.GetHello(), s.Send(&taskyardv1.ConnectResponse{
		Message: &taskyardv1.ConnectResponse_Welcome{Welcome: welcome},
	})
}

// assign waits for credit, then hands out a task.
func (s *fakeHostStream) assign(lease string, task *taskyardv1.Task) error {
	for {
		message, err := s.Recv()
		if err != nil {
			return err
		}
		if message.GetCredit() != nil {
			break
		}
	}
	return s.hand(lease, task)
}

// hand hands out a task.
func (s *fakeHostStream) hand(lease string, task *taskyardv1.Task) error {
	task.TaskId = leaseNamed(lease).TaskId
	return s.Send(&taskyardv1.ConnectResponse{Message: &taskyardv1.ConnectResponse_Assignments{
		Assignments: &taskyardv1.Assignments{
			Assignments: []*taskyardv1.Assignment{{Lease: leaseNamed(lease), Task: task}},
		},
	}})
}

// stop has the host stop a task.
func (s *fakeHostStream) stop(name string, reason taskyardv1.Cancellation_Reason) error {
	lease := leaseNamed(name)
	cancellation := &taskyardv1.Cancellation{
		TaskId: lease.GetTaskId(), FencingToken: lease.GetFencingToken(), Reason: reason, Message: "it is to stop",
	}
	return s.Send(&taskyardv1.ConnectResponse{Message: &taskyardv1.ConnectResponse_Cancellations{
		Cancellations: &taskyardv1.Cancellations{Cancellations: []*taskyardv1.Cancellation{cancellation}},
	}})
}

// setInterval sends a new interval of heartbeats, in milliseconds.
func (s *fakeHostStream) setInterval(ms uint32) error {
	return s.Send(&taskyardv1.ConnectResponse{Message: &taskyardv1.ConnectResponse_HeartbeatInterval{
		HeartbeatInterval: &taskyardv1.HeartbeatInterval{HeartbeatIntervalMs: ms},
	}})
}

// heartbeat waits for the next heartbeat, and accepts the reports that come before it.
func (s *fakeHostStream) heartbeat() (*taskyardv1.Heartbeat, error) {
	for {
		message, err := s.Recv()
		if err != nil {
			return nil, err
		}
		if heartbeat := message.GetHeartbeat(); heartbeat != nil {
			return heartbeat, nil
		}
		if reports := message.GetReports().GetReports(); len(reports) > 0 {
			if err := s.answer(reports, ""); err != nil {
				return nil, err
			}
		}
	}
}

// reports waits for the next message of reports.
func (s *fakeHostStream) reports() ([]*taskyardv1.Report, error) {
	for {
		message, err := s.Recv()
		if err != nil {
			return nil, err
		}
		if reports := message.GetReports().GetReports(); len(reports) > 0 {
			return reports, nil
		}
	}
}

// answer answers a message of reports. All of them are refused with the code, or accepted if that is "".
func (s *fakeHostStream) answer(reports []*taskyardv1.Report, code Code) error {
	results := &taskyardv1.ReportResults{}
	for range reports {
		result := &taskyardv1.ReportResult{}
		if code != "" {
			result.Error = &taskyardv1.Error{Code: proto.String(string(code)), Error: proto.String("refused")}
		}
		results.Results = append(results.Results, result)
	}
	return s.Send(&taskyardv1.ConnectResponse{
		Message: &taskyardv1.ConnectResponse_ReportResults{ReportResults: results},
	})
}

// acceptAll accepts all reports until the host half-closes. Each one is passed to seen.
func (s *fakeHostStream) acceptAll(seen func(*taskyardv1.Report)) error {
	for {
		reports, err := s.reports()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, report := range reports {
			seen(report)
		}
		if err := s.answer(reports, ""); err != nil {
			return err
		}
	}
}
