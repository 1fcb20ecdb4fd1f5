// Handlers that ask, sleep and join: they hold no slot meanwhile, and begin again with what came. Against the real server.

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
)

// submitTalk submits a task of runTalker that lives for as long as the test.
func submitTalk(ctx context.Context, t *testing.T, client *Client, params map[string]any) string {
	t.Helper()
	deadline := time.Now().Add(time.Hour)
	return must(client.Submit(ctx, NewTask{Action: "talk", Params: params, Deadline: deadline}))(t).ID
}

// untilParked returns a task once it waits for something.
func untilParked(ctx context.Context, t *testing.T, client *Client, id string) *Task {
	t.Helper()
	for event, err := range client.Watch(ctx, WatchOptions{TaskIDs: []string{id}, IncludeCurrent: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Task.State == StateParked {
			return must(client.Get(ctx, id))(t)
		}
		if event.Task.State.Ended() {
			t.Fatalf("%+v", event.Task)
		}
	}
	return nil
}

func waitsOf(task *Task) (found []string) {
	for _, each := range task.Park.Waits {
		found = append(found, string(each.Kind)+" "+each.Name)
	}
	return found
}

func stepsOf(ctx context.Context, t *testing.T, client *Client, id string) (found []string) {
	t.Helper()
	for _, each := range must(client.Steps(ctx, id))(t) {
		found = append(found, string(each.Kind)+" "+each.Name)
	}
	return found
}

func TestATaskWaitsWithoutASlotAndGoesOnWithWhatCame(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	var begun, built atomic.Int32
	runTalker(t, client, HostOptions{Slots: 1}, func(ctx context.Context, task *RunningTask) (any, error) {
		if task.Params["other"] != nil {
			return "ran beside it", nil
		}
		begun.Add(1)
		defer func() { _ = task.Emit("cleaned\n") }()
		// A step and a question may have the same name.
		image, err := Step(ctx, task, "deploy", func(context.Context) (int, error) { return int(built.Add(1)), nil })
		if err != nil {
			return nil, err
		}
		answer, err := task.Ask(ctx, "deploy", "Deploy?", WithChoices("yes", nil, map[string]any{"by": 1}), AnswerWithin(time.Hour))
		if err != nil {
			return nil, fmt.Errorf("not deployed: %w", err)
		}
		if err := task.Sleep(ctx, time.Millisecond, ""); err != nil {
			return nil, err
		}
		return []any{image, answer}, nil
	})
	id := submitTalk(ctx, t, client, nil)
	task := untilParked(ctx, t, client, id)
	if asked := task.Park.Waits[0].Question; asked.Text != "Deploy?" || len(asked.Choices) != 3 || asked.HasDefault {
		t.Errorf("%+v", asked)
	}
	if ended := must(client.Run(ctx, NewTask{Action: "talk", Params: map[string]any{"other": 1}}))(t); ended.Result == nil {
		t.Errorf("%+v", ended)
	}
	var open []*OpenQuestion
	for each, err := range client.Questions(ctx, QuestionOptions{AgentID: "ann", PageSize: 1}) {
		open = append(open, must(each, err)(t))
	}
	if len(open) != 1 || open[0].TaskID != id || open[0].QuestionID != "deploy" || open[0].Until.IsZero() {
		t.Errorf("%+v", open)
	}
	for range client.Questions(ctx, QuestionOptions{AgentID: "nobody"}) {
		t.Error("a question of another agent")
	}
	if _, err := client.Answer(ctx, id, "deploy", "no"); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
	if state := must(client.Answer(ctx, id, "deploy", map[string]any{"by": 1}))(t); state != StateQueued {
		t.Error(state)
	}
	if _, err := client.Answer(ctx, id, "deploy", "yes"); CodeOf(err) != CodeConflict {
		t.Error(err)
	}
	ended := must(client.Wait(ctx, id))(t)
	if got := fmt.Sprint(ended.Result, ended.Error); got != "[1 map[by:1]]" || begun.Load() != 3 || built.Load() != 1 {
		t.Errorf("%s, begun %d times, built %d times", got, begun.Load(), built.Load())
	}
	if got := fmt.Sprint(stepsOf(ctx, t, client, id)); got != "[work deploy answer deploy time sleep]" || len(ended.Attempts) != 0 {
		t.Errorf("%s %+v", got, ended.Attempts)
	}
	if said := readAll(t, client.Output(ctx, id, OutputOptions{Follow: true})); len(said) != 3 {
		t.Errorf("%d chunks", len(said))
	}
}

func TestWhatIsWaitedForSideBySideIsOneParkOnceStepsAreDone(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		begun, unwound := make(chan struct{}), make(chan struct{})
		// It is left behind.
		go func() {
			_, _ = Step(ctx, task, "slow", func(context.Context) (int, error) {
				close(begun)
				<-unwound
				return 1, nil
			})
		}()
		if task.Steps == 0 {
			<-begun
		}
		defer close(unwound)
		var together sync.WaitGroup
		found, failed := make([]any, 2), make([]error, 3)
		for i := range found {
			together.Go(func() { found[i], failed[i] = task.Ask(ctx, fmt.Sprint("q", i), "Go?") })
		}
		together.Wait()
		failed[2] = task.Sleep(ctx, time.Hour, "long")
		if failed[0] == nil && failed[1] == nil {
			return found, nil
		}
		return nil, errors.Join(failed...)
	})
	id := submitTalk(ctx, t, client, nil)
	task := untilParked(ctx, t, client, id)
	if len(task.Park.Waits) != 3 || waitsOf(task)[2] != "time long" {
		t.Error(waitsOf(task))
	}
	if got := fmt.Sprint(stepsOf(ctx, t, client, id)); got != "[work slow]" {
		t.Error(got)
	}
	must(client.Answer(ctx, id, "q1", 2))(t)
	if task = untilParked(ctx, t, client, id); fmt.Sprint(waitsOf(task)) != "[answer q0 time long]" {
		t.Error(waitsOf(task))
	}
	must(client.Answer(ctx, id, "q0", nil))(t)
	// What it returns now is not reported: it still sleeps.
	if task = untilParked(ctx, t, client, id); fmt.Sprint(waitsOf(task)) != "[time long]" {
		t.Error(waitsOf(task))
	}
}

func TestTheTargetOfATaskThatWaitsStaysTakenUnlessItIsReleased(t *testing.T) {
	for _, releases := range []bool{false, true} {
		t.Run(fmt.Sprint(releases), func(t *testing.T) {
			client, ctx := connect(t, address), testContext(t)
			runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
				if task.Params["asks"] == nil {
					return nil, nil
				}
				task.SetReleasesTarget(releases)
				return task.Ask(ctx, "go", "Go?")
			})
			asks := NewTask{Action: "talk", Target: "page", Params: map[string]any{"asks": true}}
			first := must(client.Submit(ctx, asks))(t).ID
			untilParked(ctx, t, client, first)
			second := must(client.Submit(ctx, NewTask{Action: "talk", Target: "page"}))(t).ID
			if releases {
				must(client.Wait(ctx, second))(t)
			}
			must(client.Answer(ctx, first, "go", 1))(t)
			ended := must(client.Wait(ctx, first))(t)
			if began := must(client.Wait(ctx, second))(t).StartedAt; began.Before(ended.CompletedAt) != releases {
				t.Errorf("the second began at %v, the first ended at %v", began, ended.CompletedAt)
			}
		})
	}
}

func TestATaskJoinsOthers(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{Slots: 1}, func(ctx context.Context, task *RunningTask) (any, error) {
		if task.ParentID != "" {
			return "child", task.Sleep(ctx, 10*time.Millisecond, "nap")
		}
		if err := task.Join(ctx, nil); err != nil {
			return nil, err
		}
		child, err := Step(ctx, task, "child", func(ctx context.Context) (string, error) {
			submitted, err := client.Submit(ctx, NewTask{Action: "talk"})
			return submitted.ID, err
		})
		if err != nil {
			return nil, err
		}
		if err := task.Join(ctx, []string{child, child}); err != nil {
			return nil, err
		}
		late := task.Join(ctx, []string{task.Params["held"].(string)}, JoinAs("late"), JoinWithin(time.Millisecond))
		if !errors.Is(late, ErrJoinTimeout) {
			return nil, late
		}
		ended, err := client.Get(ctx, child)
		return ended.Result, err
	})
	held := must(client.Submit(ctx, NewTask{Action: "talk", Hold: true}))(t).ID
	ended := must(client.Wait(ctx, submitTalk(ctx, t, client, map[string]any{"held": held})))(t)
	if ended.Result != "child" {
		t.Errorf("%+v", ended)
	}
	steps := must(client.Steps(ctx, ended.ID))(t)
	if last := steps[len(steps)-1]; last.Kind != StepEnds || last.Name != "late" || !last.Expired {
		t.Errorf("%+v", last)
	}
}

func TestADefaultThatCountsIsAnAnswerAndWithoutOneTheTaskFails(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		schema := WithAnswerSchema(map[string]any{"type": "integer"})
		answer, err := task.Ask(ctx, "first", "", WithQuestionURL("https://example.com"), schema, WithDefaultAnswer(1), AnswerWithin(0))
		if err != nil || answer != 1.0 {
			return answer, err
		}
		return task.Ask(ctx, "second", "Go?", AnswerWithin(time.Millisecond))
	})
	_, err := client.Run(ctx, NewTask{Action: "talk"})
	if failed, ok := errors.AsType[*TaskFailed](err); !ok || failed.Code != "question_expired" {
		t.Error(err)
	}
}

func TestAHandlerThatSwallowsTheParkIsParkedAllTheSameAndTold(t *testing.T) {
	for name, end := range map[string]func() (any, error){
		"returns": func() (any, error) { return "went on", nil },
		"fails":   func() (any, error) { return nil, errors.New("broken") },
		"panics":  func() (any, error) { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			client, ctx := connect(t, address), testContext(t)
			runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
				if _, err := task.Ask(ctx, "go", "Go?"); err == nil {
					return "has gone", nil
				}
				_, late := Step(ctx, task, "late", func(context.Context) (int, error) { return 1, nil })
				_, put := task.PutArtifact(ctx, "late.txt", strings.NewReader(""), "")
				if !errors.Is(late, ErrParked) || !errors.Is(put, ErrParked) {
					return nil, task.Emit("not refused")
				}
				return end()
			})
			id := submitTalk(ctx, t, client, nil)
			task := untilParked(ctx, t, client, id)
			said := readAll(t, client.Output(ctx, id, OutputOptions{}))
			if task.Steps != 0 || len(task.Artifacts) != 0 || len(said) != 1 ||
				!strings.Contains(said[0].Text, "ERROR the handler went on after its task was parked: what it returned is not") {
				t.Errorf("%+v %+v", task, said)
			}
			must(client.Answer(ctx, id, "go", true))(t)
			if ended := must(client.Wait(ctx, id))(t); ended.Result != "has gone" {
				t.Errorf("%+v", ended)
			}
		})
	}
}

func TestWhatCannotBeWaitedForIsSaidAtOnce(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	cases := []struct {
		ask  func(ctx context.Context, task *RunningTask) error
		want string
	}{
		{asking("a b", "Go?"), `ask "a b": an id has 1 to 128 letters`},
		{asking("go", ""), `ask "go": it has a text, or a URL`},
		{asking("go", "\xff"), `ask "go": bad_request: `},
		{asking("go", "Go?", AnswerWithin(-time.Second)), `ask "go": the time is from 0 to 366 days, not -1s`},
		{asking("go", "Go?", WithChoices(func() {})), `ask "go": choices: `},
		{asking("go", "Go?", WithAnswerSchema(7)), `ask "go": schema: it is no JSON object`},
		{asking("go", "Go?", WithDefaultAnswer(1<<60+1)), `ask "go": default: `},
		// What the server alone knows.
		{asking("go", "Go?", WithChoices("yes"), WithDefaultAnswer("no")), "park refused: "},
		{func(ctx context.Context, task *RunningTask) error { return task.Sleep(ctx, 367*24*time.Hour, "") },
			`sleep "sleep": the time is from 0 to 366 days`},
		{func(ctx context.Context, task *RunningTask) error { return task.Sleep(ctx, 1, " ") }, `sleep " ": its name must have`},
		{func(ctx context.Context, task *RunningTask) error {
			ids := make([]string, 10_001)
			for i := range ids {
				ids[i] = fmt.Sprint(i)
			}
			return task.Join(ctx, ids)
		}, `join "join": it has at most 10000 tasks, not 10001`},
		{func(ctx context.Context, task *RunningTask) error {
			_, err := Step(ctx, task, "it", func(ctx context.Context) (any, error) { return task.Ask(ctx, "go", "Go?") })
			return err
		}, `ask "go": it is within the step "it", whose work would be lost`},
		{func(ctx context.Context, task *RunningTask) error {
			if err := task.Sleep(ctx, 0, ""); err != nil {
				return err
			}
			return task.Sleep(ctx, 0, "")
		}, `sleep "sleep": this run has used the name already`},
	}
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		return nil, cases[int(task.Params["case"].(float64))].ask(ctx, task)
	})
	for number, each := range cases {
		_, err := client.Run(ctx, NewTask{Action: "talk", Params: map[string]any{"case": number}})
		if failed, ok := errors.AsType[*TaskFailed](err); !ok || !strings.HasPrefix(failed.Message, each.want) {
			t.Errorf("%s: %v", each.want, err)
		}
	}
}

func asking(id, text string, options ...AskOption) func(context.Context, *RunningTask) error {
	return func(ctx context.Context, task *RunningTask) error {
		_, err := task.Ask(ctx, id, text, options...)
		return err
	}
}

func TestATaskThatIsCancelledWhileAStepIsUnderWayIsNotParked(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	begun, returned := make(chan struct{}, 2), make(chan error, 1)
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		go func() {
			_, err := Step(ctx, task, "slow", func(ctx context.Context) (int, error) {
				begun <- struct{}{}
				begun <- struct{}{}
				<-ctx.Done()
				return 1, nil
			})
			returned <- err
		}()
		<-begun
		return task.Ask(ctx, "go", "Go?")
	})
	id := submitTalk(ctx, t, client, nil)
	receive(t, begun)
	if stopping := must(client.CancelAndWait(ctx, id, time.Minute))(t); stopping != StoppingReleased {
		t.Error(stopping)
	}
	if err := receive(t, returned); err == nil {
		t.Error("a step was recorded after the cancel")
	}
	if _, err := client.Answer(ctx, id, "go", 1); CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
}
