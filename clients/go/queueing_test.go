// Keys, predecessors, unique keys, waits for a stop.

package taskyard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestWordThatAFieldDoesNotTakeIsABadRequest(t *testing.T) {
	client := serve(t, &fakeServer{})
	for _, task := range []NewTask{
		{Action: "echo", AfterPolicy: "always"}, {Action: "echo", UniqueWhile: "ever"},
		{Action: "echo", OnConflict: "replace"}, {Action: "echo", OnParentEnd: "stop"}, {Action: "echo", AfterIndexes: []uint32{0}},
		{Action: "echo", InputIndexes: map[string]uint32{"page": 0}},
	} {
		if _, err := client.Submit(testContext(t), task); CodeOf(err) != CodeBadRequest {
			t.Error(task, err)
		}
	}
}

func TestTaskOfABatchHasWhatASingleOneHasAndItsPlaces(t *testing.T) {
	task := NewTask{
		Action: "echo", ConcurrencyKeys: []string{"a"}, After: []string{"tsk_1"}, AfterIndexes: []uint32{0, 2},
		AfterPolicy: AfterEnded, UniqueKey: "k", UniqueWhile: UniqueWhileQueued, OnConflict: ConflictReplaceQueued,
		OnTargetFailure: TargetContinues, ParentID: "tsk_1", OnParentEnd: ParentEndCancels, Inputs: map[string]string{"page": "tsk_1"}, InputIndexes: map[string]uint32{"other": 1},
	}
	message := must(task.batchMessage(t.Context()))(t)
	if !slices.Equal(message.GetConcurrencyKeys(), task.ConcurrencyKeys) || !slices.Equal(message.GetAfter(), task.After) ||
		!slices.Equal(message.GetAfterIndexes(), task.AfterIndexes) ||
		!maps.Equal(message.GetInputs(), task.Inputs) || !maps.Equal(message.GetInputIndexes(), task.InputIndexes) || message.GetUniqueKey() != "k" ||
		message.GetAfterPolicy() != taskyardv1.After_ended || message.GetUniqueWhile() != taskyardv1.Unique_queued ||
		message.GetOnConflict() != taskyardv1.Unique_replaceQueued || message.GetOnTargetFailure() != "continue" || message.GetOnParentEnd() != taskyardv1.Parent_cancel {
		t.Errorf("%+v", message)
	}
}

func TestCancelWaitsForTheHostToStop(t *testing.T) {
	f := &fakeServer{cancelTask: func() (*taskyardv1.CancelTaskResponse, error) {
		return &taskyardv1.CancelTaskResponse{Stopping: taskyardv1.Stopping_released.Enum()}, nil
	}}
	client := serve(t, f)
	stopping := must(client.CancelAndWait(testContext(t), "tsk_1", 1500*time.Millisecond, WithReason("wrong site")))(t)
	if stopping != StoppingReleased || f.cancels[0].GetWaitMs() != 1500 || f.cancels[0].GetReason() != "wrong site" {
		t.Error(stopping, f.cancels)
	}
	f.cancelTask, f.failures = nil, 1 // The answer is lost, and the repeat is a conflict.
	if stopping = must(client.CancelAndWait(testContext(t), "tsk_1", time.Second))(t); stopping != StoppingWaiting {
		t.Error(stopping)
	}
}

func TestRunLeavesATaskAloneThatHadTheUniqueKeyBefore(t *testing.T) {
	f := &fakeServer{submitTask: func(int) (*taskyardv1.SubmitTaskResponse, error) {
		return &taskyardv1.SubmitTaskResponse{TaskId: proto.String("tsk_1"), Existing: proto.Bool(true)}, nil
	}}
	client := serve(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := client.Run(ctx, NewTask{Action: "fetch", UniqueKey: "k"})
	if !errors.Is(err, context.DeadlineExceeded) || len(f.cancels) != 0 {
		t.Error(err, f.cancels)
	}
}

// With the real server

func TestTaskShowsItsKeysAndPolicies(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	first := must(client.Submit(ctx, NewTask{Action: "echo"}))(t)
	second := must(client.Submit(ctx, NewTask{
		Action: "echo", ConcurrencyKeys: []string{"all", "site:a"}, After: []string{first.ID}, AfterPolicy: AfterEnded,
		UniqueKey: "k", UniqueWhile: UniqueWhileLive, Target: "page", OnTargetFailure: TargetContinues, ParentID: first.ID,
		OnParentEnd: ParentEndCancels,
	}))(t)
	task := must(client.Get(ctx, second.ID))(t)
	if !slices.Equal(task.ConcurrencyKeys, []string{"all", "site:a"}) || !slices.Equal(task.After, []string{first.ID}) ||
		task.AfterPolicy != AfterEnded || task.UniqueKey != "k" || task.UniqueWhile != UniqueWhileLive ||
		task.OnTargetFailure != TargetContinues || task.OnParentEnd != ParentEndCancels {
		t.Errorf("%+v", task)
	}
	if task := must(client.Get(ctx, first.ID))(t); task.AfterPolicy != "" || task.UniqueWhile != "" {
		t.Errorf("%+v", task)
	}
}

func TestListingsSelectByLabelsActionAndKey(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	shop := must(client.Submit(ctx, NewTask{
		Action: "fetch", Labels: map[string]string{"site": "shop"}, ConcurrencyKeys: []string{"site:shop"},
	}))(t)
	must(client.Submit(ctx, NewTask{Action: "echo", Labels: map[string]string{"site": "blog"}}))(t)
	for _, options := range []ListOptions{
		{Labels: "site in (shop,docs)"}, {Action: "fetch"}, {ConcurrencyKey: "site:shop"}, {Labels: "site!=blog"},
	} {
		found := []string{}
		for task, err := range client.List(ctx, options) {
			found = append(found, must(task, err)(t).ID)
		}
		if !slices.Equal(found, []string{shop.ID}) {
			t.Error(options, found)
		}
	}
}
