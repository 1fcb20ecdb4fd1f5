// Hosts that lose their connection, their leases or their place.

package taskyard

import (
	"context"
	"testing"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestHandlerIsStoppedWhenTheServerCannotBeReachedForLongerThanItsLease(t *testing.T) {
	proxy := startProxy(t, address)
	namespace := WithNamespace("lease-loss")
	client, ctx := connect(t, address, namespace), testContext(t)
	h := startHost(t, connect(t, proxy.address, namespace), "host", HostOptions{Lease: time.Second})
	id := h.submit(ctx, t, NewTask{Action: "hold", RetryPolicy: &RetryPolicy{MaxAttempts: 2, FirstDelay: time.Millisecond}})
	receive(t, h.begun)
	proxy.block()
	if err := receive(t, h.stopped); !isStop(err, "lease_lost") {
		t.Error(err)
	}
	if task := must(client.Get(ctx, id))(t); task.State == StateDone {
		t.Errorf("%+v", task)
	}
	proxy.unblock()
	if task := receive(t, h.begun); task.FencingToken != 2 {
		t.Errorf("%+v", task)
	}
	h.release <- struct{}{}
	if task := must(client.Wait(ctx, id))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
}

func TestReconnectKeepsLeasesAndRunningHandlers(t *testing.T) {
	proxy := startProxy(t, address)
	namespace := WithNamespace("adoption")
	client, ctx := connect(t, address, namespace), testContext(t)
	h := startHost(t, connect(t, proxy.address, namespace), "host", HostOptions{Slots: 2})
	running, ending := h.submit(ctx, t, NewTask{Action: "hold"}), h.submit(ctx, t, NewTask{Action: "hold"})
	tokens := map[string]float64{}
	for range 2 {
		begun := receive(t, h.begun)
		tokens[begun.ID] = float64(begun.FencingToken)
	}
	if tokens[running] != 1 || tokens[ending] != 2 {
		t.Error(tokens)
	}
	proxy.block()
	// One ends while there is no connection: its outcome is reported afterwards.
	h.release <- struct{}{}
	receive(t, proxy.refused)
	proxy.unblock()
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
	proxy.cut()
	h.release <- struct{}{}
	for _, id := range []string{running, ending} {
		task := must(client.Wait(ctx, id))(t)
		if task.State != StateDone || task.Result.(map[string]any)["token"] != tokens[id] {
			t.Errorf("%+v", task)
		}
	}
	if len(h.begun) != 0 || len(h.stopped) != 0 {
		t.Error("handlers that began again, or were stopped:", len(h.begun), len(h.stopped))
	}
}

func TestHostReconnectsToARestartedServerAndStopsItsHandlers(t *testing.T) {
	serverAddress, ctx := freeAddress(), testContext(t)
	client := connect(t, serverAddress)
	first := must(startServer(t.TempDir(), serverAddress))(t)
	h := startHost(t, client, "host", HostOptions{})
	h.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, h.begun)
	first.kill()
	second := must(startServer(t.TempDir(), serverAddress))(t)
	defer second.kill()
	// The new server knows of no lease.
	if err := receive(t, h.stopped); !isStop(err, "lease_lost") {
		t.Error(err)
	}
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
	h.drain()
	if err := receive(t, h.left); err != nil {
		t.Error(err)
	}
}

func TestDeregisteredHostStopsItsHandlersAndReconnects(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	h := startHost(t, client, "host", HostOptions{})
	id := h.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, h.begun)
	hosts := taskyardv1.NewRuntimeHostServiceClient(client.Conn())
	must(hosts.DeregisterHost(ctx, &taskyardv1.DeregisterHostRequest{HostId: "host"}))(t)
	if err := receive(t, h.stopped); err == nil {
		t.Error("stopped without a cause")
	}
	receive(t, h.begun)
	h.release <- struct{}{}
	if task := must(client.Wait(ctx, id))(t); task.State != StateDone {
		t.Errorf("%+v", task)
	}
}

func TestSecondHostWithAnIDTakesOverWhenTheFirstHasLeft(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	first := startHost(t, client, "host", HostOptions{Slots: 1})
	must(client.Run(ctx, NewTask{Action: "echo"}))(t)
	second := startHost(t, client, "host", HostOptions{Slots: 1})
	id := first.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, first.begun)
	first.drain()
	first.release <- struct{}{}
	must(client.Wait(ctx, id))(t)
	if err := receive(t, first.left); err != nil {
		t.Error(err)
	}
	second.submit(ctx, t, NewTask{Action: "hold"})
	receive(t, second.begun)
	second.release <- struct{}{}
}

func TestRunEndsWithTheErrorWhenTheServerRefusesTheHost(t *testing.T) {
	client := connect(t, address)
	for name, host := range map[string]*Host{
		"no id":          NewHost(client, "", HostOptions{}),
		"too long lease": NewHost(client, "host", HostOptions{Lease: 2 * time.Hour}),
		"not UTF-8":      NewHost(client, "host", HostOptions{DisplayName: "\xff"}),
	} {
		host.HandleAny(func(context.Context, *RunningTask) (any, error) { return nil, nil })
		if err := host.Run(testContext(t)); CodeOf(err) != CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := NewHost(client, "host", HostOptions{}).Run(testContext(t)); err == nil {
		t.Error("a host without handlers runs")
	}
}
