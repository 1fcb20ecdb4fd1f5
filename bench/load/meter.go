// The measured window: operations, latencies and CPU time.

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Result is what a load prints, as JSON.
type Result struct {
	Operations    int     `json:"operations"`      // What the server did in the window: tasks, or whatever the mode counts.
	Secs          float64 `json:"secs"`            // The measured length of the window.
	CPUSecs       float64 `json:"cpu_secs"`        // CPU time of this process in the window.
	ServerCPUSecs float64 `json:"server_cpu_secs"` // CPU time of the process -server-pid in the window, 0 without it.
	P50Ms         float64 `json:"p50_ms"`          // Of the calls or messages answered in the window.
	P99Ms         float64 `json:"p99_ms"`
	P999Ms        float64 `json:"p999_ms"`
	Messages      int     `json:"messages"` // Answers or messages that had the operations.
	Errors        int     `json:"errors"`   // Refused calls and tasks in the window.
	LastError     string  `json:"last_error,omitempty"`
}

// Meter counts and times what happens in the window. It may be used by many goroutines at once.
type Meter struct {
	serverPID int

	mu       sync.Mutex
	open     bool
	result   Result
	latency  []time.Duration
	begin    time.Time
	cpu      time.Duration // Of this process when the window began.
	server   time.Duration // Of the server when the window began.
	cpuError error         // Why the CPU time of the server could not be read.
}

// Done counts an answer with a number of operations, and how long it took.
func (m *Meter) Done(operations int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		m.result.Operations += operations
		m.result.Messages++
		m.latency = append(m.latency, took)
	}
}

// Counted counts operations that are not timed.
func (m *Meter) Counted(operations int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		m.result.Operations += operations
	}
}

// Took notes how long a message took that is counted elsewhere.
func (m *Meter) Took(took time.Duration) { m.Done(0, took) }

// Failed counts refusals and keeps the reason of the last one. Nothing happens if the count is 0.
func (m *Meter) Failed(count int, reason string) {
	if count == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		m.result.Errors += count
	}
	// Also before the window: the result then tells why nothing was done.
	m.result.LastError = reason
}

// Open begins the window.
func (m *Meter) Open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open, m.begin, m.cpu = true, time.Now(), ownCPU()
	m.server, m.cpuError = cpuOf(m.serverPID)
}

// Close ends the window and returns its result.
func (m *Meter) Close() (*Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = false
	result := m.result
	result.Secs, result.CPUSecs = time.Since(m.begin).Seconds(), (ownCPU() - m.cpu).Seconds()
	server, err := cpuOf(m.serverPID)
	if err != nil || m.cpuError != nil {
		return nil, fmt.Errorf("the CPU time of the server: %w", err)
	}
	result.ServerCPUSecs = (server - m.server).Seconds()
	slices.Sort(m.latency)
	result.P50Ms, result.P99Ms, result.P999Ms = quantile(m.latency, 0.5), quantile(m.latency, 0.99), quantile(m.latency, 0.999)
	return &result, nil
}

// Window waits for the warm-up, measures, and returns the result. The load runs in other goroutines.
func (m *Meter) Window(ctx context.Context, o *Options) (*Result, error) {
	return m.WindowUntil(ctx, o, nil)
}

// WindowUntil is Window, but ends early when the channel end is closed.
func (m *Meter) WindowUntil(ctx context.Context, o *Options, end <-chan struct{}) (*Result, error) {
	if err := sleep(ctx, o.WarmUp); err != nil {
		return nil, err
	}
	m.Open()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-end:
	case <-time.After(o.Measured):
	}
	return m.Close()
}

// quantile returns the smallest value that a share of all values do not exceed, in milliseconds; 0 without values.
func quantile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(int(share*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[at]) / float64(time.Millisecond)
}

func sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(length):
		return nil
	}
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cpuOf returns the CPU time of a process, in steps of 10 ms; 0 for the pid 0.
func cpuOf(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in brackets, may contain any character. utime and stime are the 12th and 13th field
	// after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int
	for _, field := range fields[11:13] {
		count, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += count
	}
	return time.Duration(ticks) * (time.Second / 100), nil
}
