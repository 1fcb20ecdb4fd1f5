// A timer that is on time. That of Go's runtime waits for whole milliseconds, which is longer than what is measured.

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer wakes one goroutine, a few microseconds after the time.
type timer struct {
	file *os.File
}

// newTimer returns a timer of the kernel, which the runtime waits for as for a connection.
func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a timer: %w", err)
	}
	return &timer{os.NewFile(uintptr(fd), "timer")}, nil
}

// sleep waits for a length of time, or until the context ends, which the error tells.
func (t *timer) sleep(ctx context.Context, length time.Duration) error {
	if length <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(length))}
	raw, err := t.file.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &once, nil) }); err != nil || set != nil {
		return fmt.Errorf("a timer: %v, %w", err, set)
	}
	stop := context.AfterFunc(ctx, func() { _ = t.file.SetReadDeadline(time.Now()) })
	defer stop()
	var fired [8]byte
	if _, err := t.file.Read(fired[:]); err != nil && ctx.Err() == nil {
		return fmt.Errorf("a timer: %w", err)
	}
	return ctx.Err()
}

func (t *timer) close() {
	_ = t.file.Close()
}
