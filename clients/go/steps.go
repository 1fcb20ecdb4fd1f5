// Steps: what a run of a task has done once and for all, so that a later run of it need not do it again (docs/rules.md,
// Steps).

package taskyard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// maxStepName is how many characters the name of a step may have.
const maxStepName = 256

// StepKind says what was done, or what came while the task was parked.
type StepKind string

// The kinds of steps. All but the first are also those of waits.
const (
	StepWork   StepKind = "work"   // Work, which a host has recorded.
	StepAnswer StepKind = "answer" // The answer to a question.
	StepTime   StepKind = "time"   // A time that has come.
	StepEnds   StepKind = "ends"   // The end of tasks.
	StepEvent  StepKind = "event"  // An event.
)

// TaskStep is a step of a task, as callers read it.
type TaskStep struct {
	// Kind is [StepWork] unless the task was parked for it.
	Kind StepKind
	// Name is what no other step of its kind in the task is called.
	Name string
	// Result is nil, bool, float64, string, []any or map[string]any. It is nil too where Output has what the step
	// returned: DecodeResult reads either. For a result that is an artifact it is {"$artifact": {"name": ...}}.
	Result any
	// Output is what the step returned where Result does not hold it exactly, else nil.
	Output *Payload
	// Run and Attempt tell in which execution of the task it was recorded, both from 1.
	Run, Attempt int
	// Duration is how long its work took.
	Duration time.Duration
	// RecordedAt is when the server took it.
	RecordedAt time.Time
	// Question is what was asked; nil for other kinds.
	Question *Question
	// By is who answered, or sent the event, "" if nobody did.
	By string
	// Expired is true if nothing came in time; of a question its default is then the result.
	Expired bool
}

// DecodeResult is [Task.DecodeResult] for a step.
func (s *TaskStep) DecodeResult(v any) error {
	return (&Task{Result: s.Result, Output: s.Output}).DecodeResult(v)
}

// Steps returns all steps of a task, in the order in which they were recorded. Codes: [CodeNotFound],
// [CodePermissionDenied] for a viewer that is shown no payloads.
func (c *Client) Steps(ctx context.Context, taskID string) ([]*TaskStep, error) {
	answer, err := taskyardv1.NewStepServiceClient(c.conn).ListSteps(ctx, &taskyardv1.ListStepsRequest{TaskId: taskID})
	if err != nil {
		return nil, err
	}
	found := make([]*TaskStep, len(answer.GetSteps()))
	for i, each := range answer.GetSteps() {
		found[i] = stepOf(each)
	}
	return found, nil
}

func stepOf(m *taskyardv1.Step) *TaskStep {
	return &TaskStep{
		Kind: StepKind(enumName(keyOfStep(m).kind)), Name: m.GetName(), Result: anyOf(m.GetResult()),
		Output: payloadOf(m.GetOutput()), Run: int(m.GetRun()), Attempt: int(m.GetAttempt()),
		Duration: fromMillis(m.GetDurationMs()), RecordedAt: timeOf(m.GetRecordedAt()),
		Question: questionOf(m.GetQuestion()), By: m.GetBy(), Expired: m.GetExpired(),
	}
}

// Step does a part of a task's work once and for all: if an earlier attempt or run of the task has recorded a step of
// this name, its result is returned. Otherwise the function is called, and its result is returned once the server
// keeps it. An error of the function is not recorded; it is returned as it is, and the same step may be tried again.
//
// What the function has said with [RunningTask.Emit] is kept before the step is.
//
// Names decide, not order: each step of a run needs a name of its own, of up to 256 characters. Steps with different
// names may be done at the same time, or within each other. The result travels exactly, as [Output] does, and comes
// from what is kept, so that it is the same in all runs. One that is too large for a message becomes an artifact by
// itself.
//
// The error is a *[StopError] if the handler is to stop, [ErrParked] if its task is parked, an *[Error] of a call, such
// as [CodeLeaseLost], or an *[ActionFailed] that is final for a name that cannot be, or is used twice, and for a result
// that cannot be kept.
func Step[T any](
	ctx context.Context, task *RunningTask, name string, function func(ctx context.Context) (T, error),
) (T, error) {
	var value T
	work := func() (any, error) { return function(context.WithValue(ctx, stepOfContext{}, name)) }
	err := task.steps.do(ctx, name, work, func(step *TaskStep) error { return step.decodeInto(&value) })
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

// decodeInto is DecodeResult, also for a payload.
func (s *TaskStep) decodeInto(v any) error {
	if s.Output != nil {
		switch v := v.(type) {
		case *Payload:
			*v = *s.Output
			return nil
		case **Payload:
			*v = s.Output
			return nil
		}
	}
	return s.DecodeResult(v)
}

// stepKey names a step of a task.
type stepKey struct {
	kind taskyardv1.Step_Kind
	name string
}

// keyOfStep returns the name of a step. A server of an older version names no kind.
func keyOfStep(m *taskyardv1.Step) stepKey {
	return stepKey{cmp.Or(m.GetKind(), taskyardv1.Step_work), m.GetName()}
}

// stepOfContext is the key of the contexts of functions that do the work of a step. The value is its name.
type stepOfContext struct{}

// runSteps are the steps of a task that a host has under a lease.
type runSteps struct {
	task *RunningTask
	// maxPayloadBytes returns how large a result may be, 0 if the server has not told.
	maxPayloadBytes func() int
	calls           taskyardv1.StepServiceClient

	fetching sync.Mutex                   // Held during the fetch.
	recorded map[stepKey]*taskyardv1.Step // Those of earlier attempts and runs; nil until they are fetched.

	mu   sync.Mutex
	used map[string]bool // The names of this run.
}

// do hands the result of a step to take: the recorded one, or that of work.
func (s *runSteps) do(ctx context.Context, name string, work func() (any, error), take func(*TaskStep) error) error {
	isText := strings.TrimSpace(name) != "" && utf8.ValidString(name)
	if !isText || utf8.RuneCountInString(name) > maxStepName {
		return stepFailed(name, "its name must have 1 to 256 characters, and not be blank", "")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !s.task.waits.begin() {
		return goesOn("step", name)
	}
	defer s.task.waits.underWay.Done()
	if !s.use(name) {
		return stepFailed(name, "this run has it already: each step needs a name of its own", "")
	}
	recorded, err := s.fetch(ctx)
	if found := recorded[stepKey{taskyardv1.Step_work, name}]; err == nil && found != nil {
		err = s.takeRecorded(ctx, found, take)
	} else if err == nil {
		var request *taskyardv1.RecordStepRequest
		if request, err = s.work(name, work, take); err == nil {
			// A later run that finds the step does not say it again.
			if err = s.task.flush(ctx); err == nil {
				return s.record(ctx, request)
			}
		}
	}
	if err != nil {
		// Nothing was sent, so that it may be tried again.
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.used, name)
	}
	return err
}

// takeRecorded hands the result of a recorded step to take, also one that is an artifact.
func (s *runSteps) takeRecorded(ctx context.Context, m *taskyardv1.Step, take func(*TaskStep) error) error {
	step, artifact := stepOf(m), stepArtifact(m.GetName())
	// A step may return what looks like a reference.
	reference := s.task.referenceIn(step.Result, artifact)
	if reference != nil && step.Output == nil && s.task.hasArtifact(artifact, reference.SHA256) {
		data, err := s.task.ReadArtifact(ctx, artifact)
		if err != nil {
			return err
		}
		step.Output = &Payload{Data: data, Encoding: reference.Encoding}
	}
	if err := take(step); err != nil {
		return fmt.Errorf("step %q: what was recorded does not fit: %w", step.Name, err)
	}
	return nil
}

// work does the work of a step, hands its result to take, and returns what records it.
func (s *runSteps) work(
	name string, work func() (any, error), take func(*TaskStep) error,
) (*taskyardv1.RecordStepRequest, error) {
	began := time.Now()
	result, err := work()
	if err != nil {
		return nil, err
	}
	request := &taskyardv1.RecordStepRequest{
		HostId: s.task.held.hostID, TaskId: s.task.ID, FencingToken: float64(s.task.FencingToken), Name: name,
		DurationMs: proto.Uint32(toMillis(time.Since(began))),
	}
	if request.Result, request.Output, err = encodeOutput(result); err != nil {
		return nil, stepFailed(name, "its result is not JSON: "+err.Error(), badResult)
	}
	// Before it is recorded: a later run could not read it either.
	if err := take(&TaskStep{Result: anyOf(request.Result), Output: payloadOf(request.Output)}); err != nil {
		return nil, stepFailed(name, "its result cannot be read again: "+err.Error(), badResult)
	}
	return request, nil
}

// use takes a name for this run. It returns false if the run has it already.
func (s *runSteps) use(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[name] {
		return false
	}
	if s.used == nil {
		s.used = map[string]bool{}
	}
	s.used[name] = true
	return true
}

// fetch returns the steps of earlier attempts and runs. It asks for them once, and only if there are any.
func (s *runSteps) fetch(ctx context.Context) (map[stepKey]*taskyardv1.Step, error) {
	if s.task.Steps == 0 {
		return nil, nil
	}
	s.fetching.Lock()
	defer s.fetching.Unlock()
	if s.recorded != nil {
		return s.recorded, nil
	}
	answer, err := s.calls.FetchSteps(ctx, &taskyardv1.FetchStepsRequest{
		HostId: s.task.held.hostID, TaskId: s.task.ID, FencingToken: float64(s.task.FencingToken),
	})
	if err != nil {
		return nil, err
	}
	s.recorded = make(map[stepKey]*taskyardv1.Step, len(answer.GetSteps()))
	for _, each := range answer.GetSteps() {
		s.recorded[keyOfStep(each)] = each
	}
	return s.recorded, nil
}

// record returns once the server keeps a step. A result that is too large becomes an artifact.
func (s *runSteps) record(ctx context.Context, request *taskyardv1.RecordStepRequest) error {
	most := s.maxPayloadBytes()
	if most == 0 || proto.Size(request.Result)+proto.Size(request.Output) <= most {
		_, err := s.calls.RecordStep(ctx, request)
		// There is no room for it among the other steps either. One step too many stays so.
		if CodeOf(err) != CodeTooLarge || strings.HasPrefix(asError(err).Reason, "name:") {
			return err
		}
	}
	var err error
	request.Result, err = s.task.putValue(ctx, stepArtifact(request.Name), request.Result, request.Output)
	if err != nil {
		if ctx.Err() != nil || CodeOf(err) == CodeLeaseLost {
			return err
		}
		return stepFailed(request.Name, "its result is too large, and cannot be an artifact: "+err.Error(), badResult)
	}
	request.Output = nil
	_, err = s.calls.RecordStep(ctx, request)
	return err
}

// stepArtifact is the name of the artifact that the result of a step is.
func stepArtifact(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "step-" + hex.EncodeToString(sum[:8]) + ".json"
}

func stepFailed(name, reason, code string) error {
	return &ActionFailed{Reason: fmt.Sprintf("step %q: %s", name, reason), Code: code, Final: true}
}
