// The tasks whose results are handed on to another one, as its handler has them (docs/rules.md, Inputs).

package taskyard

import (
	"context"
	"fmt"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// TaskInput is a task whose result is handed on to another one, as it stood when that was handed out.
type TaskInput struct {
	// TaskID is the id of the task.
	TaskID string
	// State is [StateDone], or another end where the AfterPolicy is [AfterEnded]. It is "" for a task that the server has
	// forgotten.
	State State
	// Result and Output are those of [Task]: nil if the task did not end as done. DecodeResult reads either.
	Result any
	Output *Payload
	// Error tells why the task failed or was cancelled.
	Error string
	// Artifacts are those of the task, which ReadArtifact reads.
	Artifacts []Artifact

	held *heldArtifacts
}

// DecodeResult is [Task.DecodeResult] for an input: it changes nothing if there is no result.
func (i *TaskInput) DecodeResult(v any) error { return i.task().DecodeResult(v) }

// ReadArtifact returns the bytes of an artifact of the input. It has checked their hash. The error is an *[Error]:
// [CodeNotFound], [CodeLeaseLost].
func (i *TaskInput) ReadArtifact(ctx context.Context, name string) ([]byte, error) {
	return i.held.read(ctx, name)
}

// fetchInputs gives the task its inputs, with the results that did not come along, or are artifacts.
func (t *RunningTask) fetchInputs(ctx context.Context) error {
	for name, message := range t.handed {
		input, err := t.fetchInput(ctx, name, message)
		if err != nil {
			return fmt.Errorf("the input '%s' cannot be fetched: %w", name, err)
		}
		if t.Inputs == nil {
			t.Inputs = make(map[string]*TaskInput, len(t.handed))
		}
		t.Inputs[name] = input
	}
	return nil
}

func (t *RunningTask) fetchInput(ctx context.Context, name string, m *taskyardv1.Input) (*TaskInput, error) {
	if m.GetOmitted() {
		var err error
		m, err = taskyardv1.NewInputServiceClient(t.held.client.conn).FetchInput(ctx, &taskyardv1.FetchInputRequest{
			HostId: t.held.hostID, TaskId: t.ID, Name: name, FencingToken: float64(t.FencingToken),
		})
		if err != nil {
			return nil, err
		}
	}
	return t.inputOf(ctx, name, m)
}

// inputOf returns a task whose result is handed on, with that, also where it is an artifact: an input, or a child.
func (t *RunningTask) inputOf(ctx context.Context, name string, m *taskyardv1.Input) (*TaskInput, error) {
	input := &TaskInput{
		TaskID: m.GetTaskId(), Result: anyOf(m.GetResult()), Output: payloadOf(m.GetOutput()), Error: m.GetError(),
	}
	if m.State != nil {
		input.State = stateOf(m.GetState())
	}
	for _, each := range m.GetArtifacts() {
		input.Artifacts = append(input.Artifacts, *artifactOf(each))
	}
	input.held = newHeldArtifacts(t.held.client, t.held.hostID, t.held.lease, input.Artifacts)
	input.held.input = name
	ended, err := withResult(input.task(), func() ([]byte, error) { return input.ReadArtifact(ctx, resultArtifact) })
	if err != nil {
		return nil, err
	}
	input.Output = ended.Output
	return input, nil
}

func (i *TaskInput) task() *Task {
	return &Task{ID: i.TaskID, Result: i.Result, Output: i.Output, Artifacts: i.Artifacts}
}
