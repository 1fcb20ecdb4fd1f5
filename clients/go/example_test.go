package taskyard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	taskyard "github.com/taskyard/taskyard/clients/go"
	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func ExampleConnect() {
	client, err := taskyard.Connect("https://taskyard.example:443",
		taskyard.WithAgent("ann"),
		taskyard.WithNamespace("team-blue"),
		taskyard.WithTokenFile("/run/secrets/taskyard"), // Read anew when it changes.
		taskyard.WithCA("/etc/taskyard/ca.pem"),         // Default: the root certificates of the system.
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleConnect_profile() {
	client, err := taskyard.Connect("") // The address of TASKYARD_ADDRESS or of the profile.
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleClient_SubmitBatch() {
	ctx, client := connected()
	batch, err := client.SubmitBatch(ctx, taskyard.NewBatch{Tasks: []taskyard.NewTask{
		{Action: "greet", Params: map[string]any{"name": "Ada"}},
		{Action: "greet", Params: map[string]any{"name": "Bob"}, Priority: -1},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, outcome := range batch.Outcomes {
		fmt.Println(outcome.TaskID, outcome.State, outcome.Err)
	}
}

func ExampleClient_Wait() {
	ctx, client := connected()
	submitted, err := client.Submit(ctx, taskyard.NewTask{Action: "greet"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	task, err := client.Wait(ctx, submitted.TaskID)
	if errors.Is(err, context.DeadlineExceeded) {
		_, err = client.Cancel(context.Background(), submitted.TaskID)
	}
	fmt.Println(task, err)
}

func ExampleClient_Resume() {
	ctx, client := connected()
	taskID := "tsk_019a6b0c"
	state, err := client.Resume(ctx, taskID, taskyard.WithTokenLimit(20_000))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state)
}

func ExampleClient_Watch() {
	ctx, client := connected()
	options := taskyard.WatchOptions{Agent: "ann", IncludeCurrent: true}
	for event, err := range client.Watch(ctx, options) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Kind, event.Task.ID, event.Task.State)
	}
}

func ExampleError() {
	ctx, client := connected()
	_, err := client.Submit(ctx, taskyard.NewTask{Action: "greet"})
	if refused, ok := errors.AsType[*taskyard.Error](err); ok {
		fmt.Println(refused.Code, refused.Reason, refused.Retryable, refused.Details)
	}
	if taskyard.CodeOf(err) == taskyard.CodeQueueFull {
		fmt.Println("come back later")
	}
}

func ExampleClient_Conn() {
	ctx, client := connected()
	schedules := taskyardv1.NewScheduleServiceClient(client.Conn())
	answer, err := schedules.ListSchedules(ctx, &taskyardv1.ListSchedulesRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(answer.GetSchedules()))
}

func connected() (context.Context, *taskyard.Client) {
	client, err := taskyard.Connect("127.0.0.1:50051")
	if err != nil {
		log.Fatal(err)
	}
	return context.Background(), client
}
