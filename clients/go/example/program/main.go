// Command program is an agent program: twenty parts at once, words as they come, a budget, a person in the middle.
// Kill it whenever you like, and run it again: it goes on where it was.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

const partTokens = 100

// model stands for a language model: it makes a text of a prompt, says it word by word, and counts the tokens. A run
// comes to it once at most, since what it said before is a step.
func model(task *taskyard.RunningTask, prompt string) (string, error) {
	words := strings.Fields("This is what is known of " + prompt + ".")
	for count, word := range words {
		if err := task.Emit(word + " "); err != nil {
			return "", err
		}
		task.SetTokensUsed(uint32(count + 1))
	}
	return strings.Join(words, " "), task.Emit("\n")
}

func study(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	outline, err := taskyard.Step(ctx, task, "outline", func(context.Context) (string, error) {
		return model(task, task.Params["topic"].(string))
	})
	if err != nil {
		return nil, err
	}
	parts := map[string]string{}
	for number := range int(task.Params["parts"].(float64)) {
		prompt := map[string]any{"prompt": fmt.Sprintf("part %d of: %s", number, outline)}
		wanted := taskyard.NewTask{Action: "part", Params: prompt, TokenLimit: partTokens}
		part, err := task.Child(ctx, fmt.Sprint("part-", number), wanted)
		if err != nil {
			return nil, err
		}
		parts[part.Name] = part.ID
	}
	if err := task.Join(ctx, slices.Collect(maps.Values(parts))); err != nil {
		return nil, err
	}
	report, err := task.Child(ctx, "report", taskyard.NewTask{Action: "report", Inputs: parts})
	if err != nil {
		return nil, err
	}
	var text string
	if err := report.Result(ctx, &text); err != nil {
		return nil, err // An ErrParked until it has ended.
	}
	_, err = taskyard.Step(ctx, task, "summary", func(context.Context) (string, error) {
		return model(task, fmt.Sprintf("%d parts in %d characters", len(parts), len(text)))
	})
	if err != nil {
		return nil, err
	}
	answer, err := task.Ask(ctx, "publish", "Publish the report?", taskyard.WithChoices("yes", "no"))
	if err != nil {
		return nil, err
	}
	if answer == "no" {
		return "not published", nil
	}
	return fmt.Sprintf("published %d characters", len(text)), nil
}

func part(_ context.Context, task *taskyard.RunningTask) (any, error) {
	return model(task, task.Params["prompt"].(string))
}

// report makes more of the parts than fits a message: it becomes an artifact, and whoever asks for the result gets it.
func report(_ context.Context, task *taskyard.RunningTask) (any, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(task.Inputs)) {
		words := task.Inputs[name].Result.(string)
		text.WriteString(words + strings.Repeat(".", 100_000-len(words)))
	}
	return text.String(), nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	address := cmp.Or(os.Getenv("TASKYARD_ADDRESS"), "127.0.0.1:50051")
	client, err := taskyard.Connect(address, taskyard.WithAgentID("my-agent"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	host := taskyard.NewHost(client, "host-7", taskyard.HostOptions{Slots: 4})
	host.Handle("study", study)
	host.Handle("part", part)
	host.Handle("report", report)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if err := host.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}()

	task, err := client.Submit(ctx, taskyard.NewTask{
		Action: "study", Params: map[string]any{"topic": "tides", "parts": 20}, TokenLimit: 500, UniqueKey: "tides",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("To answer it: taskyard answer %s publish yes\n", task.ID)
	for chunk, err := range client.Output(ctx, task.ID, taskyard.OutputOptions{Follow: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(chunk.Text)
	}
	ended, err := client.Wait(ctx, task.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ended.State, ended.Result, ended.Error)
	stop() // The host drains.
	<-left
}
