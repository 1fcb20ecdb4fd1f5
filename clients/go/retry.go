// When to try again while the server is unavailable, and for how long: shared by calls, submissions and watches.

package taskyard

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 3 * time.Second
)

// outage tells how long to wait before each attempt while the server is unavailable. The delays double up to a limit,
// and each is shortened at random by up to a half, so that clients that lost the same server do not return all at once.
// The time and the randomness are passed in.
type outage struct {
	patience time.Duration
	random   func() float64
	since    time.Time
	tries    int
}

func newOutage(patience time.Duration) *outage {
	return &outage{patience: patience, random: rand.Float64}
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

// wait waits before the next attempt. It returns the error of the last attempt once the patience is over or the context
// has ended.
func (o *outage) wait(ctx context.Context, err error) error {
	delay, more := o.nextDelay(time.Now())
	if !more {
		return err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		last := *errorFrom(err)
		last.cause = ctx.Err()
		return &last
	}
}

// retryWhileUnavailable repeats an attempt while the server is unavailable. It returns whether there was more than one.
func retryWhileUnavailable(
	ctx context.Context, patience time.Duration, attempt func() error,
) (repeated bool, err error) {
	outage := newOutage(patience)
	for {
		err = attempt()
		if CodeOf(err) != CodeUnavailable {
			return repeated, err
		}
		if err = outage.wait(ctx, err); err != nil {
			return repeated, err
		}
		repeated = true
	}
}
