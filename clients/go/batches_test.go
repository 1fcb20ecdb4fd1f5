// Batches: submission, state, cancellation.

package taskyard

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
)

func TestRepeatedBatchHasTheIDOfTheBatchWithItsTasks(t *testing.T) {
	client := serve(t, &fakeServer{failures: 1})
	batch := must(client.SubmitBatch(testContext(t), NewBatch{Tasks: []NewTask{{Action: "echo"}}}))(t)
	if batch.ID != "bat_first" {
		t.Error(batch.ID)
	}
}

func TestBatchHasAnOutcomeForEachTask(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	tasks := slices.Repeat([]NewTask{{Action: "echo", Hold: true}}, 45)
	batches := []*SubmittedBatch{}
	for range 3 {
		batches = append(batches, must(client.SubmitBatch(ctx, NewBatch{Tasks: tasks}))(t))
	}
	last := batches[2].Outcomes
	if len(batches[1].TaskIDs()) != 45 || len(batches[2].TaskIDs()) != 10 || CodeOf(last[44].Err) != CodeQueueFull ||
		last[44].State != StateRejected || last[44].TaskID == "" {
		t.Errorf("%+v", last[44])
	}
	_, err := client.Submit(ctx, NewTask{Action: "echo"})
	if full := errorFrom(err); full.Code != CodeQueueFull || !full.Retryable || full.Status != codes.ResourceExhausted ||
		full.Details["queued"] != "100" {
		t.Errorf("%+v", full)
	}
	if _, err := client.SubmitBatch(ctx, NewBatch{Tasks: slices.Repeat(tasks, 2)}); CodeOf(err) != CodeBatchTooLarge {
		t.Error(err)
	}
	if stats := must(client.Stats(ctx))(t); stats.GetQueue().GetTotalQueued() != 100 {
		t.Error(stats.GetQueue())
	}
	if count := must(client.CancelBatch(ctx, batches[0].ID))(t); count != 45 {
		t.Error(count)
	}
	batch := must(client.GetBatch(ctx, batches[0].ID))(t)
	if !batch.Ended || batch.States[StateCancelled] != 45 || len(batch.Tasks) != 45 || batch.AgentID != "ann" {
		t.Errorf("%+v", batch)
	}
}
