package main

import (
	"context"
	"sync"
	"time"
)

// pace spreads operations evenly. One that could not keep up goes on from now, so that no burst follows.
type pace struct {
	every time.Duration
	next  time.Time
}

// newPace answers a pace of that many operations a second; of any number if it is 0. The phase, 0 to 1, keeps those of
// several from being due at once.
func newPace(rate, phase float64) *pace {
	if rate <= 0 {
		return &pace{}
	}
	every := float64(time.Second) / rate
	return &pace{every: time.Duration(every), next: time.Now().Add(time.Duration(phase * every))}
}

// wait waits until the next operation is due, or answers why it never will be.
func (p *pace) wait(ctx context.Context) error {
	if p.every == 0 {
		return ctx.Err()
	}
	p.next = p.next.Add(p.every)
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	return sleep(ctx, time.Until(p.next))
}

// room bounds how many tasks are in the server. It may be used by many goroutines at once.
type room struct {
	mu    sync.Mutex
	left  int
	freed chan struct{} // Closed when there is more, and replaced; nil while nobody waits.
}

func newRoom(size int) *room {
	return &room{left: size}
}

// take waits until there is room for some tasks, and uses it.
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

// free gives room back.
func (r *room) free(tasks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += tasks
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
