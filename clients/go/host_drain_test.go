// Hosts that leave.

package taskyard

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestDrainFinishesRunningTasksAndTakesNoNewOnes(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{Slots: 2})
	running := h.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, h.begun)
	h.drain()
	eventually(t, func() bool { return findHost(ctx, t, client, "host").GetDraining() })
	queued := h.submit(ctx, t, NewTask{Action: "echo"})
	h.release <- struct{}{}
	if err := receive(t, h.left); err != nil {
		t.Error(err)
	}
	if task := must(client.Get(ctx, running))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
	if task := must(client.Get(ctx, queued))(t); task.State != StateQueued {
		t.Errorf("%+v", task)
	}
}

func TestDrainInterruptsTasksAfterItsGraceAndGivesThemBack(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{DrainGrace: 50 * time.Millisecond})
	id := h.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, h.begun)
	h.drain()
	if err := receive(t, h.stopped); !isStop(err, "draining") {
		t.Error(err)
	}
	if err := receive(t, h.left); err != nil {
		t.Error(err)
	}
	if task := must(client.Get(ctx, id))(t); task.State != StateQueued {
		t.Errorf("%+v", task)
	}
}

func TestHostLeavesWhenTheServerDrainsIt(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{})
	id := h.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, h.begun)
	hosts := taskyardv1.NewRuntimeHostServiceClient(client.Conn())
	must(hosts.DrainHost(ctx, &taskyardv1.DrainHostRequest{HostId: "host"}))(t)
	h.release <- struct{}{}
	if err := receive(t, h.left); err != nil {
		t.Error(err)
	}
	if task := must(client.Get(ctx, id))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
}

// Both calls name the host by its id alone. After the end of its stream they could reach the next host of that id.
func TestLeavingHostEndsItsStreamOnlyAfterItsOtherCalls(t *testing.T) {
	connected := make(chan bool, 1)
	f := &fakeServer{}
	f.connectHost = func(_ int, stream *fakeHostStream) error {
		if _, err := stream.welcome(); err != nil {
			return err
		}
		if message, err := stream.Recv(); err != nil || message.GetCredit() == nil {
			return errors.Join(err, status.Error(codes.Internal, "no credit"))
		}
		connected <- true
		err := stream.acceptAll(func(*taskyardv1.Report) {})
		f.noteLeaving("end of stream")
		return err
	}
	host := NewHost(serve(t, f), "host", HostOptions{})
	host.Handle("work", func(context.Context, *RunningTask) (any, error) { return nil, nil })
	ctx, drain := context.WithCancel(testContext(t))
	left := make(chan error, 1)
	go func() { left <- host.Run(ctx) }()
	receive(t, connected)
	drain()
	if err := receive(t, left); err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if want := []string{"drain answered", "deregistered", "end of stream"}; !slices.Equal(f.leaving, want) {
		t.Errorf("the host has left by %q", f.leaving)
	}
}

func TestRunEndsWhenTheClientIsClosed(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{})
	h.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, h.begun)
	_ = client.Close()
	if err := receive(t, h.left); CodeOf(err) != CodeCancelled {
		t.Error(err)
	}
	if err := receive(t, h.stopped); !isStop(err, "draining") {
		t.Error(err)
	}
}

func TestRunEndsWithoutAHandlerThatIgnoresItsContext(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	hostContext, drain := context.WithCancel(ctx)
	began, end := make(chan struct{}, 1), make(chan struct{})
	host := NewHost(client, "host", HostOptions{DrainGrace: time.Millisecond})
	host.Handle("endless", func(context.Context, *RunningTask) (any, error) {
		began <- struct{}{}
		<-end
		return nil, nil
	})
	left := make(chan error, 1)
	go func() { left <- host.Run(hostContext) }()
	must(client.Submit(ctx, NewTask{Action: "endless"}))(t)
	receive(t, began)
	drain()
	if err := receive(t, left); err != nil {
		t.Error(err)
	}
	close(end)
}
