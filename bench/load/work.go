// The goroutines and connections of a load.

package main

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
)

// work has the goroutines that make the load, and their connections. The first error of any of them ends all.
type work struct {
	ctx         context.Context
	cancel      context.CancelCauseFunc
	running     sync.WaitGroup
	connections []*grpc.ClientConn
}

// errOver is the cause of an orderly end.
var errOver = errors.New("the work is over")

// during runs a measurement, which starts the parts of the work, and stops them when it has its result.
func during(ctx context.Context, measure func(w *work) (*Result, error)) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &work{ctx: ctx, cancel: cancel}
	result, err := measure(w)
	w.cancel(errOver)
	w.running.Wait()
	for _, connection := range w.connections {
		_ = connection.Close()
	}
	if cause := context.Cause(w.ctx); !errors.Is(cause, errOver) {
		err = cause
	}
	return result, err
}

// start runs a part in a goroutine of its own. Its error ends the work.
func (w *work) start(part func(ctx context.Context) error) {
	w.running.Go(func() {
		if err := part(w.ctx); err != nil {
			w.cancel(err)
		}
	})
}

// dial opens connections to the server, each with a TCP connection of its own.
func (w *work) dial(o *Options, count int) ([]*grpc.ClientConn, error) {
	options, err := dialOptions(o)
	if err != nil {
		return nil, err
	}
	opened := make([]*grpc.ClientConn, 0, count)
	for range count {
		connection, err := grpc.NewClient("passthrough:///"+o.Address, options...)
		if err != nil {
			return nil, err
		}
		w.connections = append(w.connections, connection)
		opened = append(opened, connection)
	}
	return opened, nil
}
