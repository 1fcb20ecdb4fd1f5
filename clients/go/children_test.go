// Children of handlers: submitted once over all runs, waited for without a slot. Against the real server.

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

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// runFamily runs a host with one slot, for parents and their children, which return what they are given, with its text
// twice, and fail where that is nothing.
func runFamily(t *testing.T, client *Client, parent Handler) {
	t.Helper()
	runTalker(t, client, HostOptions{Slots: 1}, func(ctx context.Context, task *RunningTask) (any, error) {
		switch {
		case task.ChildName == "":
			return parent(ctx, task)
		case task.Input != nil || len(task.Params) > 0:
			var given page
			err := task.DecodeParams(&given)
			return Output{page{ID: given.ID, Text: given.Text + given.Text}}, err
		}
		return nil, errors.New("no words")
	})
}

func TestAParentHasTheResultsOfItsChildrenOnOneSlot(t *testing.T) {
	var submitted, fetched atomic.Int32
	// The first call of each kind meets an outage, after it was carried out.
	breaking := func(
		ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		err := call(ctx, method, request, answer, conn, options...)
		if method == taskyardv1.ChildService_SubmitChild_FullMethodName && submitted.Add(1) == 1 ||
			method == taskyardv1.ChildService_FetchChild_FullMethodName && fetched.Add(1) == 1 {
			return status.Error(codes.Unavailable, "an outage")
		}
		return err
	}
	client, ctx := connect(t, address, WithDialOptions(grpc.WithChainUnaryInterceptor(breaking))), testContext(t)
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		children, found, failed := make([]*Child, 2), make([]page, 2), make([]error, 2)
		// The result of the second is too large for a message.
		for i, size := range []int{0, 60_000} {
			var err error
			child := NewTask{Action: "talk", Input: page{ID: 1<<60 + 1, Text: strings.Repeat("x", size)}}
			if children[i], err = task.Child(ctx, fmt.Sprint("page-", i), child); err != nil {
				return nil, err
			}
		}
		var together sync.WaitGroup
		for i, child := range children {
			together.Go(func() { failed[i] = child.Result(ctx, &found[i]) })
		}
		together.Wait()
		if err := errors.Join(failed...); err != nil {
			return nil, err
		}
		for i := range found {
			if found[i].ID != 1<<60+1 {
				return found, nil
			}
		}
		return []int{len(found[0].Text), len(found[1].Text)}, task.Join(ctx, []string{children[0].ID, children[1].ID})
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk", Deadline: time.Now().Add(time.Hour)}))(t)
	if got := fmt.Sprint(ended.Result); got != "[0 120000]" || len(ended.Attempts) != 0 {
		t.Error(got, ended.Attempts)
	}
	var names []string
	for each, err := range client.List(ctx, ListOptions{ParentID: ended.ID}) {
		child := must(each, err)(t)
		names = append(names, fmt.Sprintf("%s of %s: %s, %d", child.ChildName, child.AgentID, child.OnParentEnd, len(child.Artifacts)))
	}
	if got := fmt.Sprint(names); got != "[page-0 of ann: cancel, 0 page-1 of ann: cancel, 1]" {
		t.Error(got)
	}
	if got := strings.Join(stepsOf(ctx, t, client, ended.ID), ", "); !strings.Contains(got, "ends child page-") {
		t.Error(got)
	}
}

func TestALaterAttemptFindsItsChildrenAgain(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	seen := make(chan string, 10)
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		child, err := task.Child(ctx, "one", NewTask{Action: "talk", Params: page{ID: int64(task.Attempt)}})
		if err != nil {
			return nil, err
		}
		if seen <- child.ID; task.Attempt == 1 {
			return nil, errors.New("again")
		}
		var first, second page
		err = errors.Join(child.Result(ctx, &first), child.Result(ctx, &second))
		return []any{first.ID, second.ID}, err
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk", RetryPolicy: thrice}))(t)
	if first, second := <-seen, <-seen; fmt.Sprint(ended.Result) != "[1 1]" || first != second {
		t.Errorf("%+v %s %s", ended, first, second)
	}
}

func TestSeveralMayWaitForTheSameChild(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		child, err := task.Child(ctx, "one", NewTask{Action: "talk", Input: page{Text: "words"}})
		if err != nil {
			return nil, err
		}
		// With one slot it has not ended when the first run comes here.
		found, failed := make([]page, 3), make([]error, 4)
		limits := [][]JoinOption{nil, {JoinWithin(time.Hour)}, {JoinWithin(2 * time.Hour)}}
		var together sync.WaitGroup
		for i := range found {
			together.Go(func() { failed[i] = child.Result(ctx, &found[i], limits[i]...) })
		}
		together.Go(func() { failed[3] = task.JoinChildren(ctx, []*Child{child}) })
		together.Wait()
		if err := errors.Join(failed...); err != nil {
			return nil, err
		}
		// In one goroutine, too.
		err = child.Result(ctx, nil, JoinWithin(time.Minute))
		again := task.JoinChildren(ctx, []*Child{child})
		return []string{found[0].Text, found[1].Text, found[2].Text, fmt.Sprint(again)}, err
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t)
	want := "[wordswords wordswords wordswords join \"join\": this run has used the name already, and names must differ]"
	if got := fmt.Sprint(ended.Result); got != want {
		t.Error(got, ended.Error)
	}
}

func TestAWaitWithALimitEndsBesideOneWithout(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	late := make(chan string, 1)
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		child, err := task.Child(ctx, "one", NewTask{Action: "talk", Input: page{Text: "words"}, Hold: true})
		if err != nil {
			return nil, err
		}
		var found page
		var limited, unlimited error
		var together sync.WaitGroup
		together.Go(func() { limited = child.Result(ctx, nil, JoinWithin(time.Millisecond), JoinAs("limited")) })
		together.Go(func() { unlimited = child.Result(ctx, &found) })
		together.Wait()
		if errors.Is(limited, ErrJoinTimeout) {
			select {
			case late <- child.ID:
			default:
			}
		}
		return found.Text, unlimited
	})
	id := submitTalk(ctx, t, client, nil)
	must(client.Resume(ctx, receive(t, late)))(t)
	if ended := must(client.Wait(ctx, id))(t); ended.Result != "wordswords" {
		t.Errorf("%+v", ended)
	}
}

func TestAWaitWithoutALimitTakesNoTimeoutOfAnotherOne(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	var runs atomic.Int32
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		child, err := task.Child(ctx, "one", NewTask{Action: "talk", Input: page{Text: "words"}, Hold: true})
		if err != nil {
			return nil, err
		}
		// As where another goroutine comes first.
		if runs.Add(1) == 1 {
			return nil, child.Result(ctx, nil, JoinWithin(time.Millisecond))
		}
		var found page
		err = child.Result(ctx, &found)
		if errors.Is(err, ErrParked) && runs.Load() == 2 {
			_, failed := client.Resume(ctx, child.ID)
			err = errors.Join(err, failed)
		}
		return found.Text, err
	})
	if ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t); ended.Result != "wordswords" {
		t.Errorf("%+v", ended)
	}
}

func TestAResultThatTookTooLongIsWaitedForAgain(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	held := make(chan string, 1)
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		child, err := task.Child(ctx, "one", NewTask{Action: "talk", Input: page{Text: "words"}, Hold: true})
		if err != nil {
			return nil, err
		}
		for late := 0; ; {
			var found page
			err := child.Result(ctx, &found, JoinWithin(time.Duration(late+1)*time.Millisecond))
			if !errors.Is(err, ErrJoinTimeout) {
				return found.Text, err
			}
			if late++; late == 3 {
				select {
				case held <- child.ID:
				default:
				}
			}
		}
	})
	id := submitTalk(ctx, t, client, nil)
	must(client.Resume(ctx, receive(t, held)))(t)
	if ended := must(client.Wait(ctx, id))(t); ended.Result != "wordswords" {
		t.Errorf("%+v", ended)
	}
	steps := stepsOf(ctx, t, client, id)
	for i, each := range steps {
		if i > 0 && each != fmt.Sprint("ends child one ", i+1) || i == 0 && each != "ends child one" {
			t.Error(steps)
		}
	}
	if len(steps) < 3 {
		t.Error(steps)
	}
}

func TestAChildThatDidNotEndWellIsAnErrorWithItsName(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		child, err := task.Child(ctx, "one", NewTask{Action: "talk"})
		if err != nil {
			return nil, err
		}
		err = child.Result(ctx, nil)
		failed, ok := errors.AsType[*ChildFailed](err)
		if !ok {
			return nil, err
		}
		return []any{failed.Name, failed.ID == child.ID, failed.State, strings.Replace(failed.Error(), child.ID, "ID", 1)}, nil
	})
	ended, err := client.Run(ctx, NewTask{Action: "talk"})
	if got := fmt.Sprint(ended.Result, err); got != `[one true failed the child "one" (ID) is failed: no words] <nil>` {
		t.Error(got)
	}
}

func TestAResultThatTakesTooLongOrDoesNotFitIsAnErrorOfTheHandler(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		held, err := task.Child(ctx, "held", NewTask{Action: "talk", Hold: true, OnParentEnd: ParentEndKeeps})
		if err != nil {
			return nil, err
		}
		if err := held.Result(ctx, nil, JoinWithin(time.Millisecond)); !errors.Is(err, ErrJoinTimeout) {
			return nil, err
		}
		child, err := task.Child(ctx, "page", NewTask{Action: "talk", Params: page{Text: "words"}})
		if err != nil {
			return nil, err
		}
		var number int
		if err := child.Result(ctx, &number); errors.Is(err, ErrParked) || !strings.HasPrefix(fmt.Sprint(err), `child "page": its result does not fit: json: `) {
			return nil, err
		}
		return held.ID, nil
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t)
	if kept := must(client.Get(ctx, ended.Result.(string)))(t); kept.State != StatePending {
		t.Errorf("%+v", kept)
	}
}

func TestWhatIsNoChildIsAnErrorOfTheHandler(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	cases := []struct {
		name string
		task NewTask
		want string
	}{
		{"a/b", NewTask{Action: "talk"}, "bad_request: name: must have 1 to 128 letters"},
		{"one", NewTask{Action: "talk", UniqueKey: "k"}, "bad_request: child.uniqueKey: the name of a child is its key"},
		{"one", NewTask{Action: "talk", IdempotencyKey: "k"}, "bad_request: child.idempotencyKey: the name of a child is its key"},
		{"one", NewTask{Action: "talk", ParentID: "tsk_1"}, "bad_request: child.parentId: a child is one of the task that submits it"},
		{"one", NewTask{Action: "talk", AfterIndexes: []uint32{0}}, "bad_request: after_indexes: is for the tasks of a batch"},
		{"one", NewTask{Action: "talk", Params: 7}, "bad_request: params: it is no JSON object"},
	}
	runFamily(t, client, func(ctx context.Context, task *RunningTask) (any, error) {
		var wrong []string
		for _, each := range cases {
			if _, err := task.Child(ctx, each.name, each.task); !strings.HasPrefix(fmt.Sprint(err), each.want) {
				wrong = append(wrong, fmt.Sprint(err))
			}
		}
		if err := task.Sleep(ctx, time.Millisecond, ""); err != nil {
			if _, late := task.Child(ctx, "late", NewTask{Action: "talk"}); !errors.Is(late, ErrParked) {
				wrong = append(wrong, fmt.Sprint(late))
			}
			return wrong, err
		}
		return wrong, nil
	})
	ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t)
	for range client.List(ctx, ListOptions{ParentID: ended.ID}) {
		t.Error("a child")
	}
	if ended.Result != nil {
		t.Error(ended.Result)
	}
}
