// Command host runs tasks of the action greet for a Taskyard server, until SIGTERM drains it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// While the host drains, another signal ends the process at once.
	context.AfterFunc(ctx, stop)

	client, err := taskyard.Connect(address())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	host := taskyard.NewHost(client, hostID(), taskyard.HostOptions{Slots: 4})
	host.Handle("greet", greet)
	if err := host.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func greet(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	var params struct {
		Name    string  `json:"name"`
		Seconds float64 `json:"seconds"`
	}
	if err := task.DecodeParams(&params); err != nil {
		return nil, &taskyard.ActionFailed{Reason: err.Error(), Code: "bad_params", Final: true}
	}
	task.Progress(0.5, "thinking of words")
	select {
	case <-time.After(time.Duration(params.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return map[string]any{"text": fmt.Sprintf("Hello, %s!", params.Name), "host": hostID()}, nil
}

// address returns where the server listens for gRPC.
func address() string {
	if given := os.Getenv("TASKYARD_ADDRESS"); given != "" {
		return given
	}
	return "127.0.0.1:50051"
}

// hostID returns the id of this host. No other host may have the same.
func hostID() string {
	if given := os.Getenv("TASKYARD_HOST_ID"); given != "" {
		return given
	}
	return "go-host"
}
