// How a host leaves: it drains, interrupts what still runs, and waits for its handlers (docs/rules.md, Host drain).

package taskyard

import (
	"context"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	// interruptTimeout is how long interrupted handlers may take to return while the stream is still open.
	interruptTimeout = 5 * time.Second
	// abandonTimeout is how long handlers may take to return after the run has ended.
	abandonTimeout = time.Second
	// drainSlack lets the server interrupt what runs at the end of a drain that it asked for.
	drainSlack = 2 * time.Second
)

// Who asked for a drain.
const (
	drainByHost   = "host"
	drainByServer = "server"
)

var hostLeaves = &StopError{"draining", "the host leaves"}

// drain takes no more tasks, and lets those that run go on for the drain grace.
func (r *hostRun) drain(life context.Context) {
	r.mu.Lock()
	tellServer := r.connected && !r.session.draining
	if tellServer {
		r.drainCall.Add(1)
	}
	r.log.Info("taskyard: host drains", "running", r.session.active())
	r.drainUntil(drainByHost, time.Now().Add(r.host.options.DrainGrace))
	r.mu.Unlock()
	if !tellServer {
		return
	}
	defer r.drainCall.Done()
	// The server then hands out nothing more for the credit that it still has. Tasks that cross the call are given
	// back.
	ctx, cancel := context.WithTimeout(life, closeTimeout)
	defer cancel()
	if _, err := r.hosts.DrainHost(ctx, &taskyardv1.DrainHostRequest{HostId: r.host.id}); err != nil {
		r.log.Debug("taskyard: the server was not told of the drain", "error", err)
	}
}

// leave deregisters the host, which the server then does not expect back, and ends its stream. Both calls of a leaving
// host name it by its id alone: after the end of the stream they could reach the next host with that id.
func (r *hostRun) leave(life context.Context, stream connectStream) {
	r.drainCall.Wait()
	ctx, cancel := context.WithTimeout(life, closeTimeout)
	defer cancel()
	if _, err := r.hosts.DeregisterHost(ctx, &taskyardv1.DeregisterHostRequest{HostId: r.host.id}); err != nil {
		r.log.Debug("taskyard: the host stays registered", "error", err)
	}
	// An error is that of a stream that has ended already.
	_ = stream.CloseSend()
}

// drainRequested handles the server's request to drain. The lock is held.
func (r *hostRun) drainRequested(drain *taskyardv1.Drain) {
	r.log.Info("taskyard: host is told to drain", "why", drain.GetReason(), "reconnect", drain.GetReconnect())
	if drain.GetReconnect() {
		// The server shuts down, or another one serves the namespace: it hands out nothing new and ends the stream. Then
		// the host connects again at once, and its tasks go on.
		r.reconnects = true
		return
	}
	var end time.Time
	if drain.GetDeadline() != nil {
		end = time.Now().Add(max(0, time.Until(drain.GetDeadline().AsTime())) + drainSlack)
	}
	r.drainUntil(drainByServer, end)
}

// drainUntil takes no more tasks. Tasks that run are interrupted at the earliest end of all callers; the zero time is
// none. The lock is held.
func (r *hostRun) drainUntil(caller string, end time.Time) {
	if !r.session.draining {
		close(r.draining)
	}
	r.session.drain()
	r.wake()
	if delete(r.interruptAt, caller); !end.IsZero() {
		r.interruptAt[caller] = end
	}
	if r.interruptTimer != nil {
		r.interruptTimer.Stop()
		r.interruptTimer = nil
	}
	var first time.Time
	for _, each := range r.interruptAt {
		if first.IsZero() || each.Before(first) {
			first = each
		}
	}
	if !first.IsZero() {
		r.interruptTimer = time.AfterFunc(time.Until(first), r.interrupt)
	}
}

// interrupt cancels the handlers that still run, so that their tasks are given back, and ends the run soon after.
func (r *hostRun) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.handlers) > 0 {
		r.log.Warn("taskyard: tasks still run: they are interrupted and given back", "running", len(r.handlers))
	}
	for _, handler := range r.handlers {
		handler.cancel(hostLeaves)
	}
	r.interruptTimer = time.AfterFunc(interruptTimeout, r.end)
}

// waitForHandlers waits for handlers whose contexts have ended, for no longer than abandonTimeout.
func (r *hostRun) waitForHandlers() {
	ended := make(chan struct{})
	go func() {
		r.runningHandlers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(abandonTimeout):
		r.log.Warn("taskyard: host leaves without waiting for its handlers")
	}
}
