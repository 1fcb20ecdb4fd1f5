package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

func TestOnlyWhatHappensInTheWindowCounts(t *testing.T) {
	meter := &Meter{serverPID: os.Getpid()}
	meter.Done(100, time.Second)
	meter.Failed(100, "before")
	meter.Open()
	meter.Done(50, time.Millisecond)
	meter.Done(49, 3*time.Millisecond)
	meter.Failed(1, "refused")
	result, err := meter.Close()
	meter.Done(100, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if result.Operations != 99 || result.Messages != 2 || result.Errors != 1 || result.LastError != "refused" {
		t.Errorf("got %+v", result)
	}
	if result.P50Ms != 3 || result.P99Ms != 3 {
		t.Errorf("quantiles of 1 and 3 ms: %v and %v", result.P50Ms, result.P99Ms)
	}
}

func TestMeasurementFailsWhenTheServerHasEnded(t *testing.T) {
	meter := &Meter{serverPID: 1 << 30}
	meter.Open()
	if _, err := meter.Close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestQuantileIsTheValueThatAShareDoesNotExceed(t *testing.T) {
	var took []time.Duration
	for n := range 1000 {
		took = append(took, time.Duration(n+1)*time.Millisecond)
	}
	for share, want := range map[float64]float64{0.5: 501, 0.99: 991, 0.999: 1000, 1: 1000} {
		if got := quantile(took, share); got != want {
			t.Errorf("%v of 1 to 1,000 ms is %v, not %v", share, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("a quantile of no values is not 0")
	}
}

func TestRoomIsTakenWhenItIsFree(t *testing.T) {
	room := newRoom(10)
	if err := room.take(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	full, cancel := context.WithCancel(t.Context())
	cancel()
	if err := room.take(full, 1); err == nil {
		t.Fatal("there was room for more than ten")
	}
	taken := make(chan error)
	go func() { taken <- room.take(t.Context(), 10) }()
	room.free(4)
	room.free(6)
	if err := <-taken; err != nil {
		t.Error(err)
	}
}
