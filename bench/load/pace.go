// What limits a load: a rate, and a number of tasks in the server.

package main

import (
	"context"
	"sync"
	"time"
)

// pace spreads operations evenly. After a delay it continues from now on, so that no burst follows; an open one keeps
// to its times instead, and what is late follows at once, as the work of many who do not know of one another would.
type pace struct {
	interval time.Duration
	next     time.Time
	timer    *timer // Of an open one.
}

// newPace returns a pace of a number of operations a second, 0 for no limit. The phase, 0 to 1, is the part of an
// interval before the first operation, so that several paces are not due at the same time.
func newPace(rate, phase float64) *pace {
	if rate <= 0 {
		return &pace{}
	}
	interval := float64(time.Second) / rate
	return &pace{interval: time.Duration(interval), next: time.Now().Add(time.Duration(phase * interval))}
}

// newOpenPace is newPace whose times are fixed from the beginning. It is to be closed.
func newOpenPace(rate, phase float64) (*pace, error) {
	timer, err := newTimer()
	if err != nil {
		return nil, err
	}
	p := newPace(rate, phase)
	p.timer = timer
	return p, nil
}

func (p *pace) close() {
	if p.timer != nil {
		p.timer.close()
	}
}

// wait waits until the next operation is due. The error tells that the context has ended.
func (p *pace) wait(ctx context.Context) error {
	if p.interval == 0 {
		return ctx.Err()
	}
	p.next = p.next.Add(p.interval)
	if p.timer != nil {
		return p.timer.sleep(ctx, time.Until(p.next))
	}
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	return sleep(ctx, time.Until(p.next))
}

// due is when the operation that was waited for should have begun.
func (p *pace) due() time.Time {
	return p.next
}

// room limits how many tasks are in the server. It may be used by many goroutines at once.
type room struct {
	mu    sync.Mutex
	left  int
	freed chan struct{} // Closed and replaced when tasks leave; nil while nobody waits.
}

func newRoom(size int) *room {
	return &room{left: size}
}

// take waits until there is room for a number of tasks, and takes it.
func (r *room) take(ctx context.Context, tasks int) error {
	for {
		r.mu.Lock()
		if r.left >= tasks {
			r.left -= tasks
			r.mu.Unlock()
			return nil
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		freed := r.freed
		r.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// free returns the room of a number of tasks.
func (r *room) free(tasks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += tasks
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
