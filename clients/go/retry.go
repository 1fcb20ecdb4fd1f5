// When to try again, and for how long: what all calls share.

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

// outage tells when to try again, and for how long: the delays double up to a most, and chance shortens each by up to a
// half, so that clients that lost the same server do not come back all at once. Time and chance are passed in.
type outage struct {
	patience time.Duration
	chance   func() float64
	since    time.Time
	tries    int
}

func newOutage(patience time.Duration) *outage {
	return &outage{patience: patience, chance: rand.Float64}
}

// over says that something worked.
func (o *outage) over() { o.since, o.tries = time.Time{}, 0 }

// next answers how long to wait before the next try; false once patience is at its end.
func (o *outage) next(now time.Time) (time.Duration, bool) {
	if o.since.IsZero() {
		o.since = now
	}
	left := o.patience - now.Sub(o.since)
	if left <= 0 {
		return 0, false
	}
	// Room for several tries, however short the patience.
	most := min(maxDelay, o.patience/4)
	delay := min(firstDelay<<min(o.tries, 10), most)
	o.tries++
	return min(time.Duration(float64(delay)*(0.5+o.chance()/2)), left), true
}

// bear waits before the next try. It answers the error once patience is at its end, or the context has ended.
func (o *outage) bear(ctx context.Context, err error) error {
	delay, more := o.next(time.Now())
	if !more {
		return err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		given := *errorFrom(err)
		given.cause = ctx.Err()
		return &given
	}
}

// persist makes an attempt again while the server is unavailable. It answers whether there was more than one.
func persist(ctx context.Context, patience time.Duration, attempt func() error) (repeated bool, err error) {
	outage := newOutage(patience)
	for {
		err = attempt()
		if CodeOf(err) != CodeUnavailable {
			return repeated, err
		}
		if err = outage.bear(ctx, err); err != nil {
			return repeated, err
		}
		repeated = true
	}
}
