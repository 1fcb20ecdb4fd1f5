// Watchers of tasks.

package main

import (
	"context"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// watchesPerConnection is how many watches share a connection.
const watchesPerConnection = 50

// startWatchers opens -watchers watches and reads them until the work ends. Each watches one agent if filtered is true,
// else all tasks. All watches are open when it returns. seen is called for each message, with the number of its events.
func startWatchers(w *work, o *Options, filtered bool, seen func(events int)) error {
	connections, err := w.dial(o, (o.Watchers+watchesPerConnection-1)/watchesPerConnection)
	if err != nil {
		return err
	}
	for number := range o.Watchers {
		request := &taskyardv1.WatchTasksRequest{}
		if filtered {
			agent := agentName(number % o.Agents)
			request.AgentId = &agent
		}
		stub := taskyardv1.NewTaskServiceClient(connections[number%len(connections)])
		stream, err := stub.WatchTasks(w.ctx, request)
		if err != nil {
			return err
		}
		// The first message, a bookmark, shows that the watch is open.
		if _, err := stream.Recv(); err != nil {
			return err
		}
		w.start(func(ctx context.Context) error { return readEvents(ctx, stream, seen) })
	}
	return nil
}

func readEvents(ctx context.Context, stream grpc.ServerStreamingClient[taskyardv1.WatchTasksResponse], seen func(int)) error {
	for {
		message, err := stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		seen(len(message.GetEvents()))
	}
}
