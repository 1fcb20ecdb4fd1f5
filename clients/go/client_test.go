package taskyard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// By a server that says what it is told to

func TestSubmitIsRepeatedUnderOneKeyWhileTheServerIsUnavailable(t *testing.T) {
	f := &fake{failures: 2}
	client := serve(t, f)
	submitted := must(client.Submit(limited(t), NewTask{Action: "echo"}))(t)
	if submitted.TaskID != "tsk_1" || len(f.submits) != 3 {
		t.Errorf("%+v after %d calls", submitted, len(f.submits))
	}
	key := f.submits[0].GetIdempotencyKey()
	if key == "" || f.submits[1].GetIdempotencyKey() != key || f.submits[2].GetIdempotencyKey() != key {
		t.Errorf("keys of the calls: %v", f.submits)
	}
}

func TestBatchThatWasRepeatedIsTheOneThatHoldsItsTasks(t *testing.T) {
	client := serve(t, &fake{failures: 1})
	if batch := must(client.SubmitBatch(limited(t), NewBatch{Tasks: []NewTask{{Action: "echo"}}}))(t); batch.ID != "bat_first" {
		t.Error(batch.ID)
	}
}

func TestConflictAfterALostAnswerIsTheCallsOwnDoing(t *testing.T) {
	client := serve(t, &fake{failures: 1})
	if state, err := client.Cancel(limited(t), "tsk_1"); err != nil || state != StateCancelled {
		t.Error(state, err)
	}
	if _, err := client.Cancel(limited(t), "tsk_1"); CodeOf(err) != CodeConflict {
		t.Error(err)
	}
}

func TestResumeIsNotRepeated(t *testing.T) {
	f := &fake{failures: 1}
	client := serve(t, f)
	if _, err := client.Resume(limited(t), "tsk_1"); CodeOf(err) != CodeUnavailable || len(f.headers) != 1 {
		t.Error(err, len(f.headers))
	}
}

func TestResumeSendsANewTokenLimitOnlyIfItIsGiven(t *testing.T) {
	f := &fake{}
	client := serve(t, f)
	must(client.Resume(limited(t), "tsk_1"))(t)
	must(client.Resume(limited(t), "tsk_1", WithTokenLimit(500)))(t)
	if first, second := f.resumes[0], f.resumes[1]; first.TokenLimit != nil || second.GetTokenLimit() != 500 {
		t.Error(first, second)
	}
}

func TestCallsCarryTheNamespaceAndTheToken(t *testing.T) {
	f := &fake{}
	client := serve(t, f, WithNamespace("blue"), WithToken("secret"))
	must(client.Submit(limited(t), NewTask{Action: "echo"}))(t)
	if got := f.headers[0]; !slices.Equal(got["taskyard-namespace"], []string{"blue"}) ||
		!slices.Equal(got["authorization"], []string{"Bearer secret"}) {
		t.Error(got)
	}
}

func TestConnectionIsEncryptedAndTheServerKnownByItsCertificate(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	web.Close()
	f := &fake{options: []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0]))}}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	client := serve(t, f, WithTLS(&tls.Config{RootCAs: roots}), WithToken("secret"))
	must(client.Submit(limited(t), NewTask{Action: "echo"}))(t)

	stranger := serve(t, f, WithTLS(nil), WithPatience(time.Millisecond))
	if _, err := stranger.Submit(limited(t), NewTask{Action: "echo"}); CodeOf(err) != CodeUnavailable ||
		!strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

func TestConnectRefusesWhatCanNeverWork(t *testing.T) {
	for _, each := range []string{"", "localhost", "localhost:", "http://localhost:50051", "::1"} {
		if _, err := Connect(each); CodeOf(err) != CodeBadRequest {
			t.Errorf("%q: %v", each, err)
		}
	}
	for name, option := range map[string]Option{
		"token with its line end":     WithToken("secret\n"),
		"namespace beyond ASCII":      WithNamespace("blå"),
		"namespace with a line break": WithNamespace("a\nb"),
	} {
		if _, err := Connect("localhost:50051", option); CodeOf(err) != CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, each := range []string{"[::1]:50051", "dns:///localhost:50051", "unix:///tmp/taskyard.sock"} {
		if client := must(Connect(each))(t); client.Close() != nil {
			t.Errorf("%q", each)
		}
	}
}

func TestTextThatIsNotUTF8IsABadRequest(t *testing.T) {
	client := serve(t, &fake{})
	if _, err := client.Get(limited(t), "\xff"); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	client := serve(t, &fake{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Wait(ctx, "tsk_1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestCallGivesUpAfterItsPatience(t *testing.T) {
	client := connect(t, freeAddress(), WithPatience(50*time.Millisecond))
	for name, call := range map[string]func() error{
		"submit": func() error { _, err := client.Submit(limited(t), NewTask{Action: "echo"}); return err },
		"get":    func() error { _, err := client.Get(limited(t), "tsk_1"); return err },
	} {
		if err := call(); CodeOf(err) != CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCallOfAClosedClientIsCancelled(t *testing.T) {
	client := connect(t, address)
	_ = client.Close()
	if _, err := client.Get(limited(t), "tsk_1"); CodeOf(err) != CodeCancelled {
		t.Error(err)
	}
	for _, err := range client.Watch(limited(t), WatchOptions{}) {
		if CodeOf(err) != CodeCancelled {
			t.Error(err)
		}
	}
}

// By a real server

func TestTaskCarriesAllThatItsSubmitterGave(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	given := NewTask{
		Action: "echo", TabID: "tab", Ref: "e5", Priority: -2, Deadline: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond),
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
	task := must(client.Get(ctx, submitted.TaskID))(t)
	if task.Agent != "ann" || task.Action != "echo" || task.TabID != "tab" || task.Ref != "e5" || task.Priority != -2 ||
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
	if again.TaskID != submitted.TaskID {
		t.Error("the same key made a second task")
	}
	given.Action = "other"
	if _, err := client.Submit(ctx, given); CodeOf(err) != CodeAlreadyExists {
		t.Error(err)
	}
}

func TestParamsThatAreNoObjectAreABadRequest(t *testing.T) {
	client := connect(t, address)
	var deep any
	for range maxDepth {
		deep = []any{deep}
	}
	for _, params := range []any{1, []int{1}, "text", make(chan int), map[string]any{"deep": deep}} {
		if _, err := client.Submit(limited(t), NewTask{Action: "echo", Params: params}); CodeOf(err) != CodeBadRequest {
			t.Errorf("%T: %v", params, err)
		}
	}
}

func TestBatchTellsHowEachTaskFared(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
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
	if !batch.Ended || batch.States[StateCancelled] != 45 || len(batch.Tasks) != 45 || batch.Agent != "ann" {
		t.Errorf("%+v", batch)
	}
}

func TestListGoesThroughAllPages(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	batch := must(client.SubmitBatch(ctx, NewBatch{Tasks: slices.Repeat([]NewTask{{Action: "echo", Hold: true}}, 5)}))(t)
	must(client.Cancel(ctx, batch.TaskIDs()[4]))(t)
	var ids []string
	for task, err := range client.List(ctx, ListOptions{Agent: "ann", States: []State{StatePending, StateDone}, PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, task.ID)
	}
	if !slices.Equal(ids, batch.TaskIDs()[:4]) {
		t.Error(ids)
	}
	for _, err := range client.List(ctx, ListOptions{States: []State{"nonsense"}}) {
		if CodeOf(err) != CodeBadRequest {
			t.Error(err)
		}
	}
}

func TestErrorsOfTheServerHaveTheirCodes(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	if _, err := client.Get(ctx, "tsk_unknown"); CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
	_, err := client.Submit(ctx, NewTask{})
	if bad := errorFrom(err); bad.Code != CodeBadRequest || !strings.Contains(bad.Reason, "action") || bad.Retryable {
		t.Errorf("%+v", bad)
	}
	if _, err := client.Submit(ctx, NewTask{Action: "echo", Params: map[string]string{"x": strings.Repeat("x", 100_000)}}); CodeOf(err) != CodeTooLarge {
		t.Error(err)
	}
	task := must(client.Submit(ctx, NewTask{Action: "echo"}))(t)
	if state := must(client.Cancel(ctx, task.TaskID))(t); state != StateCancelled {
		t.Error(state)
	}
	for name, move := range map[string]func(context.Context, string) (State, error){
		"cancel": client.Cancel, "pause": client.Pause,
		"resume":  func(ctx context.Context, id string) (State, error) { return client.Resume(ctx, id) },
		"resolve": func(ctx context.Context, id string) (State, error) { return client.Resolve(ctx, id, nil) },
	} {
		if _, err := move(ctx, task.TaskID); CodeOf(err) != CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCallsOutliveAnOutageShorterThanPatience(t *testing.T) {
	proxy := startProxy(t, address)
	client, ctx := connect(t, proxy.address), limited(t)
	proxy.block()
	submitted := make(chan error, 1)
	go func() {
		_, err := client.Submit(ctx, NewTask{Action: "echo"})
		submitted <- err
	}()
	from(t, proxy.refused)
	proxy.unblock()
	if err := from(t, submitted); err != nil {
		t.Error(err)
	}
}

func TestWaitOutlivesACutConnection(t *testing.T) {
	proxy := startProxy(t, address)
	client, ctx := connect(t, proxy.address), limited(t)
	task := must(client.Submit(ctx, NewTask{Action: "echo"}))(t)
	ended := make(chan *Task, 1)
	go func() {
		task, _ := client.Wait(ctx, task.TaskID)
		ended <- task
	}()
	proxy.block()
	from(t, proxy.refused)
	proxy.unblock()
	must(client.Cancel(ctx, task.TaskID))(t)
	if task := from(t, ended); task == nil || task.State != StateCancelled || !task.State.Ended() {
		t.Errorf("%+v", task)
	}
}

func TestRawStubsSpeakOverTheSameConnection(t *testing.T) {
	client, ctx := connect(t, address), limited(t)
	targets := taskyardv1.NewTargetServiceClient(client.Conn())
	must(client.Submit(ctx, NewTask{Action: "echo", Target: "page"}))(t)
	if found := must(targets.ListTargets(ctx, &taskyardv1.ListTargetsRequest{}))(t); len(found.GetTargets()) != 1 {
		t.Error(found)
	}
	leases := taskyardv1.NewLeaseServiceClient(client.Conn())
	if _, err := leases.ClaimTask(ctx, &taskyardv1.ClaimTaskRequest{HostId: "nobody"}); CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
}
