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
	// A namespace that moves to another server is served there within a moment.
	minElsewhereDelay = 20 * time.Millisecond
	maxElsewhereDelay = 50 * time.Millisecond
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
	isStream bool // The first attempt after one that worked waits for nothing if another server serves the namespace.
}

func newOutage(conn *grpc.ClientConn, patience time.Duration) *outage {
	return &outage{conn: conn, patience: patience, random: rand.Float64}
}

// reset begins anew after an attempt that worked.
func (o *outage) reset() { o.since, o.tries = time.Time{}, 0 }

// nextDelay returns how long to wait before the next attempt, after one that ended with an error. It returns false once
// the patience is over.
func (o *outage) nextDelay(now time.Time, err *Error) (time.Duration, bool) {
	isFirst := o.since.IsZero()
	if isFirst {
		o.since = now
	}
	left := o.patience - now.Sub(o.since)
	if left <= 0 {
		return 0, false
	}
	return min(o.delayAfter(err, isFirst), left), true
}

func (o *outage) delayAfter(err *Error, isFirst bool) time.Duration {
	if err.isElsewhere() {
		if isFirst && o.isStream {
			return 0
		}
		return minElsewhereDelay + time.Duration(float64(maxElsewhereDelay-minElsewhereDelay)*o.random())
	}
	// There is time for several attempts, however short the patience.
	limit := min(maxDelay, o.patience/4)
	delay := min(firstDelay<<min(o.tries, 10), limit)
	o.tries++
	delay = time.Duration(float64(delay) * (0.5 + o.random()/2))
	if err.isTooMany() {
		delay = max(delay, spread(err.RetryAfter, o.random()))
	}
	return delay
}

// spread prolongs the time that a server named by up to a quarter, so that not all who were told so come back at once.
func spread(named time.Duration, random float64) time.Duration {
	return time.Duration(float64(named) * (1 + random/4))
}

// wait waits before the next attempt, or until a lost connection is back. It returns the error of the last attempt once
// the patience is over or the context has ended.
func (o *outage) wait(ctx context.Context, err error) error {
	found := errorFrom(err)
	now := time.Now()
	delay, more := o.nextDelay(now, found)
	if !more && o.patience > 0 {
		last := *found
		last.Reason += "; tried for " + now.Sub(o.since).Round(time.Second/10).String()
		return &last
	}
	if !more {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	hasAnswered := found.isElsewhere() || found.isTooMany()
	if o.isLost = o.isLost && !hasAnswered; hasAnswered || o.conn == nil || !o.cameBack(limit) {
		<-limit.Done()
	}
	if ctx.Err() == nil {
		return nil
	}
	last := *found
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

// retryWhileUnavailable repeats an attempt while the server is unavailable, where a server that stops has ended it as
// cancelled, and after too many requests. It returns whether an earlier attempt may have been carried out. Calls with the
// context that the attempt is passed are not repeated on their own.
func retryWhileUnavailable(
	ctx context.Context, conn *grpc.ClientConn, patience time.Duration, attempt func(context.Context) error,
) (inDoubt bool, err error) {
	return repeat(ctx, conn, patience, (*Error).mayPass, attempt)
}

// repeat is retryWhileUnavailable for those errors alone after which the attempt may be repeated.
func repeat(
	ctx context.Context, conn *grpc.ClientConn, patience time.Duration, mayRepeat func(*Error) bool,
	attempt func(context.Context) error,
) (inDoubt bool, err error) {
	outage := newOutage(conn, patience)
	repeated := context.WithValue(ctx, repeatedByCaller{}, true)
	for {
		if err = attempt(repeated); err == nil {
			return inDoubt, nil
		}
		found := asError(err)
		if !mayRepeat(found) {
			return inDoubt, err
		}
		isOver := ctx.Err() != nil || errors.Is(err, errClosed) || conn != nil && conn.GetState() == connectivity.Shutdown
		if found.Code == CodeCancelled && isOver {
			return inDoubt, err
		}
		if err = outage.wait(ctx, err); err != nil {
			return inDoubt, err
		}
		inDoubt = inDoubt || !found.isElsewhere() && !found.isTooMany()
	}
}

// asError returns the *[Error] that an error is. Any other one is internal: it is none of a call.
func asError(err error) *Error {
	if found, ok := errors.AsType[*Error](err); ok {
		return found
	}
	return &Error{Code: CodeInternal}
}

// repeatedByCaller is the key of contexts whose calls are repeated by who makes them, within one patience.
type repeatedByCaller struct{}

func isRepeatedByCaller(ctx context.Context) bool { return ctx.Value(repeatedByCaller{}) != nil }
