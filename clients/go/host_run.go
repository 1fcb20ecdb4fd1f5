// One start of a host: it connects, reconnects, and ends. The rules are in session.go; the connection and the clock are
// here, in host_stream.go (one stream) and in host_drain.go (how it ends).

package taskyard

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	maxReconnectDelay = 5 * time.Second
	// maxReconnectDelayWithLeases is shorter, since leases outlive a break for a few seconds only.
	maxReconnectDelayWithLeases = time.Second
	// promptTime is how long a host tries to come back in short steps. After that the delays grow with the outage.
	promptTime     = 3 * time.Second
	minPromptDelay = 50 * time.Millisecond
	maxPromptDelay = 100 * time.Millisecond
	// stableStreamTime is how long a stream must live for the delay after its break to be the shortest again.
	stableStreamTime = 5 * time.Second
	// expiryInterval is how often leases are checked for their end.
	expiryInterval = 100 * time.Millisecond
)

var leaseLost = &StopError{"lease_lost", "the lease has ended"}

// hostRun is one start of a host.
type hostRun struct {
	host     *Host
	hosts    taskyardv1.RuntimeHostServiceClient
	log      *slog.Logger
	instance string
	// handlersContext is the parent of the contexts of handlers. It ends with the run, later than the context of Run.
	handlersContext context.Context
	// end ends the run at once.
	end func()
	// wakeUp holds an item when the writer of the stream may have something to write, or a reason to leave.
	wakeUp chan struct{}
	// intervalChanged holds an item when the server has changed heartbeatInterval.
	intervalChanged chan struct{}
	// draining is closed when the host begins to drain.
	draining        chan struct{}
	runningHandlers sync.WaitGroup
	// drainCall is the DrainHost call of a host that drains by itself. It begins before the session drains.
	drainCall sync.WaitGroup

	mu                sync.Mutex
	session           *session
	handlers          map[leaseKey]*runningHandler
	heartbeatInterval time.Duration
	dueHeartbeat      *taskyardv1.Machine // What the next heartbeat reports; nil while none is due.
	heartbeatAt       time.Time           // When the last heartbeat was written, or the stream began.
	acknowledgedAt    time.Time           // When the last heartbeat was answered, or the last Hello was sent.
	wasConnected      bool
	reconnects        bool // The server has asked for the next stream.
	renewed           bool // The token was read anew since a stream worked last.
	connected         bool
	outputHasRoom     chan struct{} // Closed and replaced when handlers that wait to say something may try again.
	loggedCode        Code          // Why the host is not connected, as logged last.
	// interruptAt is when handlers that still run are interrupted, by who asked for it: the host or the server.
	interruptAt    map[string]time.Time
	interruptTimer *time.Timer
}

func newHostRun(host *Host) *hostRun {
	log := host.client.log.With("host", host.id)
	r := &hostRun{
		host: host, hosts: taskyardv1.NewRuntimeHostServiceClient(host.client.conn), log: log, instance: newKey(),
		wakeUp: make(chan struct{}, 1), intervalChanged: make(chan struct{}, 1), draining: make(chan struct{}),
		session: newSession(host.options.Slots, log), handlers: map[leaseKey]*runningHandler{},
		interruptAt: map[string]time.Time{}, outputHasRoom: make(chan struct{}),
	}
	r.session.output.hasRoom = func() {
		close(r.outputHasRoom)
		r.outputHasRoom = make(chan struct{})
	}
	return r
}

func (r *hostRun) run(ctx context.Context) error {
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	r.handlersContext, r.end = life, func() { end(hostLeaves) }
	var parts sync.WaitGroup
	parts.Go(func() { r.expireLeases(life) })
	parts.Go(func() {
		select {
		case <-ctx.Done():
			r.drain(life)
		case <-life.Done():
		}
	})
	err := r.stayConnected(life)
	r.mu.Lock()
	if r.interruptTimer != nil {
		r.interruptTimer.Stop()
	}
	r.mu.Unlock()
	r.end()
	parts.Wait()
	r.waitForHandlers()
	r.log.Info("taskyard: host has left")
	return err
}

// stayConnected opens one stream after the other, until the host has left or the server refuses it for good.
func (r *hostRun) stayConnected(life context.Context) error {
	var brokeAt time.Time
	for tries := 0; !r.mayLeave(); tries++ {
		began := time.Now()
		err := r.connect(life)
		if err == nil || life.Err() != nil {
			return nil
		}
		found := errorFrom(err)
		if r.host.client.conn.GetState() == connectivity.Shutdown {
			return found
		}
		switch found.Code {
		case CodeConflict:
			if found.Details["cause"] != "deregistered" {
				return found
			}
			r.log.Warn("taskyard: host was deregistered: it stops what runs and registers anew")
			r.mu.Lock()
			r.stop(r.session.hostDeregistered(), &StopError{"lease_lost", found.Reason})
			r.mu.Unlock()
		case CodeUnauthenticated:
			if r.renewed || !r.host.client.identity.token.renew() {
				return found
			}
			r.renewed = true
			r.logOutage(found)
		case CodeBadRequest, CodePermissionDenied, CodeUnimplemented:
			return found
		default:
			r.logOutage(found)
		}
		if tries == 0 || time.Since(began) > stableStreamTime {
			tries, brokeAt = 0, time.Now()
		}
		r.backOff(life, found, tries == 0, time.Since(brokeAt))
		// Otherwise a connection that failed would wait for a delay of its own.
		r.host.client.conn.ResetConnectBackoff()
	}
	return nil
}

// mayLeave reports whether the host drains and needs no stream any more.
func (r *hostRun) mayLeave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session.draining && r.session.active() == 0 && !r.session.holdsLeases()
}

// reconnectDelay returns how long a host waits before its next stream, when it has been out for some time. Leases outlive
// a break for a few seconds only, so it is short at first, and grows up to a limit, with full jitter.
func reconnectDelay(err *Error, isAsked bool, out, limit time.Duration) time.Duration {
	switch {
	case err.isTooMany() && err.RetryAfter > 0:
		return spread(err.RetryAfter, rand.Float64())
	case isAsked:
		return 0
	case out < promptTime:
		return minPromptDelay + rand.N(maxPromptDelay-minPromptDelay)
	}
	return rand.N(min(limit, out/2))
}

// backOff waits before the next attempt to connect. It ends early when the host begins to drain.
func (r *hostRun) backOff(life context.Context, err *Error, isFirst bool, out time.Duration) {
	r.mu.Lock()
	limit := maxReconnectDelay
	if r.session.holdsLeases() {
		limit = maxReconnectDelayWithLeases
	}
	isAsked := isFirst && (r.reconnects || err.isElsewhere())
	r.reconnects = false
	draining := r.draining
	if r.session.draining {
		draining = nil
	}
	r.mu.Unlock()
	timer := time.NewTimer(reconnectDelay(err, isAsked, out, limit))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-draining:
	case <-life.Done():
	}
}

func (r *hostRun) expireLeases(life context.Context) {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		r.stop(r.session.expire(time.Now()), leaseLost)
		if r.session.output.retry(time.Now()) {
			r.wake()
		}
		r.mu.Unlock()
	}
}

// logOutage logs why the host is not connected, once for each code in a row.
func (r *hostRun) logOutage(err *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err.Code != r.loggedCode {
		r.loggedCode = err.Code
		r.log.Warn("taskyard: host is not connected, trying on", "error", err)
	}
}

// wake lets the writer of the stream look for something to write.
func (r *hostRun) wake() {
	select {
	case r.wakeUp <- struct{}{}:
	default:
	}
}
