package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// reportingServer hands a host three tasks, waits for its reports and credit, and answers as it is told to.
type reportingServer struct {
	taskyardv1.UnimplementedRuntimeHostServiceServer
	counts  bool
	answers []*taskyardv1.ConnectResponse
	heard   chan string
}

func (s *reportingServer) Connect(
	stream grpc.BidiStreamingServer[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse],
) error {
	hello, err := stream.Recv()
	if err != nil {
		return err
	}
	welcome := &taskyardv1.Welcome{CountsAccepted: s.counts && hello.GetHello().GetCountsAccepted()}
	tasks := &taskyardv1.Assignments{}
	for range 3 {
		tasks.Assignments = append(tasks.Assignments, &taskyardv1.Assignment{})
	}
	first := []*taskyardv1.ConnectResponse{
		{Message: &taskyardv1.ConnectResponse_Welcome{Welcome: welcome}},
		{Message: &taskyardv1.ConnectResponse_Assignments{Assignments: tasks}},
	}
	for _, message := range first {
		if err := stream.Send(message); err != nil {
			return err
		}
	}
	for credit := 0; credit < 3; {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		reports := request.GetReports()
		s.heard <- fmt.Sprintf("%d reports, credit %d", len(reports.GetReports()), reports.GetCredit())
		credit += int(reports.GetCredit() + request.GetCredit().GetCount())
	}
	for _, answer := range s.answers {
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func results(refusals ...string) *taskyardv1.ConnectResponse_ReportResults {
	answer := &taskyardv1.ReportResults{}
	for _, refusal := range refusals {
		result := &taskyardv1.ReportResult{}
		if refusal != "" {
			result.Error = &taskyardv1.Error{Error: proto.String(refusal)}
		}
		answer.Results = append(answer.Results, result)
	}
	return &taskyardv1.ConnectResponse_ReportResults{ReportResults: answer}
}

// hostOf runs a host against a server, and returns what the server heard and what the host was answered. It waits for
// all three reports to be answered.
func hostOf(t *testing.T, server *reportingServer, pattern string) (heard, answered []string) {
	t.Helper()
	server.heard = make(chan string, 10)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	taskyardv1.RegisterRuntimeHostServiceServer(grpcServer, server)
	go func() { _ = grpcServer.Serve(listener) }()
	defer grpcServer.Stop()
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host, err := connectHost(ctx, connection, "host", &Options{Slots: 3, Pattern: pattern})
	if err != nil {
		t.Fatal(err)
	}
	left := 3
	host.answered = func(completed, refused int, reason string, _ time.Duration) {
		answered = append(answered, fmt.Sprintf("%d completed, %d refused %s", completed, refused, reason))
		if left -= completed + refused; left == 0 {
			cancel()
		}
	}
	if err := host.run(ctx); err != nil {
		t.Fatal(err)
	}
	close(server.heard)
	for each := range server.heard {
		heard = append(heard, each)
	}
	return heard, answered
}

func TestHostTakesCountsAndResultsOfRefusedReports(t *testing.T) {
	server := &reportingServer{counts: true, answers: []*taskyardv1.ConnectResponse{
		{AcceptedReports: 1, Message: results("lease lost")}, {AcceptedReports: 1},
	}}
	heard, answered := hostOf(t, server, newPattern)
	if !slices.Equal(heard, []string{"3 reports, credit 3"}) {
		t.Errorf("the server heard %q", heard)
	}
	if !slices.Equal(answered, []string{"1 completed, 1 refused lease lost", "1 completed, 0 refused "}) {
		t.Errorf("the host was answered %q", answered)
	}
}

func TestHostReportsInTheOldPatternIfToldToOrIfTheServerDoesNotCount(t *testing.T) {
	for _, each := range []struct {
		counts  bool
		pattern string
	}{{counts: true, pattern: oldPattern}, {counts: false, pattern: newPattern}} {
		server := &reportingServer{counts: each.counts, answers: []*taskyardv1.ConnectResponse{
			{Message: results("", "lease lost", "")},
		}}
		heard, answered := hostOf(t, server, each.pattern)
		if !slices.Equal(heard, []string{"3 reports, credit 0", "0 reports, credit 0"}) {
			t.Errorf("%+v: the server heard %q", each, heard)
		}
		if !slices.Equal(answered, []string{"2 completed, 1 refused lease lost"}) {
			t.Errorf("%+v: the host was answered %q", each, answered)
		}
	}
}
