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

// Handler runs a task. The result is anything that encoding/json can encode, nil for none. An error fails the task: a
// *[ActionFailed] with its own reason and code, see also [Retry] and [NotRetryable], any other error with its text. A panic
// fails the task too. The chain of the error, or the stack of the panic, is the traceback of the task.
//
// The context ends when the work is no longer wanted: the task was cancelled, paused, has passed its deadline or
// runs for longer than its run timeout; its
// lease has ended, also because the server could not be reached for longer than the lease; or the host leaves.
// [context.Cause] then is a *[StopError]. A handler should return the error of its context soon.
//
// The handler of a task with a target begins once the server has accepted the start of the task, so that two tasks of a
// target never run at the same time. The handler of another task begins as soon as its start is reported.
type Handler func(ctx context.Context, task *RunningTask) (any, error)

// HostOptions are the options of [NewHost]. A zero field has its default.
type HostOptions struct {
	// Slots is how many tasks the host runs at the same time. Default: 10.
	Slots int
	// Capabilities are what the host can do. It gets tasks whose requirements are among them. Default: none.
	Capabilities []string
	// Project limits the host to the tasks of one project. Default: all projects.
	Project string
	// Labels are shown with the host. Default: none.
	Labels map[string]string
	// DisplayName is the name for people. Default: the id.
	DisplayName string
	// Lease is the length of the host's leases, 1 s to 1 h, rounded up to seconds. Default: that of the server, 60 s
	// unless configured.
	Lease time.Duration
	// DrainGrace is how long running tasks may go on once the host drains. Default: 30 s.
	DrainGrace time.Duration
	// Machine returns the figures of the machine. It is called for each heartbeat. Default: only the number of running
	// tasks.
	Machine func() *taskyardv1.Machine
}

// Host is a runtime host: it takes tasks from the server and runs their handlers, each in a goroutine of its own.
type Host struct {
	client   *Client
	id       string
	options  HostOptions
	handlers map[string]Handler
	fallback Handler
	running  atomic.Bool
}

// NewHost returns a host that uses the connection and the namespace of a client. No other host may have the same id.
func NewHost(client *Client, id string, options HostOptions) *Host {
	if options.Slots <= 0 {
		options.Slots = 10
	}
	if options.DrainGrace <= 0 {
		options.DrainGrace = 30 * time.Second
	}
	return &Host{client: client, id: id, options: options, handlers: map[string]Handler{}}
}

// Handle registers the handler of an action. It panics if the action has one already. Call it before [Host.Run].
func (h *Host) Handle(action string, handler Handler) {
	if h.handlers[action] != nil {
		panic("taskyard: action " + action + " has a handler already")
	}
	h.handlers[action] = handler
}

// HandleAny registers the handler of all actions without a handler of their own. The host then takes tasks of every
// action. Call it before [Host.Run].
func (h *Host) HandleAny(handler Handler) { h.fallback = handler }

// Run connects, runs tasks, and reconnects whenever the connection is lost. When the context ends, the host drains: it
// takes nothing new, lets running tasks go on for DrainGrace, interrupts and gives back the rest, leaves, and Run
// returns nil. It does the same when the server drains the host. A context of [os/signal.NotifyContext] lets the host
// drain on a signal.
//
// The error is an *[Error] if the server refuses the host for good, with [CodeBadRequest], [CodeUnauthenticated],
// [CodePermissionDenied] or [CodeUnimplemented]; with [CodeConflict] if another stream of this host has taken its
// place; and with [CodeCancelled] if the client is closed. It is another error if the host has no handlers, or runs
// already.
func (h *Host) Run(ctx context.Context) error {
	if len(h.handlers) == 0 && h.fallback == nil {
		return errors.New("taskyard: the host has no handlers")
	}
	if !h.running.CompareAndSwap(false, true) {
		return errors.New("taskyard: the host runs already")
	}
	defer h.running.Store(false)
	return newHostRun(h).run(ctx)
}

// handler returns the handler of an action, nil if there is none.
func (h *Host) handler(action string) Handler {
	if handler := h.handlers[action]; handler != nil {
		return handler
	}
	return h.fallback
}

// actions returns the actions that the host takes, nil if it takes all.
func (h *Host) actions() []string {
	if h.fallback != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(h.handlers))
}
