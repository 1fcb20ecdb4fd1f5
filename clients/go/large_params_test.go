// Params that are too large for a message, against the real server, which takes 100,000 bytes.

package taskyard

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

type largeInput struct {
	ID   int
	Text string
}

func TestParamsOfAnySizeReachTheirHandler(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(_ context.Context, task *RunningTask) (any, error) {
		var found largeInput
		err := task.DecodeParams(&found)
		return map[string]any{"id": Output{found.ID}.Value, "length": len(found.Text), "held": task.Hold}, err
	})
	// The server refuses the first one, the second one is not even sent.
	for _, size := range []int{150_000, 400_000} {
		given := largeInput{7, strings.Repeat("x", size)}
		for _, task := range []NewTask{{Params: given}, {Input: given}, {Input: Payload{[]byte(`{"Text": "` + given.Text + `"}`), ""}}} {
			task.Action = "talk"
			ended := must(client.Run(ctx, task))(t)
			if result, _ := ended.Result.(map[string]any); result["length"] != float64(size) || result["held"] != false {
				t.Error(ended.Result)
			}
			if len(ended.Artifacts) != 1 || ended.Artifacts[0].Name != "params.json" {
				t.Errorf("%+v", ended.Artifacts)
			}
		}
	}
}

func TestARepeatOfLargeParamsIsTheSameTask(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	task := NewTask{Action: "talk", IdempotencyKey: "once", Hold: true, Params: largeInput{7, strings.Repeat("x", 300_000)}}
	first := must(client.Submit(ctx, task))(t)
	if again := must(client.Submit(ctx, task))(t); again.ID != first.ID || again.State != StatePending {
		t.Errorf("%+v", again)
	}
	if found := must(client.Get(ctx, first.ID))(t); !found.Hold || len(found.Artifacts) != 1 {
		t.Errorf("%+v", found)
	}
	must(client.Resume(ctx, first.ID))(t)
	if again := must(client.Submit(ctx, task))(t); again.ID != first.ID || again.State != StateQueued {
		t.Errorf("%+v", again)
	}
	task.Params = largeInput{8, strings.Repeat("x", 300_000)}
	if _, err := client.Submit(ctx, task); CodeOf(err) != CodeAlreadyExists {
		t.Error(err)
	}
}

func TestARepeatGoesOnWhereAnOutageHasLeftATask(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	task := NewTask{Action: "talk", IdempotencyKey: "once", Params: largeInput{7, strings.Repeat("x", 300_000)}}
	request := must(task.message(ctx, "ann"))(t)
	held, _, err := heldRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	left := must(client.submitter.submit(ctx, held))(t)
	if again := must(client.Submit(ctx, task))(t); again.ID != left.GetTaskId() || again.State != StateQueued {
		t.Errorf("%+v", again)
	}
}

func TestATaskThatCannotGetItsParamsIsCancelled(t *testing.T) {
	ctx, f := testContext(t), &fakeServer{}
	f.submitTask = func(int) (*taskyardv1.SubmitTaskResponse, error) {
		return &taskyardv1.SubmitTaskResponse{TaskId: proto.String("tsk_1"), State: taskyardv1.Task_pending.Enum()}, nil
	}
	// It has no artifacts, as servers of earlier versions.
	client := serve(t, f)
	task := NewTask{Action: "talk", IdempotencyKey: "once", Params: largeInput{Text: strings.Repeat("x", 300_000)}}
	if _, err := client.Submit(ctx, task); CodeOf(err) != CodeTooLarge || !strings.HasPrefix(asError(err).Reason, "params: ") {
		t.Error(err)
	}
	if len(f.submits) != 1 || !f.submits[0].GetHold() || len(f.cancels) != 1 || f.cancels[0].GetTaskId() != "tsk_1" {
		t.Errorf("%d submits, %v", len(f.submits), f.cancels)
	}
}

func TestATaskThatIsGivenUpBeforeItIsAnsweredIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	f := &fakeServer{}
	f.submitTask = func(number int) (*taskyardv1.SubmitTaskResponse, error) {
		if number == 1 {
			cancel()
		}
		return &taskyardv1.SubmitTaskResponse{TaskId: proto.String("tsk_1"), State: taskyardv1.Task_pending.Enum()}, nil
	}
	client := serve(t, f)
	task := NewTask{Action: "talk", Params: largeInput{Text: strings.Repeat("x", 300_000)}}
	if _, err := client.Submit(ctx, task); CodeOf(err) != CodeCancelled {
		t.Error(err)
	}
	for _, each := range f.submits {
		if key := each.GetIdempotencyKey(); key != f.submits[0].GetIdempotencyKey() {
			t.Error(key)
		}
	}
	if len(f.cancels) != 1 || f.cancels[0].GetTaskId() != "tsk_1" {
		t.Errorf("%d submits, %v", len(f.submits), f.cancels)
	}
}

func TestABatchWithParamsThatAreTooLargeSaysWhatToDo(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	large := NewTask{Action: "talk", Params: largeInput{Text: strings.Repeat("x", 300_000)}}
	_, err := client.SubmitBatch(ctx, NewBatch{Tasks: []NewTask{{Action: "talk"}, large}})
	if CodeOf(err) != CodeTooLarge || !strings.Contains(err.Error(), "tasks[1].params") ||
		!strings.HasSuffix(err.Error(), "Submit makes an artifact of them") {
		t.Error(err)
	}
	for range client.List(ctx, ListOptions{}) {
		t.Error("a task of the batch was submitted")
	}
}
