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

// Result is what a load reports.
type Result struct {
	Operations    int     `json:"operations"`      // What the server did in the window: tasks, or what the mode counts.
	Secs          float64 `json:"secs"`            // The length of the window as measured.
	CPUSecs       float64 `json:"cpu_secs"`        // CPU time of this process in the window.
	ServerCPUSecs float64 `json:"server_cpu_secs"` // CPU time of the process of -server-pid in the window; else 0.
	P50Ms         float64 `json:"p50_ms"`          // Of the calls or messages that were answered in the window.
	P99Ms         float64 `json:"p99_ms"`
	P999Ms        float64 `json:"p999_ms"`
	Messages      int     `json:"messages"` // How many answers or messages carried the operations.
	Errors        int     `json:"errors"`   // Calls and tasks that were refused in the window.
	LastError     string  `json:"last_error,omitempty"`
}

// Meter counts what happens in the window and times it. It may be used by many goroutines at once.
type Meter struct {
	serverPID int

	mu       sync.Mutex
	open     bool
	result   Result
	took     []time.Duration
	begin    time.Time
	cpu      time.Duration
	server   time.Duration
	failures error // What went wrong when reading the CPU time of the server.
}

// Done counts an answer that carried some operations, and how long it took.
func (m *Meter) Done(operations int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		m.result.Operations += operations
		m.result.Messages++
		m.took = append(m.took, took)
	}
}

// Failed counts refusals, if there are any, and keeps one of them.
func (m *Meter) Failed(count int, why string) {
	if count == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		m.result.Errors += count
	}
	// Also what fails before the window: a load that gets nothing done shall be able to say why.
	m.result.LastError = why
}

// Open begins the window.
func (m *Meter) Open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open, m.begin, m.cpu = true, time.Now(), ownCPU()
	m.server, m.failures = cpuOf(m.serverPID)
}

// Close ends the window and answers what was in it.
func (m *Meter) Close() (*Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = false
	result := m.result
	result.Secs, result.CPUSecs = time.Since(m.begin).Seconds(), (ownCPU() - m.cpu).Seconds()
	server, err := cpuOf(m.serverPID)
	if err != nil || m.failures != nil {
		return nil, fmt.Errorf("the CPU time of the server: %w", err)
	}
	result.ServerCPUSecs = (server - m.server).Seconds()
	slices.Sort(m.took)
	result.P50Ms, result.P99Ms, result.P999Ms = quantile(m.took, 0.5), quantile(m.took, 0.99), quantile(m.took, 0.999)
	return &result, nil
}

// Window warms up, measures, and answers what was measured; what is measured goes on in other goroutines.
func (m *Meter) Window(ctx context.Context, o *Options) (*Result, error) {
	return m.WindowUntil(ctx, o, nil)
}

// WindowUntil is Window, and ends it early when a channel is closed.
func (m *Meter) WindowUntil(ctx context.Context, o *Options, over <-chan struct{}) (*Result, error) {
	if err := sleep(ctx, o.WarmUp); err != nil {
		return nil, err
	}
	m.Open()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-over:
	case <-time.After(o.Measured):
	}
	return m.Close()
}

// quantile answers the smallest value that a share of all do not exceed, in milliseconds; 0 if there are none.
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

// cpuOf answers the CPU time that a process has used, in steps of 10 ms; 0 without a process.
func cpuOf(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in brackets, may hold anything; utime and stime are the 12th and 13th field after it.
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
