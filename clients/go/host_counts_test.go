// Hosts of a server that counts accepted reports.

package taskyard

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// countReports answers a message of reports by a count, and the heartbeat that came with it by its number.
func (s *fakeHostStream) countReports(reports *taskyardv1.Reports) error {
	answer := &taskyardv1.ConnectResponse{AcceptedReports: uint32(len(reports.GetReports()))}
	if reports.GetHeartbeat() != nil {
		answer.AcknowledgedHeartbeat = proto.Uint32(reports.GetHeartbeat().GetSequence())
	}
	return s.Send(answer)
}

func TestHeartbeatsAndCreditComeWithReports(t *testing.T) {
	seen := make(chan string, 1)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		host.counts, host.intervalMs = true, 200
		if _, err := host.welcome(); err != nil {
			return err
		}
		// The credit of all slots comes alone.
		if err := host.assign("t0", &taskyardv1.Task{Action: proto.String("work")}); err != nil {
			return err
		}
		for tasks, riding := 1, 0; ; {
			message, err := host.Recv()
			if err != nil {
				return err
			}
			reports := message.GetReports()
			if message.GetCredit() != nil {
				seen <- "credit alone"
			}
			if reports == nil {
				continue
			}
			if err := host.countReports(reports); err != nil {
				return err
			}
			if reports.GetHeartbeat() != nil {
				riding++
			}
			if riding == 3 {
				seen <- "three heartbeats"
				return host.acceptAll(func(*taskyardv1.Report) {})
			}
			if reports.GetCredit() > 0 {
				name := fmt.Sprintf("t%d", tasks)
				tasks++
				if err := host.hand(name, &taskyardv1.Task{Action: proto.String("work")}); err != nil {
					return err
				}
			}
		}
	}}
	countHandlers(t, f)
	if got := receive(t, seen); got != "three heartbeats" {
		t.Error(got)
	}
}

func TestTaskWithTargetBeginsWhenItsStartIsCounted(t *testing.T) {
	begins := make(chan bool, 2)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		host.counts = true
		if _, err := host.welcome(); err != nil {
			return err
		}
		if err := host.assign("t", &taskyardv1.Task{Action: proto.String("work"), Target: proto.String("page")}); err != nil {
			return err
		}
		if _, err := host.reports(); err != nil {
			return err
		}
		begins <- false
		if err := host.Send(&taskyardv1.ConnectResponse{AcceptedReports: 1}); err != nil {
			return err
		}
		reports, err := host.reports()
		if err != nil {
			return err
		}
		if err := host.countReports(&taskyardv1.Reports{Reports: reports}); err != nil {
			return err
		}
		begins <- reports[0].GetCompleted() != nil
		return host.acceptAll(func(*taskyardv1.Report) {})
	}}
	begun := countHandlers(t, f)
	receive(t, begins)
	if !receive(t, begins) || begun.Load() != 1 {
		t.Errorf("%d handlers have begun", begun.Load())
	}
}
