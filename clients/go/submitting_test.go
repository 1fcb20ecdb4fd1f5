package taskyard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// busy has a client's submissions share streams, as if another one were under way all the time.
func busy(t *testing.T, client *Client) {
	t.Helper()
	count := func(n int) {
		client.submitter.mu.Lock()
		defer client.submitter.mu.Unlock()
		client.submitter.inProgress += n
	}
	count(1)
	t.Cleanup(func() { count(-1) })
}

// answerTo accepts tasks, each under its action as its id.
func answerTo(request *taskyardv1.SubmitTasksRequest) *taskyardv1.SubmitTasksResponse {
	answer := &taskyardv1.SubmitTasksResponse{}
	for _, task := range request.GetTasks() {
		answer.Outcomes = append(answer.Outcomes, &taskyardv1.SubmitOutcome{
			Outcome: &taskyardv1.SubmitOutcome_Accepted{Accepted: &taskyardv1.SubmitTaskResponse{TaskId: &task.Action}},
		})
	}
	return answer
}

func refusing(refusal *taskyardv1.Error) *taskyardv1.SubmitTasksResponse {
	return &taskyardv1.SubmitTasksResponse{Outcomes: []*taskyardv1.SubmitOutcome{{
		Outcome: &taskyardv1.SubmitOutcome_Error{Error: refusal},
	}}}
}

// answered has each message heard, then answered.
func answered(stream submitTasksStream, hear func(*taskyardv1.SubmitTasksRequest)) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		hear(request)
		if err := stream.Send(answerTo(request)); err != nil {
			return err
		}
	}
}

type submitted struct {
	task *Submitted
	err  error
}

// submitting submits a task meanwhile.
func submitting(ctx context.Context, client *Client, task NewTask) <-chan submitted {
	ended := make(chan submitted, 1)
	go func() {
		task, err := client.Submit(ctx, task)
		ended <- submitted{task, err}
	}()
	return ended
}

// waitFor waits until a client's stream has sent so many messages that have no answer, and so many tasks wait behind.
func waitFor(t *testing.T, client *Client, sent, waiting int) {
	t.Helper()
	until(t, func() bool {
		client.submitter.mu.Lock()
		defer client.submitter.mu.Unlock()
		shared := client.submitter.stream
		return shared != nil && len(shared.unanswered) == sent && len(shared.queue) == waiting
	})
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come so far")
		}
	}
}

func TestSubmitThatIsAloneTakesACallOfItsOwn(t *testing.T) {
	f := &fake{}
	client := serve(t, f)
	for range 3 {
		must(client.Submit(limited(t), NewTask{Action: "click"}))(t)
	}
	if len(f.submits) != 3 || f.streams != 0 {
		t.Errorf("%d calls and %d streams", len(f.submits), f.streams)
	}
}

func TestSubmitsAtTheSameTimeShareMessagesAndEachGetsItsOwnAnswer(t *testing.T) {
	var sizes []int
	gate := make(chan bool)
	f := &fake{shared: func(_ int, stream submitTasksStream) error {
		<-gate
		return answered(stream, func(request *taskyardv1.SubmitTasksRequest) {
			sizes = append(sizes, len(request.GetTasks()))
		})
	}}
	client := serve(t, f)
	busy(t, client)
	count := maxUnansweredMessages + 3*maxTasksPerMessage
	ctx, ended := limited(t), map[string]<-chan submitted{}
	for i := range count {
		action := fmt.Sprintf("a-%d", i)
		ended[action] = submitting(ctx, client, NewTask{Action: action})
		// One by one they fill the bound with messages of one task, so that the others have to wait.
		waitFor(t, client, min(i+1, maxUnansweredMessages), max(0, i+1-maxUnansweredMessages))
	}
	close(gate)
	for action, each := range ended {
		if got := from(t, each); got.err != nil || got.task.TaskID != action {
			t.Errorf("%s got %v, %v", action, got.task, got.err)
		}
	}
	_ = client.Close()
	want := append(slices.Repeat([]int{1}, maxUnansweredMessages), slices.Repeat([]int{maxTasksPerMessage}, 3)...)
	if !slices.Equal(sizes, want) || f.streams != 1 || len(f.submits) != 0 {
		t.Errorf("messages of %v tasks, %d streams, %d calls", sizes, f.streams, len(f.submits))
	}
}

func TestMessageHoldsNoMoreThanItsMostTasksAndBytesAndNoneThatWasGivenUp(t *testing.T) {
	const kilo = 1000
	for _, each := range []struct{ waiting, messages []int }{
		{[]int{400 * kilo, 400 * kilo, 400 * kilo}, []int{2, 1}},
		{[]int{maxBytesPerMessage, 1, 999_999, 1}, []int{1, 2, 1}},
		{slices.Repeat([]int{10}, maxTasksPerMessage+1), []int{maxTasksPerMessage, 1}},
		{[]int{0, 600 * kilo, 0, 400 * kilo, 0}, []int{2}}, // 0 stands for one that was given up.
		{[]int{0}, nil},
	} {
		stream := newSubmitStream(&submitter{})
		for _, size := range each.waiting {
			stream.add(&submission{size: size, abandoned: size == 0})
		}
		var messages []int
		for message := stream.nextMessage(); message != nil; message = stream.nextMessage() {
			messages = append(messages, len(message))
		}
		if !slices.Equal(messages, each.messages) {
			t.Errorf("%v made messages of %v", each.waiting, messages)
		}
	}
}

func TestTaskTooLargeForTheMessagesOfAllTakesACallOfItsOwn(t *testing.T) {
	f := &fake{}
	client := serve(t, f)
	busy(t, client)
	must(client.Submit(limited(t), NewTask{Action: strings.Repeat("x", maxBytesPerMessage)}))(t)
	if len(f.submits) != 1 || f.streams != 0 {
		t.Errorf("%d calls and %d streams", len(f.submits), f.streams)
	}
}

func TestSubmitWithMetadataOfItsOwnTakesACallOfItsOwn(t *testing.T) {
	f := &fake{}
	client := serve(t, f)
	busy(t, client)
	must(client.Submit(metadata.AppendToOutgoingContext(limited(t), "x-mark", "mine"), NewTask{Action: "click"}))(t)
	if len(f.headers) != 1 || f.headers[0].Get("x-mark")[0] != "mine" {
		t.Errorf("calls with %v", f.headers)
	}
}

func TestSubmitIsRefusedOnAStreamJustAsByACallOfItsOwn(t *testing.T) {
	ctx := limited(t)
	large := map[string]any{"text": strings.Repeat("x", 200_000)}
	for name, refused := range map[string]struct {
		code Code
		task func(*Client) NewTask
	}{
		"no action":       {CodeBadRequest, func(*Client) NewTask { return NewTask{} }},
		"no text":         {CodeBadRequest, func(*Client) NewTask { return NewTask{Action: "\xff"} }},
		"large params":    {CodeTooLarge, func(*Client) NewTask { return NewTask{Action: "click", Params: large} }},
		"another's key":   {CodeAlreadyExists, func(*Client) NewTask { return NewTask{Action: "b", IdempotencyKey: "k"} }},
		"a full queue":    {CodeQueueFull, func(*Client) NewTask { return NewTask{Action: "click", Agent: "full"} }},
		"a past deadline": {CodeBadRequest, func(*Client) NewTask { return NewTask{Action: "click", Deadline: time.Unix(1, 0)} }},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, address)
			must(client.Submit(ctx, NewTask{Action: "a", IdempotencyKey: "k"}))(t)
			if refused.code == CodeQueueFull {
				for range 2 {
					tasks := slices.Repeat([]NewTask{{Action: "click"}}, 50)
					must(client.SubmitBatch(ctx, NewBatch{Agent: "full", Tasks: tasks}))(t)
				}
			}
			task := refused.task(client)
			_, alone := client.Submit(ctx, task)
			busy(t, client)
			_, shared := client.Submit(ctx, task)
			// That the delay before another try is the same is tested by a fake server.
			onStream, byCall := *errorFrom(shared), *errorFrom(alone)
			onStream.RetryAfter, byCall.RetryAfter = 0, 0
			if byCall.Code != refused.code || !reflect.DeepEqual(byCall, onStream) {
				t.Errorf("%#v alone, on a stream %#v", alone, shared)
			}
		})
	}
}

func TestRefusedTaskHasTheRetryDelayOfTheServerOnAStreamAndInABatch(t *testing.T) {
	for name, each := range map[string]struct {
		ms   *uint32
		want time.Duration
	}{
		"named": {proto.Uint32(1500), 1500 * time.Millisecond},
		"none":  {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := &taskyardv1.Error{
				Code: proto.String("queue_full"), Error: proto.String("full"), Retryable: proto.Bool(true), RetryAfterMs: each.ms,
			}
			f := &fake{refusal: refusal, shared: func(_ int, stream submitTasksStream) error {
				if _, err := stream.Recv(); err != nil {
					return err
				}
				return stream.Send(refusing(refusal))
			}}
			client := serve(t, f)
			batch := must(client.SubmitBatch(limited(t), NewBatch{Tasks: []NewTask{{Action: "click"}}}))(t)
			busy(t, client)
			_, onStream := client.Submit(limited(t), NewTask{Action: "click"})
			for where, err := range map[string]error{"in a batch": batch.Outcomes[0].Err, "on a stream": onStream} {
				if found := errorFrom(err); found.Code != CodeQueueFull || found.RetryAfter != each.want {
					t.Errorf("%s: %+v", where, found)
				}
			}
		})
	}
}

func TestSubmitThatIsGivenUpTakesBackItsTaskAndHurtsNoOther(t *testing.T) {
	gate := make(chan bool)
	var heard []string
	f := &fake{shared: func(_ int, stream submitTasksStream) error {
		<-gate
		return answered(stream, func(request *taskyardv1.SubmitTasksRequest) {
			for _, task := range request.GetTasks() {
				heard = append(heard, task.GetAction())
			}
		})
	}}
	client := serve(t, f)
	busy(t, client)
	ctx := limited(t)
	var ended []<-chan submitted
	for i := range maxUnansweredMessages {
		ended = append(ended, submitting(ctx, client, NewTask{Action: "sent"}))
		waitFor(t, client, i+1, 0)
	}
	brief, giveUp := context.WithCancel(ctx)
	givenUp := submitting(brief, client, NewTask{Action: "given up"})
	waitFor(t, client, maxUnansweredMessages, 1)
	ended = append(ended, submitting(ctx, client, NewTask{Action: "sent"}))
	waitFor(t, client, maxUnansweredMessages, 2)
	giveUp()
	if got := from(t, givenUp); CodeOf(got.err) != CodeCancelled || !errors.Is(got.err, context.Canceled) {
		t.Errorf("%v", got.err)
	}
	close(gate)
	for _, each := range ended {
		if got := from(t, each); got.err != nil {
			t.Error(got.err)
		}
	}
	_ = client.Close()
	if len(heard) != maxUnansweredMessages+1 || strings.Contains(strings.Join(heard, " "), "given up") {
		t.Errorf("the server heard %v", heard)
	}
}

func TestSubmitOfAnEndedContextSendsNothing(t *testing.T) {
	f := &fake{}
	client := serve(t, f)
	busy(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Submit(ctx, NewTask{Action: "click"}); CodeOf(err) != CodeCancelled || f.streams != 0 {
		t.Errorf("%v, %d streams", err, f.streams)
	}
}

func TestStreamThatNobodyWaitsForAnyMoreIsEnded(t *testing.T) {
	opened, ended := make(chan bool, 1), make(chan bool, 1)
	f := &fake{shared: func(_ int, stream submitTasksStream) error {
		opened <- true
		<-stream.Context().Done()
		ended <- true
		return nil
	}}
	client := serve(t, f)
	busy(t, client)
	ctx, cancel := context.WithCancel(limited(t))
	given := []<-chan submitted{
		submitting(ctx, client, NewTask{Action: "a"}), submitting(ctx, client, NewTask{Action: "b"}),
	}
	from(t, opened)
	cancel()
	for _, each := range given {
		if got := from(t, each); CodeOf(got.err) != CodeCancelled {
			t.Error(got.err)
		}
	}
	from(t, ended)
}

func TestSubmitWithoutAnAnswerInTimeIsADeadlineExceededAndTheNextTakesAnotherStream(t *testing.T) {
	f := &fake{shared: func(number int, stream submitTasksStream) error {
		if number == 1 {
			<-stream.Context().Done()
			return nil
		}
		return answered(stream, func(*taskyardv1.SubmitTasksRequest) {})
	}}
	client := serve(t, f, WithTimeout(100*time.Millisecond))
	busy(t, client)
	if _, err := client.Submit(limited(t), NewTask{Action: "a"}); CodeOf(err) != CodeDeadlineExceeded {
		t.Errorf("%v", err)
	}
	must(client.Submit(limited(t), NewTask{Action: "b"}))(t)
}

func TestBrokenStreamHasOnlyWhatHasNoAnswerSubmittedAgain(t *testing.T) {
	gate, keys := make(chan bool), map[string][]string{}
	hear := func(request *taskyardv1.SubmitTasksRequest) {
		for _, task := range request.GetTasks() {
			keys[task.GetAction()] = append(keys[task.GetAction()], task.GetIdempotencyKey())
		}
	}
	f := &fake{shared: func(number int, stream submitTasksStream) error {
		if number > 1 {
			return answered(stream, hear)
		}
		<-gate
		first, _ := stream.Recv()
		second, _ := stream.Recv()
		hear(first)
		hear(second)
		_ = stream.Send(answerTo(first))
		return status.Error(codes.Unavailable, "down")
	}}
	client := serve(t, f)
	busy(t, client)
	ctx := limited(t)
	first := submitting(ctx, client, NewTask{Action: "answered"})
	waitFor(t, client, 1, 0)
	second := submitting(ctx, client, NewTask{Action: "lost"})
	waitFor(t, client, 2, 0)
	close(gate)
	for _, each := range []<-chan submitted{first, second} {
		if got := from(t, each); got.err != nil {
			t.Error(got.err)
		}
	}
	if len(keys["answered"]) != 1 || len(keys["lost"]) != 2 || keys["lost"][0] != keys["lost"][1] {
		t.Errorf("the server heard %v", keys)
	}
	if f.streams != 2 || len(f.submits) != 0 {
		t.Errorf("%d streams, %d calls", f.streams, len(f.submits))
	}
}

func TestStreamThatFailsOtherwiseHasEachOfItsTasksTakeACallOfItsOwn(t *testing.T) {
	for name, fail := range map[string]func(submitTasksStream) error{
		"a fault": func(submitTasksStream) error { return status.Error(codes.Internal, "a fault") },
		"outcomes of other tasks": func(stream submitTasksStream) error {
			_ = stream.Send(&taskyardv1.SubmitTasksResponse{})
			<-stream.Context().Done()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan bool)
			f := &fake{shared: func(_ int, stream submitTasksStream) error {
				<-gate
				return fail(stream)
			}}
			client := serve(t, f)
			busy(t, client)
			var ended []<-chan submitted
			for i := range 3 {
				ended = append(ended, submitting(limited(t), client, NewTask{Action: "click"}))
				waitFor(t, client, i+1, 0)
			}
			close(gate)
			for _, each := range ended {
				if got := from(t, each); got.err != nil {
					t.Error(got.err)
				}
			}
			if f.streams != 1 || len(f.submits) != 3 {
				t.Errorf("%d streams, %d calls", f.streams, len(f.submits))
			}
		})
	}
}

func TestTaskThatADrainingServerDoesNotTakeIsSubmittedAgainElsewhere(t *testing.T) {
	f := &fake{shared: func(number int, stream submitTasksStream) error {
		if number > 1 {
			return answered(stream, func(*taskyardv1.SubmitTasksRequest) {})
		}
		_, _ = stream.Recv()
		return stream.Send(refusing(&taskyardv1.Error{Code: proto.String("unavailable")}))
	}}
	client := serve(t, f)
	busy(t, client)
	if task := must(client.Submit(limited(t), NewTask{Action: "a"}))(t); task.TaskID != "a" {
		t.Errorf("%v", task)
	}
}

func TestCloseWaitsForTheAnswersOfTasksThatAreBeingSubmittedAndTakesNoMore(t *testing.T) {
	gate := make(chan bool)
	f := &fake{shared: func(_ int, stream submitTasksStream) error {
		<-gate
		return answered(stream, func(*taskyardv1.SubmitTasksRequest) {})
	}}
	client := serve(t, f)
	busy(t, client)
	ctx := limited(t)
	ended := submitting(ctx, client, NewTask{Action: "a"})
	waitFor(t, client, 1, 0)
	closed := make(chan error, 1)
	go func() { closed <- client.Close() }()
	until(t, func() bool {
		client.submitter.mu.Lock()
		defer client.submitter.mu.Unlock()
		return client.submitter.closed
	})
	if _, err := client.Submit(ctx, NewTask{Action: "late"}); CodeOf(err) != CodeCancelled {
		t.Error(err)
	}
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(gate)
	if got := from(t, ended); got.err != nil || got.task.TaskID != "a" {
		t.Errorf("%v, %v", got.task, got.err)
	}
	if err := from(t, closed); err != nil {
		t.Error(err)
	}
}

func TestSubmitsAtTheSameTimeToARealServerAreMadeOnceWhateverIsCut(t *testing.T) {
	proxy := startProxy(t, address)
	client := connect(t, proxy.address)
	ctx := limited(t)
	const count = 500
	var ended []<-chan submitted
	for i := range count {
		ended = append(ended, submitting(ctx, client, NewTask{Action: "click", Agent: fmt.Sprintf("a-%d", i%10)}))
		if i%100 == 99 {
			proxy.cut()
		}
	}
	ids := map[string]bool{}
	for _, each := range ended {
		if got := from(t, each); got.err != nil {
			t.Error(got.err)
		} else {
			ids[got.task.TaskID] = true
		}
	}
	made := 0
	for _, err := range client.List(ctx, ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		made++
	}
	if len(ids) != count || made != count {
		t.Errorf("%d tasks answered, %d made", len(ids), made)
	}
}

// BenchmarkSubmitsAtOnce is a thousand goroutines, each with one task: go test -run '^$' -bench SubmitsAtOnce.
func BenchmarkSubmitsAtOnce(b *testing.B) {
	for range b.N {
		b.StopTimer()
		// The server's limits hold for each namespace, and for each agent.
		client, err := Connect(address, WithNamespace(rand.Text()), WithLogger(quiet))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := client.Stats(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		var ended sync.WaitGroup
		for i := range 1000 {
			ended.Go(func() {
				if _, err := client.Submit(b.Context(), NewTask{Action: "click", Agent: fmt.Sprint(i % 10)}); err != nil {
					b.Error(err)
				}
			})
		}
		ended.Wait()
		b.StopTimer()
		_ = client.Close()
	}
}
