// One stream of a host: its reader, its writer and its heartbeats (docs/rules.md, Host stream). Reader and writer never
// wait for each other.

package taskyard

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	// welcomeTimeout is how long the server may take to answer a Hello.
	welcomeTimeout = 10 * time.Second
	// closeTimeout is how long the last steps of an orderly end may take.
	closeTimeout = 5 * time.Second
	// defaultHeartbeatInterval is that of a server that names none.
	defaultHeartbeatInterval = 20 * time.Second
	minHeartbeatInterval     = 10 * time.Millisecond
)

type connectStream = grpc.BidiStreamingClient[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse]

// connect opens a stream and uses it until it ends. The result is nil if the host has left in order. An error tells how
// the stream broke; handlers go on in that case.
func (r *hostRun) connect(life context.Context) error {
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	stream, err := r.hosts.Connect(context.WithValue(ctx, logsItself{}, true))
	if err != nil {
		return err
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.connected = false
		r.session.streamClosed(time.Now())
	}()
	silence := time.AfterFunc(welcomeTimeout, func() { cancel(unavailable("no answer to the hello")) })
	leaseLength, err := r.greet(stream)
	if !silence.Stop() || err != nil {
		return endOf(ctx, err)
	}
	return r.exchange(life, ctx, cancel, stream, leaseLength)
}

// greet sends the Hello and reads the Welcome. It returns the length of the leases of the stream.
func (r *hostRun) greet(stream connectStream) (leaseLength time.Duration, err error) {
	hello := r.hello()
	if err := encodingError(hello); err != nil {
		return 0, err
	}
	sentAt := time.Now()
	// If the stream has ended already, Recv returns the reason.
	if err := stream.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	first, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	welcome := first.GetWelcome()
	if welcome == nil {
		return 0, unavailable("the server's first word was no welcome")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop(r.session.streamOpened(welcome, sentAt), leaseLost)
	r.acknowledgedAt, r.heartbeatAt, r.dueHeartbeat, r.connected = sentAt, time.Now(), nil, true
	r.heartbeatInterval = intervalOf(welcome, defaultHeartbeatInterval)
	r.log.Info("taskyard: host is connected", "session", welcome.GetSession(), "again", r.wasConnected,
		"kept", len(welcome.GetKept()), "lost", len(welcome.GetLost()))
	r.wasConnected, r.loggedCode, r.renewed = true, "", false
	return fromSecs(welcome.GetLeaseSecs()), nil
}

// exchange reads, writes and sends heartbeats until the stream ends. The result is nil if the host has left in order.
// The stream's context ends before that of the run.
func (r *hostRun) exchange(
	life, ctx context.Context, cancel context.CancelCauseFunc, stream connectStream, leaseLength time.Duration,
) error {
	var parts sync.WaitGroup
	hasLeft := false
	parts.Go(func() {
		if hasLeft = r.write(ctx, stream); hasLeft {
			r.leave(life, stream)
			// The reader gets the status of the stream, if it comes in time.
			time.AfterFunc(closeTimeout, func() { cancel(io.EOF) })
		}
	})
	parts.Go(func() { r.sendHeartbeats(ctx, cancel, leaseLength) })
	err := endOf(ctx, r.read(stream))
	cancel(nil)
	parts.Wait()
	if hasLeft {
		// It does not matter how the server ends the stream of a host that leaves.
		return nil
	}
	return err
}

// endOf returns why a stream ended: the cause of its context if this side ended it, else err.
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
		r.received(message)
		r.wake()
		r.mu.Unlock()
	}
}

// received handles one message of the server. The lock is held.
func (r *hostRun) received(message *taskyardv1.ConnectResponse) {
	if message.AcknowledgedHeartbeat != nil {
		r.heartbeatAcknowledged(&taskyardv1.HeartbeatAck{Sequence: message.GetAcknowledgedHeartbeat()})
	}
	// What is counted comes before the message.
	if accepted := message.GetAcceptedReports(); accepted > 0 {
		r.stopExpired()
		r.begin(r.session.reportsAccepted(int(accepted)))
	}
	switch message := message.GetMessage().(type) {
	case *taskyardv1.ConnectResponse_Assignments:
		for _, assignment := range message.Assignments.GetAssignments() {
			r.session.taskAssigned(assignment)
		}
	case *taskyardv1.ConnectResponse_ReportResults:
		r.stopExpired()
		begin, stop := r.session.reportsAnswered(message.ReportResults)
		r.stop(stop, leaseLost)
		r.begin(begin)
	case *taskyardv1.ConnectResponse_OutputAcks:
		r.stop(r.session.outputAcknowledged(message.OutputAcks, time.Now()), leaseLost)
	case *taskyardv1.ConnectResponse_HeartbeatAck:
		r.heartbeatAcknowledged(message.HeartbeatAck)
	case *taskyardv1.ConnectResponse_HeartbeatInterval:
		r.heartbeatInterval = intervalOf(message.HeartbeatInterval, r.heartbeatInterval)
		select {
		case r.intervalChanged <- struct{}{}:
		default:
		}
	case *taskyardv1.ConnectResponse_Cancellations:
		for _, each := range message.Cancellations.GetCancellations() {
			r.log.Info("taskyard: task is to be stopped", "task", each.GetTaskId(), "why", each.GetMessage())
			r.stop(r.session.taskCancelled(each), &StopError{enumName(each.GetReason()), each.GetMessage()})
		}
	case *taskyardv1.ConnectResponse_Drain:
		r.drainRequested(message.Drain)
	}
}

func (r *hostRun) heartbeatAcknowledged(ack *taskyardv1.HeartbeatAck) {
	r.acknowledgedAt = time.Now()
	r.stop(r.session.heartbeatAcknowledged(ack), leaseLost)
}

// write writes what is pending. The result is true once the host drains and is finished, and false if the stream has
// ended before.
func (r *hostRun) write(ctx context.Context, stream connectStream) bool {
	for {
		r.letHeartbeatRide()
		r.mu.Lock()
		var heartbeat *taskyardv1.ConnectRequest
		if r.dueHeartbeat != nil {
			now := time.Now()
			heartbeat = r.session.nextHeartbeat(now, r.dueHeartbeat, r.tokensUsed)
			r.dueHeartbeat, r.heartbeatAt = nil, now
		}
		messages := r.session.nextMessages(heartbeat)
		isFinished := r.session.draining && r.session.isFinished()
		r.mu.Unlock()
		for _, message := range messages {
			if stream.Send(message) != nil {
				return false
			}
			r.mu.Lock()
			r.stopExpired()
			r.begin(r.session.messageWritten(message))
			r.mu.Unlock()
		}
		if len(messages) > 0 {
			continue
		}
		if isFinished {
			return ctx.Err() == nil
		}
		select {
		case <-r.wakeUp:
		case <-ctx.Done():
			return false
		}
	}
}

// letHeartbeatRide makes a heartbeat due in the last quarter of its interval where it may come with reports, so that a
// busy host writes no message for it.
func (r *hostRun) letHeartbeatRide() {
	r.mu.Lock()
	rides := r.dueHeartbeat == nil && r.session.heartbeatMayRide() && time.Since(r.heartbeatAt) >= r.heartbeatInterval/4*3
	r.mu.Unlock()
	if rides {
		r.makeHeartbeatDue()
	}
}

// makeHeartbeatDue has a heartbeat written next.
func (r *hostRun) makeHeartbeatDue() {
	machine := r.machine()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dueHeartbeat = machine
}

// stopExpired ends leases whose time is over, before handlers begin: what lay in a buffer while the process stood still
// may be over by now (docs/rules.md, Stalls). The lock is held.
func (r *hostRun) stopExpired() { r.stop(r.session.expire(time.Now()), leaseLost) }

// sendHeartbeats makes a heartbeat due when the interval has passed since the last one, and at once when the interval has
// changed. It ends the stream if none was answered for an interval and the length of a lease.
func (r *hostRun) sendHeartbeats(ctx context.Context, cancel context.CancelCauseFunc, leaseLength time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		hasChanged := false
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.intervalChanged:
			hasChanged = true
		}
		r.mu.Lock()
		interval, silence := r.heartbeatInterval, time.Since(r.acknowledgedAt)
		left := interval - time.Since(r.heartbeatAt)
		r.mu.Unlock()
		if silence > interval+leaseLength {
			cancel(unavailable("no heartbeat was answered for " + silence.Round(time.Second).String()))
		}
		// One may have come with reports meanwhile.
		if left > 0 && !hasChanged {
			timer.Reset(left)
			continue
		}
		r.makeHeartbeatDue()
		r.wake()
		timer.Reset(interval)
	}
}

// intervalOf returns the interval of heartbeats that a message names, or the other one where it names none.
func intervalOf(message interface{ GetHeartbeatIntervalMs() uint32 }, other time.Duration) time.Duration {
	if message.GetHeartbeatIntervalMs() == 0 {
		return other
	}
	return max(fromMillis(message.GetHeartbeatIntervalMs()), minHeartbeatInterval)
}

func (r *hostRun) hello() *taskyardv1.ConnectRequest {
	options, machine := r.host.options, r.machine()
	r.mu.Lock()
	defer r.mu.Unlock()
	return &taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Hello{Hello: &taskyardv1.Hello{
		HostId: r.host.id, Instance: r.instance, DisplayName: optional(options.DisplayName),
		Capabilities: options.Capabilities, Slots: optional(uint32(options.Slots)), Leases: r.session.held(),
		Project: optional(options.Project), Actions: r.host.actions(), Labels: options.Labels,
		LeaseSecs: optional(uint32((options.Lease + time.Second - 1) / time.Second)), Machine: machine,
		CountsAccepted: proto.Bool(true),
	}}}
}

// machine returns the figures of HostOptions.Machine, or the number of running tasks where it has none that can be
// sent.
func (r *hostRun) machine() *taskyardv1.Machine {
	if r.host.options.Machine != nil {
		machine := r.host.options.Machine()
		if machine != nil && encodingError(machine) == nil {
			return machine
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &taskyardv1.Machine{ActiveWorkers: proto.Uint32(uint32(r.session.active()))}
}
