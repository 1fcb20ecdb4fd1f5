// The options of submissions, and the wait for room in a full queue.

package taskyard

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// firstFullDelay is the first wait for room where the server names no time.
	firstFullDelay = time.Second
	// maxFullDelay is the longest wait between two tries to get into a full queue.
	maxFullDelay = 10 * time.Second
)

// SubmitOption is an option of [Client.Submit] and [Client.Run].
type SubmitOption func(*submitOptions)

type submitOptions struct{ waitsWhenFull, keepsOnExit bool }

func submitOptionsOf(options []SubmitOption) (found submitOptions) {
	for _, option := range options {
		option(&found)
	}
	return found
}

// WaitWhenFull lets a task that finds the queue full be submitted again, after the time that the server names and then in
// growing steps of up to 10 s, until its context ends. Default: the submission ends with [CodeQueueFull].
func WaitWhenFull() SubmitOption {
	return func(options *submitOptions) { options.waitsWhenFull = true }
}

// CancelOnExit sets whether [Client.Run] cancels its task when its context ends before the task has. Default: true.
func CancelOnExit(cancels bool) SubmitOption {
	return func(options *submitOptions) { options.keepsOnExit = !cancels }
}

// untilRoom submits until the queue has room, or for another reason, or until the context has ended.
func untilRoom[T any](ctx context.Context, submit func() (T, error)) (T, error) {
	for tries := 0; ; tries++ {
		answer, err := submit()
		if CodeOf(err) != CodeQueueFull {
			return answer, err
		}
		found := asError(err)
		select {
		case <-time.After(fullDelay(found.RetryAfter, tries, rand.Float64())):
		case <-ctx.Done():
			last := *found
			last.cause = ctx.Err()
			return answer, &last
		}
	}
}

// fullDelay returns how long a task that was refused waits, after so many tries before.
func fullDelay(named time.Duration, tries int, random float64) time.Duration {
	if named <= 0 {
		named = firstFullDelay
	}
	return spread(max(named, min(named<<min(tries, 4), maxFullDelay)), random)
}
