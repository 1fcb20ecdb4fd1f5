// Hosts as their authors see them.

package taskyard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// Handler runs a task. Its result is what encoding/json makes a value of, nil for none. An error fails the task, a
// *TaskFailure by its own words; a panic fails it too.
//
// The context ends when the work is no longer wanted: the task was cancelled, paused or is past its deadline, its lease
// is lost, be it that the server cannot be reached for longer than leases live, or the host leaves. context.Cause is a
// *StopError then. Return the context's error soon.
type Handler func(ctx context.Context, task *RunningTask) (any, error)

// HostOptions tells what a host is and how it works. What is zero takes the default.
type HostOptions struct {
	// Slots is how many tasks it runs at once. Default 10.
	Slots int
	// Capabilities are what it can do; a task's requirements must be among them.
	Capabilities []string
	// Project limits it to the tasks of one project.
	Project string
	// Labels are the operator's own marks.
	Labels map[string]string
	// DisplayName is its name for people. Default: its id.
	DisplayName string
	// Lease is the length of its leases, 1 s to 1 h in whole seconds. Default: the server's.
	Lease time.Duration
	// DrainGrace is how long what runs may take when the host is told to stop. Default 30 s.
	DrainGrace time.Duration
	// Machine answers the figures of its machine, with each heartbeat. Default: only how many tasks run.
	Machine func() *taskyardv1.Machine
}

// Host is a runtime host: it takes tasks from the server, up to Slots at once, and runs their handlers, each in a
// goroutine of its own.
type Host struct {
	client   *Client
	id       string
	options  HostOptions
	handlers map[string]Handler
	any      Handler
	running  atomic.Bool
}

// NewHost answers a host that works over a client's connection, in its namespace. The id must be this host's alone.
func NewHost(client *Client, id string, options HostOptions) *Host {
	if options.Slots <= 0 {
		options.Slots = 10
	}
	if options.DrainGrace <= 0 {
		options.DrainGrace = 30 * time.Second
	}
	return &Host{client: client, id: id, options: options, handlers: map[string]Handler{}}
}

// Handle has a handler run an action. It panics if another one does already; call it before Run.
func (h *Host) Handle(action string, handler Handler) {
	if h.handlers[action] != nil {
		panic("taskyard: action " + action + " has a handler already")
	}
	h.handlers[action] = handler
}

// HandleAny has a handler run all actions without one of their own. With it the host takes every action.
func (h *Host) HandleAny(handler Handler) { h.any = handler }

// Run connects, works, and reconnects whenever the connection is lost. When the context ends, the host drains: it takes
// nothing new, finishes what runs within DrainGrace, interrupts and gives back the rest, leaves, and Run answers nil; so
// it does when the server drains the host. Give it a context of signal.NotifyContext.
//
// The error is an *Error when the server refuses the host for good: CodeBadRequest, CodeUnauthenticated,
// CodePermissionDenied, CodeUnimplemented, or CodeConflict where another stream of this very host has taken its place;
// or when the client is closed.
func (h *Host) Run(ctx context.Context) error {
	if len(h.handlers) == 0 && h.any == nil {
		return errors.New("taskyard: the host has no handlers")
	}
	if !h.running.CompareAndSwap(false, true) {
		return errors.New("taskyard: the host runs already")
	}
	defer h.running.Store(false)
	return newHostRun(h).run(ctx)
}

// handler answers who runs an action, nil if nobody does.
func (h *Host) handler(action string) Handler {
	if handler := h.handlers[action]; handler != nil {
		return handler
	}
	return h.any
}

// actions answers the only actions that can be run; none if any can.
func (h *Host) actions() []string {
	if h.any != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(h.handlers))
}
