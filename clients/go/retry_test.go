// When calls are repeated, and for how long.

package taskyard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestOutageDoublesItsDelaysUpToALimit(t *testing.T) {
	o := &outage{patience: time.Minute, random: func() float64 { return 1 }}
	now := time.Now()
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		if delay, more := o.nextDelay(now, unavailable("down")); delay != want*time.Millisecond || !more {
			t.Errorf("%v, want %v ms", delay, want)
		}
	}
	if o.reset(); o.tries != 0 || !o.since.IsZero() {
		t.Error("an attempt that works does not reset the outage")
	}
}

func TestOutageShortensDelaysAtRandomByUpToAHalf(t *testing.T) {
	o := &outage{patience: time.Minute, random: func() float64 { return 0 }}
	if delay, _ := o.nextDelay(time.Now(), unavailable("down")); delay != 50*time.Millisecond {
		t.Error(delay)
	}
}

func TestOutageAllowsALastAttemptWhenThePatienceEnds(t *testing.T) {
	o := &outage{patience: 10 * time.Second, random: func() float64 { return 1 }}
	start := time.Now()
	o.nextDelay(start, unavailable("down"))
	if delay, more := o.nextDelay(start.Add(9990*time.Millisecond), unavailable("down")); delay != 10*time.Millisecond || !more {
		t.Error(delay, more)
	}
	if _, more := o.nextDelay(start.Add(10*time.Second), unavailable("down")); more {
		t.Error("there is a delay after the patience")
	}
}

func TestOutageAllowsSeveralAttemptsHoweverShortThePatience(t *testing.T) {
	o := &outage{patience: 40 * time.Millisecond, random: func() float64 { return 1 }}
	if delay, _ := o.nextDelay(time.Now(), unavailable("down")); delay != 10*time.Millisecond {
		t.Error(delay)
	}
}

func TestRetryRepeatsWhileUnavailableAndReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, start := 0, time.Now()
		repeated, err := retryWhileUnavailable(t.Context(), nil, 30*time.Second, func(context.Context) error {
			if tries++; time.Since(start) < 20*time.Second {
				return unavailable("down")
			}
			return nil
		})
		if err != nil || !repeated || tries < 20 || tries > 45 {
			t.Error(err, repeated, tries)
		}
	})
}

func TestRetryReturnsTheErrorAfterThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := retryWhileUnavailable(t.Context(), nil, 30*time.Second, func(context.Context) error { return unavailable("down") })
		if CodeOf(err) != CodeUnavailable || time.Since(start) != 30*time.Second {
			t.Error(err, time.Since(start))
		}
	})
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := retryWhileUnavailable(ctx, nil, 30*time.Second, func(context.Context) error { return unavailable("down") })
		if CodeOf(err) != CodeUnavailable || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Error(err, time.Since(start))
		}
	})
}

func TestRetryRepeatsWhatAStoppingServerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		_, err := retryWhileUnavailable(t.Context(), nil, time.Minute, func(context.Context) error {
			if tries++; tries < 3 {
				return ErrorFrom(status.Error(codes.Canceled, "CANCEL"))
			}
			return nil
		})
		if err != nil || tries != 3 {
			t.Error(err, tries)
		}
	})
}

func TestRetryDoesNotRepeatWhatTheCallerCancels(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	_, err := retryWhileUnavailable(ctx, nil, time.Minute, func(context.Context) error {
		tries++
		cancel()
		return ErrorFrom(ctx.Err())
	})
	if CodeOf(err) != CodeCancelled || tries != 1 {
		t.Error(err, tries)
	}
}

func TestRetryFollowsAnOutageOfThreeSecondsWithinOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, _ = retryWhileUnavailable(t.Context(), nil, 30*time.Second, func(context.Context) error {
			if time.Since(start) < 3*time.Second {
				return unavailable("down")
			}
			return nil
		})
		if took := time.Since(start); took > 4*time.Second {
			t.Error(took)
		}
	})
}

func TestRetryDoesNotRepeatARefusal(t *testing.T) {
	repeated, err := retryWhileUnavailable(t.Context(), nil, time.Minute, func(context.Context) error { return badRequest("no") })
	if CodeOf(err) != CodeBadRequest || repeated {
		t.Error(err, repeated)
	}
}

func TestOnlyIdempotentUnaryMethodsAreRepeated(t *testing.T) {
	for method, want := range map[string]bool{
		"TaskService/GetTask": true, "TaskService/WaitTask": true, "TaskService/WatchTasks": false,
		"TaskService/SubmitTask": false, "TaskService/ResumeTask": false, "TargetService/ResumeTargetTask": false,
		"BatchService/CancelBatch":        true,
		"RuntimeHostService/RegisterHost": true, "RuntimeHostService/Connect": false, "ScheduleService/ListSchedules": true,
	} {
		if isIdempotent["/taskyard.v1."+method] != want {
			t.Errorf("%s: %v", method, !want)
		}
	}
}
