// What a handler waits for without its lease and its slot: answers, times, the ends of tasks, and events. Its run ends,
// and the next one finds what came among its steps (docs/rules.md, Parked tasks).

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	maxWait   = 366 * 24 * time.Hour
	maxJoined = 10_000
)

var (
	// ErrParked is what an error of [RunningTask.Ask], [RunningTask.Sleep], [RunningTask.Join], [RunningTask.Event] and
	// [Child.Result] is, for [errors.Is], while nothing has come yet. The handler returns it, wrapped or not: then its task
	// waits without a host, and the handler begins again from its start once something came.
	ErrParked = errors.New("the task is parked: its handler begins again once something came")
	// ErrJoinTimeout is what the error of [RunningTask.Join] is, for [errors.Is], if the tasks have not ended in time.
	ErrJoinTimeout = errors.New("the tasks have not ended in time")

	questionPattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)
)

// AskOption is an option of [RunningTask.Ask].
type AskOption func(*taskyardv1.NewWait) error

// WithChoices sets the answers that there are: anything that encoding/json encodes. Default: any.
func WithChoices(choices ...any) AskOption {
	return func(wait *taskyardv1.NewWait) error {
		found := &structpb.ListValue{}
		for _, each := range choices {
			value, err := orNull("choices", each)
			if err != nil {
				return err
			}
			found.Values = append(found.Values, value)
		}
		wait.GetQuestion().Choices = found
		return nil
	}
}

// WithAnswerSchema sets the JSON Schema of the answer, which the server checks: a map, or what encoding/json encodes
// as an object, such as a json.RawMessage. Default: any JSON.
func WithAnswerSchema(schema any) AskOption {
	return func(wait *taskyardv1.NewWait) (err error) {
		wait.GetQuestion().Schema, err = structOf("schema", schema)
		return err
	}
}

// WithDefaultAnswer sets the answer that counts if nobody gives one in time. Default: none, and the task then fails
// with the code question_expired.
func WithDefaultAnswer(answer any) AskOption {
	return func(wait *taskyardv1.NewWait) (err error) {
		wait.GetQuestion().Default, err = orNull("default", answer)
		return err
	}
}

// WithQuestionURL sets an address to visit for the answer, such as one to sign in at. Default: none.
func WithQuestionURL(url string) AskOption {
	return func(wait *taskyardv1.NewWait) error {
		wait.GetQuestion().Url = url
		return nil
	}
}

// AnswerWithin sets for how long the question can be answered, at most 366 days. Default: a week.
func AnswerWithin(limit time.Duration) AskOption {
	return func(wait *taskyardv1.NewWait) error { return setTimeout(wait, limit) }
}

// JoinOption is an option of [RunningTask.Join].
type JoinOption func(*taskyardv1.NewWait) error

// JoinAs sets the name, which no other join of the task has. Default: join.
func JoinAs(name string) JoinOption {
	return func(wait *taskyardv1.NewWait) error {
		wait.Name = name
		return nil
	}
}

// JoinWithin sets how long to wait at most, up to 366 days. Default: as long as it takes.
func JoinWithin(limit time.Duration) JoinOption {
	return func(wait *taskyardv1.NewWait) error { return setTimeout(wait, limit) }
}

// Ask asks a person, or an agent. Until somebody answers, the error is [ErrParked]: return it, and the task waits
// without a lease and without a slot. Then the handler begins from its start again, on any host, with its steps, and
// Ask returns the answer at once: nil, bool, float64, string, []any or map[string]any. What is no step is done again.
//
// The id is what no other question of the task has: 1 to 128 letters, digits, ".", "_" or "-". The text is for
// people, and may be "" beside a URL. Several things may be waited for together: call for each of them, in one
// goroutine or in several, and return [ErrParked] after that. The first that comes lets the task go on. A step that
// is under way is recorded first; one that begins after that, or an artifact, is refused with ErrParked.
//
// The error is also a *[StopError] if the handler is to stop, an *[Error] of a call, such as [CodeLeaseLost], or an
// *[ActionFailed] that is final for a question that is malformed, or was asked by this run already, or is asked
// within a step. What only the server finds wrong, such as its schema, fails the task.
func (t *RunningTask) Ask(ctx context.Context, id, text string, options ...AskOption) (any, error) {
	question := &taskyardv1.Question{Text: text}
	wait := &taskyardv1.NewWait{Name: id, Awaited: &taskyardv1.NewWait_Question{Question: question}}
	for _, option := range options {
		if err := option(wait); err != nil {
			return nil, waitFailed("ask", id, err.Error())
		}
	}
	if !questionPattern.MatchString(id) {
		return nil, waitFailed("ask", id, "an id has 1 to 128 letters, digits, `.`, `_` or `-`, and no `.` first")
	}
	if question.Text == "" && question.Url == "" {
		return nil, waitFailed("ask", id, "it has a text, or a URL")
	}
	step, err := t.waits.await(ctx, "ask", wait)
	return anyOf(step.GetResult()), err
}

// Sleep waits for a time without a lease and without a slot, as [RunningTask.Ask] waits for an answer. The time
// counts from the first run that asks for it, and is at most 366 days. The name is what no other sleep of the task
// has; "" is sleep. It returns nil once the time is over; other errors are those of Ask.
func (t *RunningTask) Sleep(ctx context.Context, duration time.Duration, name string) error {
	if name == "" {
		name = "sleep"
	}
	if err := checkWait("sleep", name, duration); err != nil {
		return err
	}
	wait := &taskyardv1.NewWait{Name: name, Awaited: &taskyardv1.NewWait_SleepSecs{SleepSecs: duration.Seconds()}}
	_, err := t.waits.await(ctx, "sleep", wait)
	return err
}

// Join waits for the end of tasks without a lease and without a slot, as [RunningTask.Ask] waits for an answer: at
// most 10,000 tasks, which are children of this task, or of its agent. It returns nil once all have ended, in
// whatever way; [Client.Get] tells in which. Submit them by [RunningTask.Child], or in steps that return their ids, or each
// run submits them anew. The error is [ErrJoinTimeout] if they have not ended in time; others are those of Ask.
func (t *RunningTask) Join(ctx context.Context, taskIDs []string, options ...JoinOption) error {
	ends := &taskyardv1.EndOfTasks{TaskIds: slices.Compact(slices.Sorted(slices.Values(taskIDs)))}
	wait := &taskyardv1.NewWait{Name: "join", Awaited: &taskyardv1.NewWait_Ends{Ends: ends}}
	for _, option := range options {
		if err := option(wait); err != nil {
			return waitFailed("join", wait.Name, err.Error())
		}
	}
	if err := checkWait("join", wait.Name, 0); err != nil || len(taskIDs) == 0 {
		return err
	}
	if count := len(ends.TaskIds); count > maxJoined {
		return waitFailed("join", wait.Name, fmt.Sprintf("it has at most %d tasks, not %d", maxJoined, count))
	}
	step, err := t.waits.await(ctx, "join", wait)
	if step.GetExpired() {
		return fmt.Errorf("join %q: %w", wait.Name, ErrJoinTimeout)
	}
	return err
}

// runWaits are the waits of one run of a task, and whether it is parked.
type runWaits struct {
	steps *runSteps

	mu       sync.Mutex
	used     map[stepKey]bool
	children map[string]int        // How many waits for its end each child has had.
	parked   []*taskyardv1.NewWait // In the order in which they were made; none unless the run is parked.
	underWay sync.WaitGroup        // The steps whose work goes on, or whose record does. None is added to a parked run.
}

// await returns the step that a wait has become, or parks the run.
func (w *runWaits) await(ctx context.Context, call string, wait *taskyardv1.NewWait) (*taskyardv1.Step, error) {
	if step, ok := ctx.Value(stepOfContext{}).(string); ok {
		return nil, waitFailed(call, wait.Name, fmt.Sprintf("it is within the step %q, whose work would be lost", step))
	}
	if err := encodingError(wait); err != nil {
		return nil, waitFailed(call, wait.Name, err.Error())
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	key := stepKey{kindOfWait(wait), wait.Name}
	if !w.take(key) {
		return nil, waitFailed(call, wait.Name, "this run has used the name already, and names must differ")
	}
	recorded, err := w.steps.fetch(ctx)
	if err == nil && recorded[key] != nil {
		return recorded[key], nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		delete(w.used, key)
		return nil, err
	}
	w.parked = append(w.parked, wait)
	return nil, ErrParked
}

func (w *runWaits) take(key stepKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used[key] {
		return false
	}
	if w.used == nil {
		w.used = map[stepKey]bool{}
	}
	w.used[key] = true
	return true
}

// nameOf returns the name of the next wait of this run for the end of a child.
func (w *runWaits) nameOf(child string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.children == nil {
		w.children = map[string]int{}
	}
	w.children[child]++
	if count := w.children[child]; count > 1 {
		return fmt.Sprintf("child %s %d", child, count)
	}
	return "child " + child
}

func (w *runWaits) isParked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.parked) > 0
}

// begin notes that a step is under way, until underWay is done. It returns false if the run is parked.
func (w *runWaits) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.parked) > 0 {
		return false
	}
	w.underWay.Add(1)
	return true
}

// untilQuiet waits until no step is under way. It returns false if the context ends before that.
func (w *runWaits) untilQuiet(ctx context.Context) bool {
	quiet := make(chan struct{})
	go func() {
		w.underWay.Wait()
		close(quiet)
	}()
	select {
	case <-quiet:
		return true
	case <-ctx.Done():
		return false
	}
}

// park returns the report that a task is parked, whatever its handler has returned; nil if it was stopped while steps
// were under way.
func (r *hostRun) park(ctx context.Context, task *RunningTask, err error) *taskyardv1.Report {
	if !errors.Is(err, ErrParked) && ctx.Err() == nil {
		text := "the handler went on after its task was parked: what it returned is not reported. Return taskyard.ErrParked"
		if err != nil {
			text += ", not the error: " + err.Error()
		}
		r.log.Error("taskyard: "+text, "task", task.ID, "action", task.Action)
		// It is told where people look who wonder about this task; the server may take no output.
		_ = task.EmitTo("log", "ERROR "+text+"\n")
	}
	if !task.waits.untilQuiet(ctx) {
		return nil
	}
	task.waits.mu.Lock()
	defer task.waits.mu.Unlock()
	report := task.newReport()
	report.Event = &taskyardv1.Report_Parked{Parked: &taskyardv1.TaskParked{
		Waits: slices.Clone(task.waits.parked), ReleaseTarget: task.releasesTarget.Load(),
	}}
	return report
}

// goesOn returns the error of what a handler begins after its task was parked.
func goesOn(call, name string) error {
	return fmt.Errorf("%s %q: its handler goes on, and what it reports is refused: %w", call, name, ErrParked)
}

func kindOfWait(wait *taskyardv1.NewWait) taskyardv1.Step_Kind {
	switch wait.GetAwaited().(type) {
	case *taskyardv1.NewWait_Question:
		return taskyardv1.Step_answer
	case *taskyardv1.NewWait_SleepSecs:
		return taskyardv1.Step_time
	case *taskyardv1.NewWait_Event:
		return taskyardv1.Step_event
	}
	return taskyardv1.Step_ends
}

// checkWait returns what is wrong with the name or the time of a wait, nil for nothing.
func checkWait(call, name string, duration time.Duration) error {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxStepName {
		return waitFailed(call, name, "its name must have 1 to 256 characters, and not be blank")
	}
	if duration < 0 || duration > maxWait {
		return waitFailed(call, name, fmt.Sprintf("the time is from 0 to 366 days, not %v", duration))
	}
	return nil
}

func setTimeout(wait *taskyardv1.NewWait, limit time.Duration) error {
	if limit < 0 || limit > maxWait {
		return fmt.Errorf("the time is from 0 to 366 days, not %v", limit)
	}
	secs := limit.Seconds()
	wait.TimeoutSecs = &secs
	return nil
}

// orNull is valueOf in which nil is the JSON null.
func orNull(field string, v any) (*structpb.Value, error) {
	if v == nil {
		return structpb.NewNullValue(), nil
	}
	return valueOf(field, v)
}

func waitFailed(call, name, reason string) error {
	return &ActionFailed{Reason: fmt.Sprintf("%s %q: %s", call, name, reason), Final: true}
}
