// Single submissions: which take a unary call, and how they are refused.

package taskyard

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestSingleSubmitTakesAUnaryCall(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f)
	for range 3 {
		must(client.Submit(testContext(t), NewTask{Action: "click"}))(t)
	}
	if len(f.submits) != 3 || f.submitStreams != 0 {
		t.Errorf("%d calls and %d streams", len(f.submits), f.submitStreams)
	}
}

func TestLargeTaskTakesAUnaryCall(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f)
	shareStreams(t, client)
	must(client.Submit(testContext(t), NewTask{Action: strings.Repeat("x", maxBytesPerMessage)}))(t)
	if len(f.submits) != 1 || f.submitStreams != 0 {
		t.Errorf("%d calls and %d streams", len(f.submits), f.submitStreams)
	}
}

func TestSubmitWithMetadataTakesAUnaryCall(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f)
	shareStreams(t, client)
	must(client.Submit(metadata.AppendToOutgoingContext(testContext(t), "x-mark", "mine"), NewTask{Action: "click"}))(t)
	if len(f.headers) != 1 || f.headers[0].Get("x-mark")[0] != "mine" {
		t.Errorf("calls with %v", f.headers)
	}
}

func TestRefusalOnAStreamEqualsThatOfAUnaryCall(t *testing.T) {
	ctx := testContext(t)
	large := map[string]any{"text": strings.Repeat("x", 200_000)}
	for name, refused := range map[string]struct {
		code Code
		task func(*Client) NewTask
	}{
		"no action":       {CodeBadRequest, func(*Client) NewTask { return NewTask{} }},
		"not UTF-8":       {CodeBadRequest, func(*Client) NewTask { return NewTask{Action: "\xff"} }},
		"large params":    {CodeTooLarge, func(*Client) NewTask { return NewTask{Action: "click", Params: large} }},
		"another's key":   {CodeAlreadyExists, func(*Client) NewTask { return NewTask{Action: "b", IdempotencyKey: "k"} }},
		"a full queue":    {CodeQueueFull, func(*Client) NewTask { return NewTask{Action: "click", AgentID: "full"} }},
		"a past deadline": {CodeBadRequest, func(*Client) NewTask { return NewTask{Action: "click", Deadline: time.Unix(1, 0)} }},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, address)
			must(client.Submit(ctx, NewTask{Action: "a", IdempotencyKey: "k"}))(t)
			if refused.code == CodeQueueFull {
				for range 2 {
					tasks := slices.Repeat([]NewTask{{Action: "click"}}, 50)
					must(client.SubmitBatch(ctx, NewBatch{AgentID: "full", Tasks: tasks}))(t)
				}
			}
			// Client.Submit would make an artifact of large params.
			request := must(refused.task(client).message(ctx, client.agentID))(t)
			_, err := client.submitter.submit(ctx, request)
			unary := *errorFrom(err)
			shareStreams(t, client)
			_, err = client.submitter.submit(ctx, request)
			onStream := *errorFrom(err)
			if unary.Code != refused.code || !reflect.DeepEqual(unary, onStream) {
				t.Errorf("%#v by a unary call, %#v on a stream", unary, onStream)
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
				Code: proto.String("queue_full"), Error: proto.String("full"), Retryable: proto.Bool(true),
				RetryAfterMs: each.ms,
			}
			f := &fakeServer{refusal: refusal, submitTasks: func(_ int, stream submitTasksStream) error {
				if _, err := stream.Recv(); err != nil {
					return err
				}
				return stream.Send(refuse(refusal))
			}}
			client := serve(t, f)
			batch := must(client.SubmitBatch(testContext(t), NewBatch{Tasks: []NewTask{{Action: "click"}}}))(t)
			shareStreams(t, client)
			_, onStream := client.Submit(testContext(t), NewTask{Action: "click"})
			for where, err := range map[string]error{"in a batch": batch.Outcomes[0].Err, "on a stream": onStream} {
				if found := errorFrom(err); found.Code != CodeQueueFull || found.RetryAfter != each.want {
					t.Errorf("%s: %+v", where, found)
				}
			}
		})
	}
}

func TestSubmitWithAnEndedContextSendsNothing(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f)
	shareStreams(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Submit(ctx, NewTask{Action: "click"}); CodeOf(err) != CodeCancelled || f.submitStreams != 0 {
		t.Errorf("%v, %d streams", err, f.submitStreams)
	}
}

func TestCloseWaitsForSubmissionsInProgressAndTakesNoMore(t *testing.T) {
	gate := make(chan bool)
	f := &fakeServer{submitTasks: func(_ int, stream submitTasksStream) error {
		<-gate
		return acceptAllTasks(stream, func(*taskyardv1.SubmitTasksRequest) {})
	}}
	client := serve(t, f)
	shareStreams(t, client)
	ctx := testContext(t)
	ended := submitAsync(ctx, client, NewTask{Action: "a"})
	waitForStream(t, client, 1, 0)
	closed := make(chan error, 1)
	go func() { closed <- client.Close() }()
	eventually(t, func() bool {
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
	if got := receive(t, ended); got.err != nil || got.task.ID != "a" {
		t.Errorf("%v, %v", got.task, got.err)
	}
	if err := receive(t, closed); err != nil {
		t.Error(err)
	}
}

// BenchmarkConcurrentSubmits submits a thousand tasks at once: go test -run '^$' -bench ConcurrentSubmits.
func BenchmarkConcurrentSubmits(b *testing.B) {
	for range b.N {
		b.StopTimer()
		// The server limits the tasks of a namespace and of an agent.
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
				if _, err := client.Submit(b.Context(), NewTask{Action: "click", AgentID: fmt.Sprint(i % 10)}); err != nil {
					b.Error(err)
				}
			})
		}
		ended.Wait()
		b.StopTimer()
		_ = client.Close()
	}
}
