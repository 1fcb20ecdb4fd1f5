// Command agent submits a task to a Taskyard server and prints its result.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	address := cmp.Or(os.Getenv("TASKYARD_ADDRESS"), "127.0.0.1:50051")
	client, err := taskyard.Connect(address, taskyard.WithAgentID("ann"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	task, err := client.Run(ctx, taskyard.NewTask{
		Action: "greet",
		Params: map[string]any{"name": "Ada"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.Result)
}
