// When to try again while the server is unavailable, and for how long: shared by calls, submissions and watches.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// errClosed is the cause of what ends because the client was closed.
var errClosed = fmt.Errorf("the client is closed: %w", context.Canceled)

const (
	firstDelay = 100 * time.Millisecond
	// maxDelay is short, so that calls go on soon after an upgrade of a few seconds.
	maxDelay = time.Second
)

// outage tells how long to wait before each attempt while the server is unavailable. The delays double up to a limit,
// and each is shortened at random by up to a half, so that clients that lost the same server do not return all at once.
// The time and the randomness are passed in.
type outage struct {
	conn     *grpc.ClientConn
	patience time.Duration
	random   func() float64
	since    time.Time
	tries    int
	isLost   bool // There was no connection at the end of the last wait.
}

func newOutage(conn *grpc.ClientConn, patience time.Duration) *outage {
	return &outage{conn: conn, patience: patience, random: rand.Float64}
}

// reset begins anew after an attempt that worked.
func (o *outage) reset() { o.since, o.tries = time.Time{}, 0 }

// nextDelay returns how long to wait before the next attempt. It returns false once the patience is over.
func (o *outage) nextDelay(now time.Time) (time.Duration, bool) {
	if o.since.IsZero() {
		o.since = now
	}
	left := o.patience - now.Sub(o.since)
	if left <= 0 {
		return 0, false
	}
	// There is time for several attempts, however short the patience.
	limit := min(maxDelay, o.patience/4)
	delay := min(firstDelay<<min(o.tries, 10), limit)
	o.tries++
	return min(time.Duration(float64(delay)*(0.5+o.random()/2)), left), true
}

// wait waits before the next attempt, or until a lost connection is back. It returns the error of the last attempt once
// the patience is over or the context has ended.
func (o *outage) wait(ctx context.Context, err error) error {
	delay, more := o.nextDelay(time.Now())
	if !more {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	if o.conn == nil || !o.cameBack(limit) {
		<-limit.Done()
	}
	if ctx.Err() == nil {
		return nil
	}
	last := *errorFrom(err)
	last.cause = ctx.Err()
	return &last
}

// cameBack waits until a lost connection is back, or until the context ends. It returns false at once for one that was
// not lost. While gRPC waits between its own attempts to connect, calls fail without one.
func (o *outage) cameBack(ctx context.Context) bool {
	// It may have come back during the attempt after the last wait.
	wasLost := o.isLost
	for {
		state := o.conn.GetState()
		o.isLost = state == connectivity.TransientFailure || state == connectivity.Connecting
		if !o.isLost {
			return wasLost
		}
		wasLost = true
		if !o.conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// retryWhileUnavailable repeats an attempt while the server is unavailable, and where a server that stops has ended it as
// cancelled. It returns whether there was more than one.
func retryWhileUnavailable(
	ctx context.Context, conn *grpc.ClientConn, patience time.Duration, attempt func() error,
) (repeated bool, err error) {
	outage := newOutage(conn, patience)
	for {
		err = attempt()
		switch CodeOf(err) {
		case CodeUnavailable:
		case CodeCancelled:
			if ctx.Err() != nil || errors.Is(err, errClosed) || conn != nil && conn.GetState() == connectivity.Shutdown {
				return repeated, err
			}
		default:
			return repeated, err
		}
		if err = outage.wait(ctx, err); err != nil {
			return repeated, err
		}
		repeated = true
	}
}
