// What tests expect: no error, an item in time, no goroutine left behind.

package taskyard

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// waitLimit is how long a test waits for what must happen.
const waitLimit = 15 * time.Second

// testContext returns a context that ends a test that hangs.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// must returns the value of a call that must not fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// receive returns the next item of a channel.
func receive[T any](t *testing.T, channel <-chan T) T {
	t.Helper()
	select {
	case value, ok := <-channel:
		if !ok {
			t.Fatal("the channel is closed")
		}
		return value
	case <-time.After(waitLimit):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// eventually waits until a condition is true.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not become true")
		}
	}
}

var checkedTests sync.Map

// checkForLeaks lets a test fail that leaves goroutines behind. It checks after all other cleanups of the test.
func checkForLeaks(t *testing.T) {
	t.Helper()
	if _, known := checkedTests.LoadOrStore(t.Name(), true); known {
		return
	}
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		checkedTests.Delete(t.Name())
		expectGoroutines(t, before)
	})
}

// expectGoroutines waits until no more goroutines run than before.
func expectGoroutines(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(waitLimit); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}
