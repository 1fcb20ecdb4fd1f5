package main

import (
	"context"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// watchStreams is how many watches share a connection.
const watchStreams = 50

// startWatchers opens -watchers watches and reads them until the work ends. Each watches one agent if filtered, else
// everything. All of them are there when it returns. seen is told of each message how many events it carried.
func startWatchers(w *work, o *Options, filtered bool, seen func(events int)) error {
	connections, err := w.dial(o.Address, (o.Watchers+watchStreams-1)/watchStreams)
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
		watch, err := stub.WatchTasks(w.ctx, request)
		if err != nil {
			return err
		}
		// The first message, a bookmark, tells that the watch is there.
		if _, err := watch.Recv(); err != nil {
			return err
		}
		w.start(func(ctx context.Context) error { return read(ctx, watch, seen) })
	}
	return nil
}

func read(ctx context.Context, watch grpc.ServerStreamingClient[taskyardv1.WatchTasksResponse], seen func(int)) error {
	for {
		message, err := watch.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		seen(len(message.GetEvents()))
	}
}
