package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// delayingServer answers a message of SubmitTasks when it has a window of messages, or all. It refuses the first task
// of each.
type delayingServer struct {
	taskyardv1.UnimplementedTaskServiceServer
	window int
}

func (d *delayingServer) SubmitTasks(
	stream grpc.BidiStreamingServer[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse],
) error {
	var held []*taskyardv1.SubmitTasksRequest
	for {
		request, err := stream.Recv()
		if err == nil {
			held = append(held, request)
		}
		for len(held) >= d.window || err != nil && len(held) > 0 {
			outcomes := make([]*taskyardv1.SubmitOutcome, len(held[0].GetTasks()))
			for i := range outcomes {
				outcomes[i] = &taskyardv1.SubmitOutcome{}
			}
			outcomes[0].Outcome = &taskyardv1.SubmitOutcome_Error{Error: &taskyardv1.Error{}}
			if err := stream.Send(&taskyardv1.SubmitTasksResponse{Outcomes: outcomes}); err != nil {
				return err
			}
			held = held[1:]
		}
		if err != nil {
			return nil
		}
	}
}

func TestStreamHasNoMoreUnansweredMessagesThanItsWindow(t *testing.T) {
	const window, messages = 3, 2000
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	taskyardv1.RegisterTaskServiceServer(server, &delayingServer{window: window})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	o := &Options{Address: listener.Addr().String(), Connections: 1, Submitters: 1, Inflight: window, Batch: 5, Agents: 9}
	accepted, refused := 0, 0
	var unanswered atomic.Int64
	_, err = during(t.Context(), func(w *work) (*Result, error) {
		submissions, err := openSubmissions(w, &Meter{}, o)
		if err != nil {
			return nil, err
		}
		submission := submissions[0]
		submission.before = func(context.Context, int) error {
			if now := unanswered.Add(1); now > window {
				t.Errorf("%d messages unanswered", now)
			}
			return nil
		}
		submission.answered = func(taken, failed int, _ string, _ time.Duration) {
			unanswered.Add(-1)
			accepted, refused = accepted+taken, refused+failed
		}
		return nil, submission.run(w.ctx, messages)
	})
	if err != nil {
		t.Fatal(err)
	}
	if accepted != messages*4 || refused != messages {
		t.Errorf("%d accepted and %d refused", accepted, refused)
	}
}

func TestLoadEndsWithTheErrorOfABrokenStream(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer() // Without services.
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	o := &Options{
		Address: listener.Addr().String(), Measured: time.Hour,
		Connections: 1, Submitters: 2, Inflight: 1, Batch: 5, Agents: 9,
	}
	_, err = runStream(t.Context(), o)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}
