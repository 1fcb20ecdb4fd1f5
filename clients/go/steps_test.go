// Steps that are done once over the attempts of a task, against the real server.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// thrice is a policy of three attempts, one right after the other.
var thrice = &RetryPolicy{MaxAttempts: 3, FirstDelay: time.Millisecond}

type page struct {
	ID   int64
	Text string
	seen bool
}

// stepCalls counts the calls of StepService by their methods. The first one of each meets an outage, after it was
// carried out.
type stepCalls struct{ record, fetch atomic.Int32 }

func (c *stepCalls) option() Option {
	return WithDialOptions(grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		err := call(ctx, method, request, answer, conn, options...)
		if method == taskyardv1.StepService_RecordStep_FullMethodName && c.record.Add(1) == 1 ||
			method == taskyardv1.StepService_FetchSteps_FullMethodName && c.fetch.Add(1) == 1 {
			return status.Error(codes.Unavailable, "an outage")
		}
		return err
	}))
}

func TestStepsAreDoneOnceOverAllAttempts(t *testing.T) {
	var calls stepCalls
	client, ctx := connect(t, address, calls.option()), testContext(t)
	large := strings.Repeat("€", 100_000)
	var worked, fetched atomic.Int32
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		given := page{1<<60 + 1, large, true}
		do := func(context.Context) (page, error) { worked.Add(1); return given, nil }
		found, err := Step(ctx, task, "large", do)
		if want := (page{given.ID, large, false}); err != nil || found != want {
			return nil, &ActionFailed{Reason: fmt.Sprint(found.ID, found.seen, err), Final: true}
		}
		sum, err := Step(ctx, task, "sum", func(context.Context) (map[string]any, error) {
			worked.Add(1)
			return map[string]any{"attempt": task.Attempt, "none": nil}, nil
		})
		if err != nil || sum["attempt"] != 1.0 || task.Attempt < 3 {
			return nil, fmt.Errorf("attempt %v: %w", sum, errors.Join(err, errors.New("again")))
		}
		fetched.Store(calls.fetch.Load())
		given.Text = "codec"
		bytes := func(context.Context) (Payload, error) { return Payload{[]byte{1, 255}, "mine"}, nil }
		raw, err := Step(ctx, task, "raw", bytes)
		if err != nil || len(raw.Data) != 2 || raw.Encoding != "mine" {
			return nil, fmt.Errorf("%v %w", raw, err)
		}
		_, err = Step(ctx, task, "nothing", func(context.Context) (any, error) { return nil, nil })
		return task.Steps, err
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk", RetryPolicy: thrice}))(t)
	// One of the calls of each kind met an outage; FetchSteps was called by the second and the third attempt.
	if ended.Result != 2.0 || ended.Steps != 4 || worked.Load() != 2 || fetched.Load() != 3 || calls.record.Load() != 5 {
		t.Errorf("%+v: %d done, %d fetched, %d recorded", ended, worked.Load(), fetched.Load(), calls.record.Load())
	}
	steps := must(client.Steps(ctx, ended.ID))(t)
	if len(steps) != 4 || steps[1].Name != "sum" || steps[1].Run != 1 || steps[1].Attempt != 1 ||
		steps[3].Attempt != 3 || steps[3].RecordedAt.IsZero() || steps[2].Output.Encoding != "mine" {
		t.Errorf("%+v", steps)
	}
	if told := fmt.Sprint(steps[0].Result); !strings.Contains(told, "$artifact") || !strings.Contains(told, "name:step-") {
		t.Error(told)
	}
	if _, err := client.Steps(ctx, "tsk_none"); CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
}

func TestStepsAtTheSameTimeNeedNamesOfTheirOwn(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		var together sync.WaitGroup
		found := make([]int, 10)
		for i := range found {
			together.Go(func() {
				found[i], _ = Step(ctx, task, fmt.Sprint("part ", i), func(context.Context) (int, error) { return i, nil })
			})
		}
		together.Wait()
		if task.Attempt == 1 {
			return nil, errors.New("again")
		}
		_, err := Step(ctx, task, "part 1", func(context.Context) (int, error) { return 7, nil })
		return found, err
	})
	_, err := client.Run(ctx, NewTask{Action: "talk", RetryPolicy: thrice})
	if failed, ok := errors.AsType[*TaskFailed](err); !ok || len(failed.Attempts) != 2 ||
		failed.Message != `step "part 1": this run has it already: each step needs a name of its own` {
		t.Error(err)
	}
}

// beforeRecord is an option of a client whose hosts do this before they record a step.
func beforeRecord(do func(taskID string)) Option {
	return WithDialOptions(grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		if record, ok := request.(*taskyardv1.RecordStepRequest); ok {
			do(record.GetTaskId())
		}
		return call(ctx, method, request, answer, conn, options...)
	}))
}

func TestWhatAStepHasSaidIsKeptBeforeTheStepIs(t *testing.T) {
	for name, test := range map[string]struct {
		chunks int
		breaks bool
	}{"much": {500, false}, "on a stream that breaks": {2, true}} {
		t.Run(name, func(t *testing.T) {
			proxy, namespace := startProxy(t, address), WithNamespace("steps-said-"+name[:2])
			client, ctx := connect(t, address, namespace), testContext(t)
			kept := 0
			reading := beforeRecord(func(id string) { kept, _ = collectOutput(client.Output(ctx, id, OutputOptions{})) })
			say := func(task *RunningTask) (any, error) {
				for i := range test.chunks {
					if err := task.Emit(strings.Repeat("x", 1_000)); err != nil {
						return nil, err
					}
					if i == 0 && test.breaks {
						proxy.cut()
					}
				}
				return nil, nil
			}
			host := connect(t, proxy.address, namespace, reading)
			runTalker(t, host, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
				return Step(ctx, task, "talk", func(context.Context) (any, error) { return say(task) })
			})
			must(client.Run(ctx, NewTask{Action: "talk"}))(t)
			if kept != test.chunks {
				t.Errorf("%d of %d chunks were kept", kept, test.chunks)
			}
		})
	}
}

func TestAStepWhoseWordsCannotBeKeptEndsWithTheLease(t *testing.T) {
	proxy, namespace := startProxy(t, address), WithNamespace("steps-unheard")
	client, ctx, ended := connect(t, address, namespace), testContext(t), make(chan error, 1)
	var begun atomic.Int32
	host := connect(t, proxy.address, namespace)
	runTalker(t, host, HostOptions{Lease: time.Second}, func(ctx context.Context, task *RunningTask) (any, error) {
		if begun.Add(1) > 1 {
			return nil, nil
		}
		_, err := Step(ctx, task, "talk", func(context.Context) (any, error) {
			proxy.block()
			return nil, task.Emit("unheard")
		})
		ended <- err
		return nil, err
	})
	id := must(client.Submit(ctx, NewTask{Action: "talk", RetryPolicy: thrice}))(t).ID
	if err := receive(t, ended); CodeOf(err) != CodeLeaseLost {
		t.Error(err)
	}
	proxy.unblock()
	if ended := must(client.Wait(ctx, id))(t); ended.Steps != 0 {
		t.Errorf("%+v", ended)
	}
}

func TestAStepIsNotSentOnceItsHostHasLostTheLease(t *testing.T) {
	begun, ended := make(chan bool), make(chan error, 1)
	// This server takes no steps.
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		if _, err := host.welcome(); err != nil {
			return err
		}
		if err := host.assign("a1", &taskyardv1.Task{Action: proto.String("work")}); err != nil {
			return err
		}
		<-begun
		if err := host.stop("a1", taskyardv1.Cancellation_lease_ended); err != nil {
			return err
		}
		return host.acceptAll(func(*taskyardv1.Report) {})
	}}
	runHost(t, f, func(ctx context.Context, task *RunningTask) (any, error) {
		_, err := Step(context.WithoutCancel(ctx), task, "late", func(context.Context) (any, error) {
			begun <- true
			<-ctx.Done()
			return nil, nil
		})
		ended <- err
		return nil, err
	})
	if err := receive(t, ended); CodeOf(err) != CodeLeaseLost {
		t.Error(err)
	}
}

func TestAStepThatFailsIsNotRecorded(t *testing.T) {
	client, ctx, broken := connect(t, address), testContext(t), errors.New("broken")
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		fail := func(context.Context) (int, error) { return 1, broken }
		if found, err := Step(ctx, task, "once", fail); found != 0 || !errors.Is(err, broken) {
			return nil, fmt.Errorf("%v %w", found, err)
		}
		for _, name := range []string{"", " ", strings.Repeat("€", 257), "\xff"} {
			if _, err := Step(ctx, task, name, fail); errors.Is(err, broken) || !strings.Contains(err.Error(), "its name") {
				return nil, err
			}
		}
		if _, err := Step(ctx, task, "deaf", func(context.Context) (any, error) { return func() {}, nil }); err == nil {
			return nil, errors.New("a function is no JSON")
		}
		_, err := Step(ctx, task, "mute", func(context.Context) (error, error) { return errors.New("mute"), nil })
		if failure, ok := errors.AsType[*ActionFailed](err); !ok || failure.Code != badResult || !failure.Final {
			return nil, err
		}
		return Step(ctx, task, "once", func(context.Context) (int, error) { return 2, nil })
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t)
	if ended.Result != 2.0 || ended.Steps != 1 {
		t.Errorf("%+v", ended)
	}
}

func TestAStepThatHasNoRoomAmongTheOthersIsAnArtifact(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		size := 0
		for i := range 13 {
			do := func(context.Context) (string, error) { return strings.Repeat("x", 90_000), nil }
			text, err := Step(ctx, task, fmt.Sprint(i), do)
			if err != nil {
				return nil, err
			}
			size += len(text)
		}
		if task.Attempt == 1 {
			return nil, errors.New("again")
		}
		return size, nil
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk", RetryPolicy: thrice}))(t)
	if ended.Result != 13*90_000.0 || ended.Steps != 13 || len(ended.Artifacts) != 2 {
		t.Errorf("%+v", ended)
	}
}

func TestAStepEndsWithTheLeaseOfItsTask(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	begun, found := make(chan *RunningTask, 1), make(chan error, 2)
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		do := func(ctx context.Context) (int, error) {
			begun <- task
			<-ctx.Done()
			return 1, nil
		}
		// Its calls outlive the lease.
		outliving := context.WithoutCancel(ctx)
		_, err := Step(outliving, task, "late", func(context.Context) (int, error) { return do(ctx) })
		found <- err
		_, err = Step(ctx, task, "later", do)
		found <- err
		return nil, err
	})
	id := must(client.Submit(ctx, NewTask{Action: "talk"}))(t).ID
	receive(t, begun)
	if _, err := client.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, found); CodeOf(err) != CodeLeaseLost {
		t.Error(err)
	}
	if err := receive(t, found); !isStop(err, "cancelled") {
		t.Error(err)
	}
	if steps := must(client.Steps(ctx, id))(t); len(steps) != 0 {
		t.Error(steps)
	}
}
