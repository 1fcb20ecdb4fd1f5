// A host that runs against the real server while a test goes on.

package taskyard

import (
	"context"
	"errors"
	"testing"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// runningHost is a host with the actions echo, which returns its params, and hold, which waits for release.
type runningHost struct {
	client *Client
	drain  context.CancelFunc
	left   chan error // Gets the result of Run.
	// begun gets each task of the action hold whose handler begins.
	begun chan *RunningTask
	// stopped gets the cause that ended the context of such a handler.
	stopped chan error
	// release lets one such handler return.
	release chan struct{}
}

// startHost runs a host until the test ends.
func startHost(t *testing.T, client *Client, id string, options HostOptions) *runningHost {
	t.Helper()
	ctx, drain := context.WithCancel(t.Context())
	h := &runningHost{
		client: client, drain: drain, left: make(chan error, 1), begun: make(chan *RunningTask, 100),
		stopped: make(chan error, 100), release: make(chan struct{}),
	}
	host := NewHost(client, id, options)
	host.Handle("echo", func(_ context.Context, task *RunningTask) (any, error) { return task.Params, nil })
	host.Handle("hold", func(ctx context.Context, task *RunningTask) (any, error) {
		h.begun <- task
		select {
		case <-h.release:
			return map[string]any{"attempt": task.Attempt, "token": task.FencingToken}, nil
		case <-ctx.Done():
			h.stopped <- context.Cause(ctx)
			return nil, ctx.Err()
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.left <- host.Run(ctx)
	}()
	t.Cleanup(func() {
		drain()
		select {
		case h.release <- struct{}{}:
		case <-done:
		}
		<-done
	})
	return h
}

func (h *runningHost) submit(ctx context.Context, t *testing.T, task NewTask) string {
	t.Helper()
	return must(h.client.Submit(ctx, task))(t).ID
}

func isStop(err error, reason string) bool {
	stop, ok := errors.AsType[*StopError](err)
	return ok && stop.Reason == reason && stop.Error() != ""
}

// findHost returns a host as the server shows it, nil if it is not registered.
func findHost(ctx context.Context, t *testing.T, client *Client, id string) *taskyardv1.RuntimeHost {
	t.Helper()
	hosts := taskyardv1.NewRuntimeHostServiceClient(client.Conn())
	for _, host := range must(hosts.ListHosts(ctx, &taskyardv1.ListHostsRequest{}))(t).GetHosts() {
		if host.GetId() == id {
			return host
		}
	}
	return nil
}
