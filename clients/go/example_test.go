package taskyard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	taskyard "github.com/taskyard/taskyard/clients/go"
	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func ExampleConnect() {
	client, err := taskyard.Connect("https://taskyard.example:443",
		taskyard.WithAgentID("ann"),
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
	task, err := client.Wait(ctx, submitted.ID)
	if errors.Is(err, context.DeadlineExceeded) {
		_, err = client.Cancel(context.Background(), submitted.ID)
	}
	fmt.Println(task, err)
}

func ExampleClient_Run() {
	ctx, client := connected()
	task, err := client.Run(ctx, taskyard.NewTask{Action: "greet"}, taskyard.WaitWhenFull())
	switch failed, ok := errors.AsType[*taskyard.TaskFailed](err); {
	case ok:
		fmt.Println(failed.Code, failed.Message, len(failed.Attempts), failed.Traceback)
	case errors.Is(err, taskyard.ErrTaskLost):
		fmt.Println("the server was started anew without a store")
	case err == nil:
		fmt.Println(task.Result)
	}
}

func ExampleClient_Output() {
	ctx, client := connected()
	submitted, err := client.Submit(ctx, taskyard.NewTask{Action: "greet"})
	if err != nil {
		log.Fatal(err)
	}
	following := taskyard.OutputOptions{Channels: []string{"output"}, Follow: true}
	for chunk, err := range client.Output(ctx, submitted.ID, following) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(chunk.Text)
	}
}

type page struct {
	URL   string `json:"url"`
	Bytes int64  `json:"bytes"`
}

func ExampleTyped() {
	_, client := connected()
	host := taskyard.NewHost(client, "host-1", taskyard.HostOptions{Slots: 4})
	host.Handle("fetch", taskyard.Typed(fetch))
}

func fetch(ctx context.Context, task *taskyard.RunningTask, input page) (page, error) {
	if input.URL == "" {
		return page{}, taskyard.NotRetryable(errors.New("there is no URL"))
	}
	if err := task.DecodeCheckpoint(&input); err != nil { // What the last attempt saved, if there was one.
		return page{}, err
	}
	if err := task.SaveCheckpoint(input); err != nil {
		return page{}, err
	}
	if input.Bytes == 0 {
		return page{}, taskyard.Retry(time.Minute, errors.New("the page is not there yet"))
	}
	return input, nil
}

func ExampleClient_Submit() {
	ctx, client := connected()
	submitted, err := client.Submit(ctx, taskyard.NewTask{
		Action:      "fetch",
		Input:       page{URL: "https://example.com", Bytes: 9_007_199_254_740_993},
		RunTimeout:  30 * time.Second, // Of each attempt.
		Deadline:    time.Now().Add(time.Hour),
		RetryPolicy: &taskyard.RetryPolicy{MaxAttempts: 3},
	})
	if err != nil {
		log.Fatal(err)
	}
	children := taskyard.ListOptions{ParentID: submitted.ID}
	for child, err := range client.List(ctx, children) {
		fmt.Println(child, err)
	}
	cancelled, err := client.CancelWithChildren(ctx, submitted.ID)
	fmt.Println(cancelled, err)
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

func ExampleClient_AttachArtifact() {
	ctx, client := connected()
	file, err := os.Open("page.png")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	submitted, err := client.Submit(ctx, taskyard.NewTask{Action: "draw", Hold: true})
	if err != nil {
		log.Fatal(err)
	}
	// The file is an io.ReadSeeker, such as an *os.File.
	if _, err := client.AttachArtifact(ctx, submitted.ID, "page.png", file, "image/png"); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Resume(ctx, submitted.ID); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Wait(ctx, submitted.ID); err != nil {
		log.Fatal(err)
	}
	if err := client.SaveArtifact(ctx, submitted.ID, "drawing.svg", "drawing.svg"); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Watch() {
	ctx, client := connected()
	options := taskyard.WatchOptions{AgentID: "ann", IncludeCurrent: true}
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

func ExampleNewTask() {
	ctx, client := connected()
	submitted, err := client.Submit(ctx, taskyard.NewTask{Action: "fetch"})
	if err != nil {
		log.Fatal(err)
	}
	report, err := client.Submit(ctx, taskyard.NewTask{
		Action: "report", After: []string{submitted.ID}, AfterPolicy: taskyard.AfterEnded,
		ConcurrencyKeys: []string{"site:example.org"}, UniqueKey: "report", OnConflict: taskyard.ConflictReplaceQueued,
	})
	if err != nil {
		log.Fatal(err)
	}
	summary, err := client.Submit(ctx, taskyard.NewTask{
		Action: "summarise", Inputs: map[string]string{"page": submitted.ID},
	})
	fmt.Println(summary, err)
	limits := taskyardv1.NewLimitServiceClient(client.Conn())
	limit, err := limits.PutLimit(ctx, &taskyardv1.PutLimitRequest{Pattern: "site:*", MaxInflight: proto.Uint32(3)})
	fmt.Println(limit.GetLimit(), err)
	tasks := taskyardv1.NewTaskServiceClient(client.Conn())
	why, err := tasks.ExplainTask(ctx, &taskyardv1.ExplainTaskRequest{TaskId: report.ID})
	fmt.Println(why.GetReasons(), err)
	operations := taskyardv1.NewOperationServiceClient(client.Conn())
	begun, err := operations.CancelTasks(ctx, &taskyardv1.CancelTasksRequest{
		OperationId: "stop-shop", Filter: &taskyardv1.TaskFilter{Labels: proto.String("site=shop")},
	})
	fmt.Println(begun.GetOperation().GetMatched(), err)
}

func ExampleTaskInput() {
	_, client := connected()
	host := taskyard.NewHost(client, "host-1", taskyard.HostOptions{Slots: 4})
	host.Handle("summarise", summarise)
}

func summarise(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	var fetched page
	if err := task.Inputs["page"].DecodeResult(&fetched); err != nil {
		return nil, err
	}
	picture, err := task.Inputs["page"].ReadArtifact(ctx, "page.png")
	return map[string]any{"url": fetched.URL, "bytes": len(picture)}, err
}

func ExampleStep() {
	_, client := connected()
	host := taskyard.NewHost(client, "laptop", taskyard.HostOptions{})
	host.Handle("order", order)
}

func order(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	item, err := taskyard.Step(ctx, task, "fetch page", func(ctx context.Context) (page, error) {
		return page{URL: "https://example.com"}, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return taskyard.Step(ctx, task, "pay", func(ctx context.Context) (string, error) {
		return "paid for " + item.URL, ctx.Err()
	})
}

func ExampleRunningTask_Ask() {
	ctx, client := connected()
	host := taskyard.NewHost(client, "laptop", taskyard.HostOptions{})
	host.Handle("release", release)
	for open, err := range client.Questions(ctx, taskyard.QuestionOptions{AgentID: "ann"}) {
		if err != nil {
			log.Fatal(err)
		}
		if _, err := client.Answer(ctx, open.TaskID, open.QuestionID, "yes"); err != nil {
			log.Fatal(err)
		}
	}
}

func release(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	answer, err := task.Ask(ctx, "deploy", "Deploy to all?", taskyard.WithChoices("yes", "no"))
	if err != nil {
		return nil, err // An ErrParked until there is an answer.
	}
	return answer, task.Sleep(ctx, 10*time.Minute, "settle")
}

func connected() (context.Context, *taskyard.Client) {
	client, err := taskyard.Connect("127.0.0.1:50051")
	if err != nil {
		log.Fatal(err)
	}
	return context.Background(), client
}
