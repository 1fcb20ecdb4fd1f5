// Heartbeats of a host: their interval, and what they report.

package taskyard

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestNewHeartbeatIntervalTakesEffectAtOnce(t *testing.T) {
	sequences := make(chan uint32, 10)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		if _, err := host.welcome(); err != nil {
			return err
		}
		// The interval of the Welcome is an hour. Each new one begins with a heartbeat.
		for _, ms := range []uint32{2 * hourMs, 3 * hourMs, 10} {
			if err := host.setInterval(ms); err != nil {
				return err
			}
			heartbeat, err := host.heartbeat()
			if err != nil {
				return err
			}
			sequences <- heartbeat.GetSequence()
		}
		// These are due by the last interval.
		for range 2 {
			heartbeat, err := host.heartbeat()
			if err != nil {
				return err
			}
			sequences <- heartbeat.GetSequence()
		}
		return host.acceptAll(func(*taskyardv1.Report) {})
	}}
	countHandlers(t, f)
	for want := uint32(1); want <= 5; want++ {
		if got := receive(t, sequences); got != want {
			t.Errorf("heartbeat %d, want %d", got, want)
		}
	}
}

func TestNextStreamHasTheHeartbeatIntervalOfItsWelcome(t *testing.T) {
	arrived := make(chan bool, 1)
	f := &fakeServer{connectHost: func(number int, host *fakeHostStream) error {
		if number == 2 {
			host.intervalMs = 10
		}
		if _, err := host.welcome(); err != nil {
			return err
		}
		if number == 1 {
			if err := host.setInterval(2 * hourMs); err != nil {
				return err
			}
		}
		// On the second stream the first heartbeat could still be a reaction to the new interval on the first stream.
		for range number {
			if _, err := host.heartbeat(); err != nil {
				return err
			}
		}
		if number == 1 {
			return status.Error(codes.Unavailable, "the stream breaks")
		}
		arrived <- true
		return host.acceptAll(func(*taskyardv1.Report) {})
	}}
	countHandlers(t, f)
	receive(t, arrived)
}

func TestIntervalOfHeartbeatsIsNeverAlmostNone(t *testing.T) {
	for ms, want := range map[uint32]time.Duration{0: time.Minute, 1: 10 * time.Millisecond, 333: 333 * time.Millisecond} {
		if got := intervalOf(&taskyardv1.Welcome{HeartbeatIntervalMs: ms}, time.Minute); got != want {
			t.Errorf("%d ms: %v, want %v", ms, got, want)
		}
	}
}

func TestServerThatNamesNoIntervalGetsNoMoreHeartbeatsThanNeeded(t *testing.T) {
	heartbeats := make(chan uint32, 1_000)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		host.intervalMs = 0
		if _, err := host.welcome(); err != nil {
			return err
		}
		if err := host.setInterval(0); err != nil {
			return err
		}
		for {
			heartbeat, err := host.heartbeat()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			heartbeats <- heartbeat.GetSequence()
		}
	}}
	countHandlers(t, f)
	// As after any change, one is due at once.
	receive(t, heartbeats)
	select {
	case sequence := <-heartbeats:
		t.Errorf("heartbeat %d", sequence)
	case <-time.After(200 * time.Millisecond):
	}
}

func TestHeartbeatCarriesTheTokensThatAHandlerStatedWithoutProgress(t *testing.T) {
	stated, listed := make(chan bool), make(chan *taskyardv1.HeldLease, 1)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		if _, err := host.welcome(); err != nil {
			return err
		}
		if err := host.assign("a", &taskyardv1.Task{Action: proto.String("work")}); err != nil {
			return err
		}
		<-stated
		if err := host.setInterval(2 * hourMs); err != nil {
			return err
		}
		heartbeat, err := host.heartbeat()
		if err != nil {
			return err
		}
		listed <- heartbeat.GetLeases()[0]
		return host.acceptAll(func(*taskyardv1.Report) {})
	}}
	end := make(chan bool)
	runHost(t, f, func(_ context.Context, task *RunningTask) (any, error) {
		task.SetTokensUsed(7)
		stated <- true
		<-end
		return nil, nil
	})
	lease := receive(t, listed)
	close(end)
	if lease.GetTaskId() != "a" || lease.TokensUsed == nil || lease.GetTokensUsed() != 7 {
		t.Errorf("the heartbeat lists %v", lease)
	}
}
