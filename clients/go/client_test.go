// Calls about single tasks.

package taskyard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// With a fake server

func TestConflictAfterALostAnswerCountsAsSuccess(t *testing.T) {
	client := serve(t, &fakeServer{failures: 1})
	if state, err := client.Cancel(testContext(t), "tsk_1"); err != nil || state != StateCancelled {
		t.Error(state, err)
	}
	if _, err := client.Cancel(testContext(t), "tsk_1"); CodeOf(err) != CodeConflict {
		t.Error(err)
	}
}

func TestResumeIsNotRepeated(t *testing.T) {
	f := &fakeServer{failures: 1}
	client := serve(t, f)
	if _, err := client.Resume(testContext(t), "tsk_1"); CodeOf(err) != CodeUnavailable || len(f.headers) != 1 {
		t.Error(err, len(f.headers))
	}
}

func TestResumeSendsANewTokenLimitOnlyIfItIsGiven(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f)
	must(client.Resume(testContext(t), "tsk_1"))(t)
	must(client.Resume(testContext(t), "tsk_1", WithTokenLimit(500)))(t)
	if first, second := f.resumes[0], f.resumes[1]; first.TokenLimit != nil || second.GetTokenLimit() != 500 {
		t.Error(first, second)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	client := serve(t, &fakeServer{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Wait(ctx, "tsk_1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTextThatIsNotUTF8IsABadRequest(t *testing.T) {
	client := serve(t, &fakeServer{})
	if _, err := client.Get(testContext(t), "\xff"); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
}

// With the real server

func TestTaskHasAllFieldsOfItsSubmission(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	given := NewTask{
		Action: "echo", TabID: "tab", Ref: "e5", Priority: -2,
		Deadline: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond),
		Params: struct {
			Text string `json:"text"`
			List []int  `json:"list"`
		}{"grüß", []int{1, 2}},
		CallbackURL: "http://127.0.0.1:9/", Project: "p", Requires: []string{"gpu"}, Labels: map[string]string{"team": "blue"},
		Target: "page", Hold: true, TokenLimit: 100, IdempotencyKey: "first",
		RetryPolicy: &RetryPolicy{MaxAttempts: 3, FirstDelay: time.Second, NonRetryableCodes: []string{"fatal"}},
		Traceparent: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
	}
	submitted := must(client.Submit(ctx, given))(t)
	if submitted.State != StatePending || submitted.Position != 1 || submitted.CreatedAt.IsZero() {
		t.Errorf("%+v", submitted)
	}
	task := must(client.Get(ctx, submitted.ID))(t)
	if task.AgentID != "ann" || task.Action != "echo" || task.TabID != "tab" || task.Ref != "e5" || task.Priority != -2 ||
		!task.Deadline.Equal(given.Deadline) || task.CallbackURL != given.CallbackURL || task.Project != "p" ||
		!slices.Equal(task.Requires, given.Requires) || task.Labels["team"] != "blue" || task.Target != "page" || !task.Hold ||
		task.TokenLimit != 100 || task.IdempotencyKey != "first" || task.RetryPolicy.MaxAttempts != 3 ||
		task.RetryPolicy.FirstDelay != time.Second || task.Traceparent != given.Traceparent || task.Run != 1 {
		t.Errorf("%+v", task)
	}
	var params struct {
		Text string
		List []int
	}
	if err := task.DecodeParams(&params); err != nil || params.Text != "grüß" || !slices.Equal(params.List, []int{1, 2}) {
		t.Error(params, err)
	}
	again := must(client.Submit(ctx, given))(t)
	if again.ID != submitted.ID {
		t.Error("the same key created a second task")
	}
	given.Action = "other"
	if _, err := client.Submit(ctx, given); CodeOf(err) != CodeAlreadyExists {
		t.Error(err)
	}
}

func TestTaskOfATargetIsResumedByItsTarget(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	held := NewTask{Action: "echo", Target: "page", Hold: true, TokenLimit: 10}
	for name, each := range map[string]struct {
		options []ResumeOption
		limit   uint32
	}{
		"with its limit":   {nil, 10},
		"with a new limit": {[]ResumeOption{WithTokenLimit(500)}, 500},
	} {
		id := must(client.Submit(ctx, held))(t).ID
		if _, err := client.ResumeTargetTask(ctx, "other", id, each.options...); CodeOf(err) != CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
		if state := must(client.ResumeTargetTask(ctx, "page", id, each.options...))(t); state != StateQueued {
			t.Errorf("%s: %s", name, state)
		}
		if task := must(client.Get(ctx, id))(t); task.TokenLimit != each.limit {
			t.Errorf("%s: %+v", name, task)
		}
	}
}

func TestParamsThatAreNotAnObjectAreABadRequest(t *testing.T) {
	client := connect(t, address)
	var deep any
	for range maxDepth {
		deep = []any{deep}
	}
	for _, params := range []any{1, []int{1}, "text", make(chan int), map[string]any{"deep": deep}} {
		if _, err := client.Submit(testContext(t), NewTask{Action: "echo", Params: params}); CodeOf(err) != CodeBadRequest {
			t.Errorf("%T: %v", params, err)
		}
	}
}

func TestListReadsAllPages(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	batch := must(client.SubmitBatch(ctx, NewBatch{Tasks: slices.Repeat([]NewTask{{Action: "echo", Hold: true}}, 5)}))(t)
	must(client.Cancel(ctx, batch.TaskIDs()[4]))(t)
	var ids []string
	for task, err := range client.List(ctx, ListOptions{AgentID: "ann", States: []State{StatePending, StateDone}, PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, task.ID)
	}
	if !slices.Equal(ids, batch.TaskIDs()[:4]) {
		t.Error(ids)
	}
	var newest []string
	middle := must(client.Get(ctx, batch.TaskIDs()[2]))(t).CreatedAt
	options := ListOptions{BatchID: batch.ID, NewestFirst: true, CreatedFrom: middle, CreatedUntil: middle.Add(time.Hour)}
	for task, err := range client.List(ctx, options) {
		if err != nil {
			t.Fatal(err)
		}
		newest = append([]string{task.ID}, newest...)
	}
	if !slices.Equal(newest, batch.TaskIDs()) {
		t.Error(newest)
	}
	for _, err := range client.List(ctx, ListOptions{History: true}) {
		if CodeOf(err) != CodeBadRequest {
			t.Error("a server that keeps nothing has no history:", err)
		}
	}
	for _, err := range client.List(ctx, ListOptions{States: []State{"unknown"}}) {
		if CodeOf(err) != CodeBadRequest {
			t.Error(err)
		}
	}
}

func TestErrorsOfTheServerHaveTheirCodes(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	if _, err := client.Get(ctx, "tsk_unknown"); CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
	_, err := client.Submit(ctx, NewTask{})
	if bad := errorFrom(err); bad.Code != CodeBadRequest || !strings.Contains(bad.Reason, "action") || bad.Retryable {
		t.Errorf("%+v", bad)
	}
	large := map[string]string{"x": strings.Repeat("x", 100_000)}
	batch := NewBatch{Tasks: []NewTask{{Action: "echo", Params: large}}}
	if _, err := client.SubmitBatch(ctx, batch); CodeOf(err) != CodeTooLarge {
		t.Error(err)
	}
	task := must(client.Submit(ctx, NewTask{Action: "echo"}))(t)
	if state := must(client.Cancel(ctx, task.ID, WithReason("wrong site")))(t); state != StateCancelled {
		t.Error(state)
	}
	if shown := must(client.Get(ctx, task.ID))(t); shown.Reason != "wrong site" {
		t.Error(shown.Reason)
	}
	for name, command := range map[string]func(context.Context, string) (State, error){
		"cancel":  func(ctx context.Context, id string) (State, error) { return client.Cancel(ctx, id) },
		"pause":   func(ctx context.Context, id string) (State, error) { return client.Pause(ctx, id) },
		"resume":  func(ctx context.Context, id string) (State, error) { return client.Resume(ctx, id) },
		"resolve": func(ctx context.Context, id string) (State, error) { return client.Resolve(ctx, id, nil) },
	} {
		if _, err := command(ctx, task.ID); CodeOf(err) != CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
}
