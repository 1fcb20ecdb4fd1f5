// One start of a host: its connection and its clock (DESIGN, The host stream).

package taskyard

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	maxReconnectDelay = 5 * time.Second
	// maxReconnectDelayWithLeases is shorter, since leases outlive a break only for seconds.
	maxReconnectDelayWithLeases = time.Second
	// steadyTime is how long a good stream lives; the next break is the first again.
	steadyTime  = 5 * time.Second
	welcomeTime = 10 * time.Second
	closeTime   = 5 * time.Second
	// interruptTime is how long handlers that were stopped for leaving may take to end.
	interruptTime = 5 * time.Second
	// abandonTime is the same where the run ends otherwise.
	abandonTime = time.Second
	// drainSlack leaves it to the server to interrupt what runs at the end of a drain of its own.
	drainSlack = 2 * time.Second
	expiryLook = 100 * time.Millisecond
)

var (
	hostLeaves = &StopError{"draining", "the host leaves"}
	leaseLost  = &StopError{"lease_lost", "the lease has ended"}
)

// hostRun is one start of a host: it connects, works, reconnects and leaves. What is held and what is to be said is the
// session's; this file has the connection and the clock. A stream has a reader and a writer that never wait for each
// other.
type hostRun struct {
	host     *Host
	hosts    taskyardv1.RuntimeHostServiceClient
	log      *slog.Logger
	instance string
	// handlersContext is what the contexts of handlers come from: it ends with the run, not with Run's context.
	handlersContext context.Context
	// end ends the run without waiting for more.
	end func()
	// more is full when there may be something to write, or a reason to leave.
	more chan struct{}
	// beatIntervalChanged is full when the server has changed the interval of heartbeats.
	beatIntervalChanged chan struct{}
	// draining is closed once the host drains.
	draining chan struct{}
	working  sync.WaitGroup

	mu             sync.Mutex
	session        *session
	handlers       map[leaseKey]*runningHandler
	beatDue        *taskyardv1.Machine // What the next heartbeat tells, nil while none is due.
	beatInterval   time.Duration
	acknowledgedAt time.Time
	wasConnected   bool
	connected      bool
	trouble        Code // What was logged last about not being connected.
	// leaveBy is when what still runs is interrupted, by who said so; leaving does it.
	leaveBy map[string]time.Time
	leaving *time.Timer
}

func newHostRun(host *Host) *hostRun {
	log := host.client.log.With("host", host.id)
	return &hostRun{
		host: host, hosts: taskyardv1.NewRuntimeHostServiceClient(host.client.conn), log: log, instance: newKey(),
		more: make(chan struct{}, 1), beatIntervalChanged: make(chan struct{}, 1), draining: make(chan struct{}), session: newSession(host.options.Slots, log),
		handlers: map[leaseKey]*runningHandler{}, leaveBy: map[string]time.Time{},
	}
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
	if r.leaving != nil {
		r.leaving.Stop()
	}
	r.mu.Unlock()
	r.end()
	parts.Wait()
	r.abandon()
	r.log.Info("taskyard: host has left")
	return err
}

// drain takes no more, finishes what runs within the grace, then leaves.
func (r *hostRun) drain(life context.Context) {
	r.mu.Lock()
	tell := r.connected && !r.session.draining
	r.log.Info("taskyard: host drains", "running", r.session.active())
	r.drainUntil("host", time.Now().Add(r.host.options.DrainGrace))
	r.mu.Unlock()
	if !tell {
		return
	}
	// So that the server hands out nothing more for the credit that it still has. What comes all the same is given back.
	ctx, cancel := context.WithTimeout(life, closeTime)
	defer cancel()
	if _, err := r.hosts.DrainHost(ctx, &taskyardv1.DrainHostRequest{HostId: r.host.id}); err != nil {
		r.log.Debug("taskyard: the server was not told of the drain", "error", err)
	}
}

// Connection

func (r *hostRun) stayConnected(life context.Context) error {
	for tries := 0; !r.isGone(); tries++ {
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
			r.stop(r.session.deregistered(), &StopError{"lease_lost", found.Reason})
			r.mu.Unlock()
		case CodeBadRequest, CodePermissionDenied, CodeUnauthenticated, CodeUnimplemented:
			return found
		default:
			r.note(found)
		}
		if time.Since(began) > steadyTime {
			tries = 0
		}
		r.pause(life, tries)
		// A connection that failed would wait by itself, too.
		r.host.client.conn.ResetConnectBackoff()
	}
	return nil
}

// isGone answers whether the host drains and has nothing left that a stream is needed for.
func (r *hostRun) isGone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session.draining && r.session.active() == 0 && !r.session.holdsLeases()
}

type connectStream = grpc.BidiStreamingClient[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse]

// connect holds one stream until the host has left by it. An error says how it broke; handlers go on all the same.
func (r *hostRun) connect(life context.Context) error {
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	stream, err := r.hosts.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.connected = false
		r.session.broken(time.Now())
	}()
	silence := time.AfterFunc(welcomeTime, func() { cancel(unavailable("no answer to the hello")) })
	welcome, err := r.greet(stream)
	if !silence.Stop() || err != nil {
		return endOf(ctx, err)
	}
	if err := r.hold(ctx, cancel, stream, welcome); err != nil {
		return err
	}
	// A host that has left in order is not looked for any more.
	deregisterContext, cancelDeregister := context.WithTimeout(life, closeTime)
	defer cancelDeregister()
	request := &taskyardv1.DeregisterHostRequest{HostId: r.host.id}
	if _, err := r.hosts.DeregisterHost(deregisterContext, request); err != nil {
		r.log.Debug("taskyard: the host stays registered", "error", err)
	}
	return nil
}

func (r *hostRun) greet(stream connectStream) (*taskyardv1.Welcome, error) {
	hello := r.hello()
	if err := malformed(hello); err != nil {
		return nil, err
	}
	sentAt := time.Now()
	// If the stream has ended already, reading tells why.
	if err := stream.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	welcome := first.GetWelcome()
	if welcome == nil {
		return nil, unavailable("the server's first word was no welcome")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop(r.session.welcomed(welcome, sentAt), leaseLost)
	r.acknowledgedAt, r.beatDue, r.connected = sentAt, nil, true
	r.beatInterval = beatIntervalOf(welcome)
	r.log.Info("taskyard: host is connected", "session", welcome.GetSession(), "again", r.wasConnected,
		"kept", len(welcome.GetKept()), "lost", len(welcome.GetLost()))
	r.wasConnected, r.trouble = true, ""
	return welcome, nil
}

// hold reads, writes and beats until the stream ends. It answers nil if the host has left by it.
func (r *hostRun) hold(
	ctx context.Context, cancel context.CancelCauseFunc, stream connectStream, welcome *taskyardv1.Welcome,
) error {
	var parts sync.WaitGroup
	hasLeft := false
	parts.Go(func() {
		if hasLeft = r.write(ctx, stream); hasLeft {
			// The reader learns how it ended, but not for ever.
			time.AfterFunc(closeTime, func() { cancel(io.EOF) })
		}
	})
	parts.Go(func() { r.beat(ctx, cancel, seconds(welcome.GetLeaseSecs())) })
	err := endOf(ctx, r.read(stream))
	cancel(nil)
	parts.Wait()
	if hasLeft && errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// endOf answers why a stream ended: what this side ended it with, if it did.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

func (r *hostRun) read(stream connectStream) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		r.mu.Lock()
		switch message := message.GetMessage().(type) {
		case *taskyardv1.ConnectResponse_Assignments:
			for _, assignment := range message.Assignments.GetAssignments() {
				r.session.assigned(assignment)
			}
		case *taskyardv1.ConnectResponse_ReportResults:
			// As before a start report is written: what lay in a buffer may be over.
			r.stop(r.session.expired(time.Now()), leaseLost)
			begin, stop := r.session.answered(message.ReportResults)
			r.stop(stop, leaseLost)
			r.begin(begin)
		case *taskyardv1.ConnectResponse_HeartbeatAck:
			r.acknowledgedAt = time.Now()
			r.stop(r.session.acknowledged(message.HeartbeatAck), leaseLost)
		case *taskyardv1.ConnectResponse_HeartbeatInterval:
			r.beatInterval = beatIntervalOf(message.HeartbeatInterval)
			select {
			case r.beatIntervalChanged <- struct{}{}:
			default:
			}
		case *taskyardv1.ConnectResponse_Cancellations:
			for _, each := range message.Cancellations.GetCancellations() {
				r.log.Info("taskyard: task is to be stopped", "task", each.GetTaskId(), "why", each.GetMessage())
				r.stop(r.session.cancelled(each), &StopError{word(each.GetReason()), each.GetMessage()})
			}
		case *taskyardv1.ConnectResponse_Drain:
			r.drained(message.Drain)
		}
		r.wake()
		r.mu.Unlock()
	}
}

// write writes what there is to say. It answers true once it has half-closed, false if the stream has ended before.
func (r *hostRun) write(ctx context.Context, stream connectStream) bool {
	for {
		r.mu.Lock()
		var messages []*taskyardv1.ConnectRequest
		if r.beatDue != nil {
			messages = append(messages, r.session.heartbeat(time.Now(), r.beatDue, r.tokensUsed))
			r.beatDue = nil
		}
		messages = append(messages, r.session.turn()...)
		isFinished := r.session.draining && r.session.isFinished()
		r.mu.Unlock()
		for _, message := range messages {
			if stream.Send(message) != nil {
				return false
			}
			r.mu.Lock()
			// What lay in a buffer while the process stood still may be over before it begins.
			r.stop(r.session.expired(time.Now()), leaseLost)
			r.begin(r.session.written(message))
			r.mu.Unlock()
		}
		if len(messages) > 0 {
			continue
		}
		if isFinished {
			return stream.CloseSend() == nil
		}
		select {
		case <-r.more:
		case <-ctx.Done():
			return false
		}
	}
}

// beat has a heartbeat written each interval, and ends the stream when none was answered for as long as a lease. A new
// interval begins with a heartbeat.
func (r *hostRun) beat(ctx context.Context, cancel context.CancelCauseFunc, leaseLength time.Duration) {
	r.mu.Lock()
	interval := r.beatInterval
	r.mu.Unlock()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-r.beatIntervalChanged:
		}
		machine := r.machine()
		r.mu.Lock()
		if interval != r.beatInterval {
			interval = r.beatInterval
			ticker.Reset(interval)
		}
		if silence := time.Since(r.acknowledgedAt); silence > interval+leaseLength {
			cancel(unavailable("no heartbeat was answered for " + silence.Round(time.Second).String()))
		}
		r.beatDue = machine
		r.wake()
		r.mu.Unlock()
	}
}

// beatIntervalOf reads how often heartbeats are due, at least a millisecond.
func beatIntervalOf(message interface{ GetHeartbeatIntervalMs() uint32 }) time.Duration {
	return max(milliseconds(message.GetHeartbeatIntervalMs()), time.Millisecond)
}

func (r *hostRun) expireLeases(life context.Context) {
	ticker := time.NewTicker(expiryLook)
	defer ticker.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		r.stop(r.session.expired(time.Now()), leaseLost)
		r.mu.Unlock()
	}
}

// pause waits before the next try: exponential backoff with full jitter, cut short when the host is told to drain.
func (r *hostRun) pause(life context.Context, tries int) {
	r.mu.Lock()
	most := maxReconnectDelay
	if r.session.holdsLeases() {
		most = maxReconnectDelayWithLeases
	}
	draining := r.draining
	if r.session.draining {
		draining = nil
	}
	r.mu.Unlock()
	timer := time.NewTimer(rand.N(min(most, firstDelay<<min(tries, 10))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-draining:
	case <-life.Done():
	}
}

// Leaving. The lock is held but where a timer calls.

func (r *hostRun) drained(drain *taskyardv1.Drain) {
	r.log.Info("taskyard: host is told to drain", "why", drain.GetReason(), "reconnect", drain.GetReconnect())
	if drain.GetReconnect() {
		// Nothing new comes on this stream, and what runs then is stopped by the server. After it there is another.
		return
	}
	var end time.Time
	if drain.GetDeadline() != nil {
		end = time.Now().Add(max(0, time.Until(drain.GetDeadline().AsTime())) + drainSlack)
	}
	r.drainUntil("server", end)
}

// drainUntil takes no more, and interrupts what runs at the end that comes first; the zero time is none.
func (r *hostRun) drainUntil(who string, end time.Time) {
	if !r.session.draining {
		close(r.draining)
	}
	r.session.drain()
	r.wake()
	if delete(r.leaveBy, who); !end.IsZero() {
		r.leaveBy[who] = end
	}
	if r.leaving != nil {
		r.leaving.Stop()
		r.leaving = nil
	}
	var first time.Time
	for _, each := range r.leaveBy {
		if first.IsZero() || each.Before(first) {
			first = each
		}
	}
	if !first.IsZero() {
		r.leaving = time.AfterFunc(time.Until(first), r.interrupt)
	}
}

// interrupt stops what still runs, which is given back, and leaves without waiting for ever.
func (r *hostRun) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.handlers) > 0 {
		r.log.Warn("taskyard: tasks still run: they are interrupted and given back", "running", len(r.handlers))
	}
	for _, handler := range r.handlers {
		handler.cancel(hostLeaves)
	}
	r.leaving = time.AfterFunc(interruptTime, r.end)
}

// abandon waits a little for handlers, whose contexts have ended.
func (r *hostRun) abandon() {
	ended := make(chan struct{})
	go func() {
		r.working.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(abandonTime):
		r.log.Warn("taskyard: host leaves without waiting for its handlers")
	}
}

// Words

func (r *hostRun) hello() *taskyardv1.ConnectRequest {
	options, machine := r.host.options, r.machine()
	r.mu.Lock()
	defer r.mu.Unlock()
	return &taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Hello{Hello: &taskyardv1.Hello{
		HostId: r.host.id, Instance: r.instance, DisplayName: optional(options.DisplayName),
		Capabilities: options.Capabilities, Slots: optional(uint32(options.Slots)), Leases: r.session.held(),
		Project: optional(options.Project), Actions: r.host.actions(), Labels: options.Labels,
		LeaseSecs: optional(uint32((options.Lease + time.Second - 1) / time.Second)), Machine: machine,
	}}}
}

// machine answers figures, never nil.
func (r *hostRun) machine() *taskyardv1.Machine {
	if r.host.options.Machine != nil {
		machine := r.host.options.Machine()
		if machine != nil && malformed(machine) == nil {
			return machine
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &taskyardv1.Machine{ActiveWorkers: proto.Uint32(uint32(r.session.active()))}
}

// note says once what keeps the host from its server.
func (r *hostRun) note(err *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err.Code != r.trouble {
		r.trouble = err.Code
		r.log.Warn("taskyard: host is not connected, trying on", "error", err)
	}
}

func (r *hostRun) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}
