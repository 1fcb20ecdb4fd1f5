// Submissions that share a stream: what its messages hold, and what happens when it breaks.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestConcurrentSubmitsShareMessagesAndEachGetsItsOwnAnswer(t *testing.T) {
	var sizes []int
	gate := make(chan bool)
	f := &fakeServer{submitTasks: func(_ int, stream submitTasksStream) error {
		<-gate
		return acceptAllTasks(stream, func(request *taskyardv1.SubmitTasksRequest) {
			sizes = append(sizes, len(request.GetTasks()))
		})
	}}
	client := serve(t, f)
	shareStreams(t, client)
	count := maxUnansweredMessages + 3*maxTasksPerMessage
	ctx, ended := testContext(t), map[string]<-chan submitOutcome{}
	for i := range count {
		action := fmt.Sprintf("a-%d", i)
		ended[action] = submitAsync(ctx, client, NewTask{Action: action})
		// Submitted one by one, the first make messages of one task until no more may be unanswered. The others are
		// queued.
		waitForStream(t, client, min(i+1, maxUnansweredMessages), max(0, i+1-maxUnansweredMessages))
	}
	close(gate)
	for action, each := range ended {
		if got := receive(t, each); got.err != nil || got.task.ID != action {
			t.Errorf("%s got %v, %v", action, got.task, got.err)
		}
	}
	_ = client.Close()
	want := append(slices.Repeat([]int{1}, maxUnansweredMessages), slices.Repeat([]int{maxTasksPerMessage}, 3)...)
	if !slices.Equal(sizes, want) || f.submitStreams != 1 || len(f.submits) != 0 {
		t.Errorf("messages of %v tasks, %d streams, %d calls", sizes, f.submitStreams, len(f.submits))
	}
}

func TestMessageStaysWithinItsLimitsAndSkipsAbandonedTasks(t *testing.T) {
	const kilo = 1000
	for _, each := range []struct{ queue, messages []int }{
		{[]int{400 * kilo, 400 * kilo, 400 * kilo}, []int{2, 1}},
		{[]int{maxBytesPerMessage, 1, 999_999, 1}, []int{1, 2, 1}},
		{slices.Repeat([]int{10}, maxTasksPerMessage+1), []int{maxTasksPerMessage, 1}},
		{[]int{0, 600 * kilo, 0, 400 * kilo, 0}, []int{2}}, // 0 is an abandoned task.
		{[]int{0}, nil},
	} {
		stream := newSubmitStream(&submitter{})
		for _, size := range each.queue {
			stream.add(&submission{size: size, abandoned: size == 0})
		}
		var messages []int
		for message := stream.nextMessage(); message != nil; message = stream.nextMessage() {
			messages = append(messages, len(message))
		}
		if !slices.Equal(messages, each.messages) {
			t.Errorf("%v made messages of %v", each.queue, messages)
		}
	}
}

func TestAbandonedSubmitTakesBackItsTaskAndAffectsNoOther(t *testing.T) {
	gate := make(chan bool)
	var received []string
	f := &fakeServer{submitTasks: func(_ int, stream submitTasksStream) error {
		<-gate
		return acceptAllTasks(stream, func(request *taskyardv1.SubmitTasksRequest) {
			for _, task := range request.GetTasks() {
				received = append(received, task.GetAction())
			}
		})
	}}
	client := serve(t, f)
	shareStreams(t, client)
	ctx := testContext(t)
	var ended []<-chan submitOutcome
	for i := range maxUnansweredMessages {
		ended = append(ended, submitAsync(ctx, client, NewTask{Action: "sent"}))
		waitForStream(t, client, i+1, 0)
	}
	brief, abandon := context.WithCancel(ctx)
	abandoned := submitAsync(brief, client, NewTask{Action: "abandoned"})
	waitForStream(t, client, maxUnansweredMessages, 1)
	ended = append(ended, submitAsync(ctx, client, NewTask{Action: "sent"}))
	waitForStream(t, client, maxUnansweredMessages, 2)
	abandon()
	if got := receive(t, abandoned); CodeOf(got.err) != CodeCancelled || !errors.Is(got.err, context.Canceled) {
		t.Errorf("%v", got.err)
	}
	close(gate)
	for _, each := range ended {
		if got := receive(t, each); got.err != nil {
			t.Error(got.err)
		}
	}
	_ = client.Close()
	if len(received) != maxUnansweredMessages+1 || strings.Contains(strings.Join(received, " "), "abandoned") {
		t.Errorf("the server received %v", received)
	}
}

func TestStreamEndsWhenNobodyWaitsForIt(t *testing.T) {
	opened, ended := make(chan bool, 1), make(chan bool, 1)
	f := &fakeServer{submitTasks: func(_ int, stream submitTasksStream) error {
		opened <- true
		<-stream.Context().Done()
		ended <- true
		return nil
	}}
	client := serve(t, f)
	shareStreams(t, client)
	ctx, cancel := context.WithCancel(testContext(t))
	submits := []<-chan submitOutcome{
		submitAsync(ctx, client, NewTask{Action: "a"}), submitAsync(ctx, client, NewTask{Action: "b"}),
	}
	receive(t, opened)
	cancel()
	for _, each := range submits {
		if got := receive(t, each); CodeOf(got.err) != CodeCancelled {
			t.Error(got.err)
		}
	}
	receive(t, ended)
}

func TestNextSubmitAfterATimeOutTakesAnotherStream(t *testing.T) {
	f := &fakeServer{submitTasks: func(number int, stream submitTasksStream) error {
		if number == 1 {
			<-stream.Context().Done()
			return nil
		}
		return acceptAllTasks(stream, func(*taskyardv1.SubmitTasksRequest) {})
	}}
	client := serve(t, f, WithTimeout(100*time.Millisecond))
	shareStreams(t, client)
	if _, err := client.Submit(testContext(t), NewTask{Action: "a"}); CodeOf(err) != CodeDeadlineExceeded {
		t.Errorf("%v", err)
	}
	must(client.Submit(testContext(t), NewTask{Action: "b"}))(t)
}

func TestOnlyUnansweredTasksAreSubmittedAgainAfterABreak(t *testing.T) {
	gate, keys := make(chan bool), map[string][]string{}
	record := func(request *taskyardv1.SubmitTasksRequest) {
		for _, task := range request.GetTasks() {
			keys[task.GetAction()] = append(keys[task.GetAction()], task.GetIdempotencyKey())
		}
	}
	f := &fakeServer{submitTasks: func(number int, stream submitTasksStream) error {
		if number > 1 {
			return acceptAllTasks(stream, record)
		}
		<-gate
		first, _ := stream.Recv()
		second, _ := stream.Recv()
		record(first)
		record(second)
		_ = stream.Send(accept(first))
		return status.Error(codes.Unavailable, "down")
	}}
	client := serve(t, f)
	shareStreams(t, client)
	ctx := testContext(t)
	first := submitAsync(ctx, client, NewTask{Action: "answered"})
	waitForStream(t, client, 1, 0)
	second := submitAsync(ctx, client, NewTask{Action: "lost"})
	waitForStream(t, client, 2, 0)
	close(gate)
	for _, each := range []<-chan submitOutcome{first, second} {
		if got := receive(t, each); got.err != nil {
			t.Error(got.err)
		}
	}
	if len(keys["answered"]) != 1 || len(keys["lost"]) != 2 || keys["lost"][0] != keys["lost"][1] {
		t.Errorf("the server received %v", keys)
	}
	if f.submitStreams != 2 || len(f.submits) != 0 {
		t.Errorf("%d streams, %d calls", f.submitStreams, len(f.submits))
	}
}

func TestTasksOfAFailedStreamTakeUnaryCalls(t *testing.T) {
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
			f := &fakeServer{submitTasks: func(_ int, stream submitTasksStream) error {
				<-gate
				return fail(stream)
			}}
			client := serve(t, f)
			shareStreams(t, client)
			var ended []<-chan submitOutcome
			for i := range 3 {
				ended = append(ended, submitAsync(testContext(t), client, NewTask{Action: "click"}))
				waitForStream(t, client, i+1, 0)
			}
			close(gate)
			for _, each := range ended {
				if got := receive(t, each); got.err != nil {
					t.Error(got.err)
				}
			}
			if f.submitStreams != 1 || len(f.submits) != 3 {
				t.Errorf("%d streams, %d calls", f.submitStreams, len(f.submits))
			}
		})
	}
}

func TestTaskRefusedByADrainingServerIsSubmittedByAnotherStream(t *testing.T) {
	f := &fakeServer{submitTasks: func(number int, stream submitTasksStream) error {
		if number > 1 {
			return acceptAllTasks(stream, func(*taskyardv1.SubmitTasksRequest) {})
		}
		_, _ = stream.Recv()
		return stream.Send(refuse(&taskyardv1.Error{Code: proto.String("unavailable")}))
	}}
	client := serve(t, f)
	shareStreams(t, client)
	if task := must(client.Submit(testContext(t), NewTask{Action: "a"}))(t); task.ID != "a" {
		t.Errorf("%v", task)
	}
}

func TestConcurrentSubmitsCreateEachTaskOnceAcrossCutConnections(t *testing.T) {
	proxy := startProxy(t, address)
	client := connect(t, proxy.address)
	ctx := testContext(t)
	const count = 500
	var ended []<-chan submitOutcome
	for i := range count {
		ended = append(ended, submitAsync(ctx, client, NewTask{Action: "click", AgentID: fmt.Sprintf("a-%d", i%10)}))
		if i%100 == 99 {
			proxy.cut()
		}
	}
	ids := map[string]bool{}
	for _, each := range ended {
		if got := receive(t, each); got.err != nil {
			t.Error(got.err)
		} else {
			ids[got.task.ID] = true
		}
	}
	created := 0
	for _, err := range client.List(ctx, ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		created++
	}
	if len(ids) != count || created != count {
		t.Errorf("%d tasks answered, %d created", len(ids), created)
	}
}
