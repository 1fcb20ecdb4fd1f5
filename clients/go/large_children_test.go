// Children whose params are too large for a message: they have the value, wherever a run of their parent is cut off.
// Against the real server, which takes 100,000 bytes.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// twoMB comes in two parts.
var twoMB = strings.Repeat("ä", 1_000_000)

// atChildCalls is an option that has each call that submits a child or puts an artifact of one made by a function.
func atChildCalls(make func(request any, call func() error) error) Option {
	return WithDialOptions(grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		carryOut := func() error { return call(ctx, method, request, answer, conn, options...) }
		upload, isUpload := request.(*taskyardv1.UploadArtifactRequest)
		if method == taskyardv1.ChildService_SubmitChild_FullMethodName || isUpload && upload.GetChild() != "" {
			return make(request, carryOut)
		}
		return carryOut()
	}))
}

// runLargeFamily runs a host for parents and their children, which return who gave them how many bytes.
func runLargeFamily(t *testing.T, client *Client, parent Handler) {
	t.Helper()
	runTalker(t, client, HostOptions{Slots: 1}, func(ctx context.Context, task *RunningTask) (any, error) {
		if task.ChildName == "" {
			return parent(ctx, task)
		}
		var given page
		err := task.DecodeParams(&given)
		return Output{page{ID: given.ID, Text: fmt.Sprint(len(given.Text))}}, err
	})
}

// theChild returns the only child of a task.
func theChild(ctx context.Context, t *testing.T, client *Client, parent string) *Task {
	t.Helper()
	var found []*Task
	for each, err := range client.List(ctx, ListOptions{ParentID: parent}) {
		found = append(found, must(each, err)(t))
	}
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	return found[0]
}

func TestAChildHasTheValueThatItsParentGaveIt(t *testing.T) {
	var calls atomic.Int32
	// Each call meets an outage, after it was carried out.
	broken := atChildCalls(func(_ any, call func() error) error {
		err := call()
		if calls.Add(1)%2 == 1 {
			return status.Error(codes.Unavailable, "an outage")
		}
		return err
	})
	client, ctx := connect(t, address, broken), testContext(t)
	exact := page{ID: 1<<60 + 1, Text: twoMB}
	for name, child := range map[string]NewTask{
		"params":  {Params: page{ID: 1, Text: twoMB}},
		"input":   {Input: exact},
		"payload": {Input: Payload{[]byte(`{"ID": 1, "Text": "` + twoMB + `"}`), ""}},
	} {
		t.Run(name, func(t *testing.T) {
			runLargeFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
				child.Action = "talk"
				made, err := task.Child(ctx, "one", child)
				if err != nil {
					return nil, err
				}
				var found page
				err = made.Result(ctx, &found)
				return fmt.Sprintln(found.ID, found.Text), err
			})
			ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t)
			want := "1 2000000\n"
			if child.Input == exact {
				want = "1152921504606846977 2000000\n"
			}
			if ended.Result != want {
				t.Errorf("%+v", ended)
			}
			made := theChild(ctx, t, client, ended.ID)
			if len(made.Artifacts) != 1 || made.Artifacts[0].Name != "params.json" || made.Artifacts[0].Attempt != 0 || made.Hold {
				t.Errorf("%+v", made)
			}
		})
	}
}

func TestWhereverARunIsCutOffTheNextOneMakesUpForIt(t *testing.T) {
	// Held, two parts, let go; the last is for a child that is not to be held on.
	const all = 4
	for cut := range all * 2 {
		last, isHeld := int32(cut/2+1), cut%2 == 1
		if isHeld && last == all {
			continue
		}
		t.Run(fmt.Sprint(last, " ", isHeld), func(t *testing.T) {
			var calls atomic.Int32
			client, ctx := connect(t, address, atChildCalls(func(_ any, call func() error) error {
				err := call()
				if calls.Add(1) == last {
					return status.Error(codes.Internal, "cut off")
				}
				return err
			})), testContext(t)
			runLargeFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
				given := page{ID: int64(task.Attempt), Text: twoMB}
				child, err := task.Child(ctx, "one", NewTask{Action: "talk", Params: given, Hold: isHeld})
				if err != nil {
					return nil, err
				}
				var found page
				err = child.Result(ctx, &found)
				return fmt.Sprintln(found.ID, found.Text), err
			})
			id := must(client.Submit(ctx, NewTask{Action: "talk", RetryPolicy: thrice}))(t).ID
			if isHeld {
				untilParked(ctx, t, client, id)
				child := theChild(ctx, t, client, id)
				if !child.Hold || child.State != StatePending || len(child.Artifacts) != 1 {
					t.Errorf("%+v", child)
				}
				must(client.Resume(ctx, child.ID))(t)
			}
			want := "2 2000000\n"
			if last == all {
				want = "1 2000000\n"
			}
			if ended := must(client.Wait(ctx, id))(t); ended.Result != want {
				t.Errorf("%+v", ended)
			}
			theChild(ctx, t, client, id)
		})
	}
}

func TestTheLimitOfParamsIsThatOfTheServer(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runLargeFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		child := NewTask{Action: "talk", Params: page{Text: strings.Repeat("x", 150_000)}}
		task.steps.maxPayloadBytes = func() int { return 0 }
		_, none := task.Child(ctx, "none", child)
		// As of another replica, to which the host was connected.
		task.steps.maxPayloadBytes = func() int { return 262_144 }
		other, err := task.Child(ctx, "other", child)
		if err != nil {
			return nil, err
		}
		var found page
		err = other.Result(ctx, &found)
		return fmt.Sprint(CodeOf(none), " ", asError(none).Reason, " ", found.Text), err
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t)
	got, _ := ended.Result.(string)
	if !strings.HasPrefix(got, "too_large child.params: ") || !strings.HasSuffix(got, " 150000") {
		t.Error(got, ended.Error)
	}
}

func TestAChildThatCannotGetItsParamsIsAnErrorUnlessSomebodyLetItGo(t *testing.T) {
	for _, isFree := range []bool{false, true} {
		var client *Client
		var made atomic.Pointer[string]
		ctx := testContext(t)
		breaking := atChildCalls(func(request any, call func() error) error {
			if request, ok := request.(*taskyardv1.UploadArtifactRequest); ok {
				if !isFree {
					return status.Error(codes.FailedPrecondition, "it keeps no artifacts")
				}
				for each, err := range client.List(ctx, ListOptions{ParentID: request.GetTaskId()}) {
					if err == nil {
						_, err = client.Resume(ctx, each.ID)
					}
					if err != nil {
						return err
					}
					made.Store(&each.ID)
				}
			}
			return call()
		})
		client = connect(t, address, breaking)
		runTalker(t, client, HostOptions{Slots: 1}, func(ctx context.Context, task *RunningTask) (any, error) {
			child, err := task.Child(ctx, "one", NewTask{Action: "other", Params: page{Text: twoMB}})
			if isFree && err == nil && child.ID == *made.Load() {
				return "found", nil
			}
			return nil, errors.Join(err, fmt.Errorf("%+v %s", child, CodeOf(err)))
		})
		ended, err := client.Run(ctx, NewTask{Action: "talk"})
		if isFree && (err != nil || ended.Result != "found") {
			t.Error(err)
		}
		want := "too_large: params: are so large that they would be an artifact, but it keeps no artifacts"
		if !isFree && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Error(err)
		}
	}
}
