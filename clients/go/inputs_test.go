// The results of other tasks that a handler is given, against the real server.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

type handed struct {
	N    int
	Text string
}

// runGiver runs a host. Its action give returns what it is given, which is an artifact too; fail fails.
func runGiver(t *testing.T, client *Client, take Handler) {
	t.Helper()
	host := NewHost(client, "giver", HostOptions{})
	host.Handle("give", Typed(func(ctx context.Context, task *RunningTask, input handed) (handed, error) {
		_, err := task.PutArtifact(ctx, "text", strings.NewReader(input.Text), "")
		return input, err
	}))
	host.Handle("fail", func(context.Context, *RunningTask) (any, error) { return nil, errors.New("no words") })
	host.Handle("take", take)
	runUntilTheEnd(t, host)
}

func TestResultsOfAnySizeAreHandedOn(t *testing.T) {
	var fetched atomic.Int32
	// The first of its calls meets an outage.
	counting := func(
		ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		if method == taskyardv1.InputService_FetchInput_FullMethodName && fetched.Add(1) == 1 {
			return status.Error(codes.Unavailable, "an outage")
		}
		return call(ctx, method, request, answer, conn, options...)
	}
	client := connect(t, address, WithDialOptions(grpc.WithChainUnaryInterceptor(counting)))
	ctx, number := testContext(t), 1<<60+1
	runGiver(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		var found []string
		for _, name := range slices.Sorted(maps.Keys(task.Inputs)) {
			input, value := task.Inputs[name], handed{}
			if err := input.DecodeResult(&value); err != nil {
				return nil, err
			}
			text, err := input.ReadArtifact(ctx, "text")
			if err != nil {
				return nil, err
			}
			if _, none := input.ReadArtifact(ctx, "none"); CodeOf(none) != CodeNotFound {
				return nil, fmt.Errorf("an artifact that is not there: %w", none)
			}
			isRight := input.State == StateDone && input.TaskID == task.Task.Inputs[name] && value.N == number
			found = append(found, fmt.Sprint(name, len(value.Text), isRight && value.Text == string(text)))
		}
		return found, nil
	})
	inputs := map[string]string{}
	// One of the three does not fit beside the others, and the largest is an artifact.
	for name, size := range map[string]int{"empty": 0, "one": 90_000, "two": 90_000, "three": 90_000, "large": 300_000} {
		input := handed{number, strings.Repeat("x", size)}
		inputs[name] = must(client.Run(ctx, NewTask{Action: "give", Input: input}))(t).ID
	}
	ended := must(client.Run(ctx, NewTask{Action: "take", Inputs: inputs}))(t)
	want := "[empty0 true large300000 true one90000 true three90000 true two90000 true]"
	if found := fmt.Sprint(ended.Result); found != want || !maps.Equal(ended.Inputs, inputs) || fetched.Load() != 2 {
		t.Error(found, ended.Inputs, fetched.Load())
	}
}

func TestAnInputThatFailedHasItsErrorAndNoResult(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runGiver(t, client, func(_ context.Context, task *RunningTask) (any, error) {
		value, found := handed{N: 7}, []string{}
		for _, name := range []string{"failed", "cancelled"} {
			input := task.Inputs[name]
			found = append(found, fmt.Sprint(input.State, ": ", input.Error, input.Result, input.DecodeResult(&value), value.N))
		}
		return found, nil
	})
	cancelled := must(client.Submit(ctx, NewTask{Action: "give", Hold: true}))(t)
	must(client.Cancel(ctx, cancelled.ID))(t)
	batch := must(client.SubmitBatch(ctx, NewBatch{Tasks: []NewTask{{Action: "fail"}, {
		Action: "take", AfterPolicy: AfterEnded, Inputs: map[string]string{"cancelled": cancelled.ID},
		InputIndexes: map[string]uint32{"failed": 0},
	}}}))(t)
	ended := must(client.Wait(ctx, batch.Outcomes[1].TaskID))(t)
	if found := fmt.Sprint(ended.Result); found != "[failed: no words<nil> <nil> 7 cancelled: <nil> <nil> 7]" {
		t.Error(found, ended.Error)
	}
}

func TestAnInputThatCannotBeFetchedFailsTheTask(t *testing.T) {
	refusing := func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if method == taskyardv1.ArtifactService_FetchArtifact_FullMethodName {
			return nil, status.Error(codes.NotFound, "the bytes are gone")
		}
		return open(ctx, desc, conn, method, options...)
	}
	client := connect(t, address, WithDialOptions(grpc.WithChainStreamInterceptor(refusing)))
	ctx := testContext(t)
	runGiver(t, client, func(context.Context, *RunningTask) (any, error) { return strings.Repeat("x", 150_000), nil })
	large := must(client.Submit(ctx, NewTask{Action: "take"}))(t)
	ended, err := client.Run(ctx, NewTask{Action: "take", Inputs: map[string]string{"it": large.ID}})
	if failed, ok := errors.AsType[*TaskFailed](err); !ok || failed.Code != "bad_input" ||
		!strings.HasPrefix(failed.Message, "the input 'it' cannot be fetched: ") {
		t.Error(ended, err)
	}
}
