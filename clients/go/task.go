// Tasks as plain Go: what is submitted, and what the server shows (docs/rules.md, Task fields).

package taskyard

import (
	"cmp"
	"context"
	"strings"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// State is the state of a task.
type State string

// The states of a task. The last four are terminal.
const (
	StatePending   State = "pending"   // Held, not due yet, or waiting for a retry.
	StateQueued    State = "queued"    // Waits for a host.
	StateAssigned  State = "assigned"  // Handed out to a host, not started.
	StateRunning   State = "running"   // A host runs it.
	StatePaused    State = "paused"    // Interrupted; can be resumed.
	StateParked    State = "parked"    // Waits for an answer, a time or other tasks, without a host.
	StateDone      State = "done"      // Ended with or without a result.
	StateFailed    State = "failed"    // Ended with an error; can be resumed.
	StateCancelled State = "cancelled" // Ended by a cancel, or by the end of the server.
	StateRejected  State = "rejected"  // Refused at admission: a queue was full.
)

// Ended reports whether the state is terminal.
func (s State) Ended() bool {
	return s == StateDone || s == StateFailed || s == StateCancelled || s == StateRejected
}

func stateOf(state taskyardv1.Task_State) State { return State(enumName(state)) }

func statesOf(states []State) *string {
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	return optional(strings.Join(names, ","))
}

// Task is a task as the server showed it. A field that the server left out is zero. [NewTask] describes the fields that
// are set by the submitter.
type Task struct {
	// ID is the id that the server gave the task.
	ID      string
	AgentID string
	// Deprecated: use AgentID.
	Agent    string
	Action   string
	TabID    string
	Ref      string
	Selector string
	Params   map[string]any
	Priority int32
	State    State
	// Deadline is when the task fails unless it has ended. It is zero while the task is paused, and while a default
	// deadline does not count yet.
	Deadline time.Time
	// CreatedAt is when the server accepted the task.
	CreatedAt time.Time
	// StartedAt is when the task was first executed, in any attempt or run.
	StartedAt time.Time
	// CompletedAt is when the task ended.
	CompletedAt time.Time
	// Latency is the time from StartedAt to CompletedAt.
	Latency time.Duration
	// Result is nil, bool, float64, string, []any or map[string]any. It is nil too where Output has what the handler
	// returned: DecodeResult reads either.
	Result any
	// Error tells why the task failed, was rejected or was interrupted.
	Error string
	// Code is the code of the last failed attempt of this run as its host reported it, or timed_out, also while the task
	// waits for its next attempt. It is "" if there is none.
	Code string
	// Traceback tells where in the host's code the last failed attempt of this run failed, at most 8,000 characters. It is
	// "" if the host did not say, and in the events of a watch.
	Traceback string
	// Position is the number of queued tasks of the namespace just after the task was accepted.
	Position    int
	CallbackURL string
	// BatchID is the batch that the task was submitted with.
	BatchID  string
	Project  string
	Requires []string
	Labels   map[string]string
	Target   string
	// Hold is true while the task waits for a resume.
	Hold bool
	// NotBefore is when a pending task is due, for the first time or for its next attempt.
	NotBefore time.Time
	// TokenLimit is the most tokens that the task may use over all its attempts and runs; 0 is no limit.
	TokenLimit uint32
	// TokensUsed is how many tokens the task has used so far, over all its attempts and runs.
	TokensUsed  uint32
	RetryPolicy *RetryPolicy
	// Attempts are the executions of the present run, oldest first. A single one is left out if there is no retry
	// policy.
	Attempts []Attempt
	// Run is the number of the present run: 1, and one more for each resume.
	Run            int
	IdempotencyKey string
	// HostID is the host that holds the task, or held it last.
	HostID string
	// Progress is nil until a host has reported some.
	Progress    *Progress
	Traceparent string
	// RunTimeout is the longest time that an attempt may take; 0 is no limit.
	RunTimeout time.Duration
	// ParentID is the task whose work submitted this one, "" for none.
	ParentID string
	// ChildName is the name by which its parent has submitted it, see [RunningTask.Child]; "" otherwise.
	ChildName string
	// Input is the input where Params do not hold it exactly, else nil. DecodeParams reads either.
	Input *Payload
	// Output is what the handler returned where Result does not hold it exactly, else nil; also one that [Client.Wait] has
	// fetched since it is an artifact.
	Output *Payload
	// ConcurrencyKeys to OnTargetFailure are those of [NewTask]. A policy is "" unless it was set.
	ConcurrencyKeys []string
	After           []string
	Inputs          map[string]string
	AfterPolicy     AfterPolicy
	UniqueKey       string
	UniqueWhile     UniqueWhile
	OnTargetFailure OnTargetFailure
	// OnParentEnd is what becomes of the task when its parent ends, "" unless it was set.
	OnParentEnd OnParentEnd
	// Notice tells why nothing can run the task at present, such as that no live host offers the action, once that has
	// been so for a while; else it is "".
	Notice string
	// Reason tells why somebody cancelled, paused or resolved the task, as the last one who did said.
	Reason string
	// Artifacts are its values of any size, of all runs, in the order in which they were put.
	Artifacts []Artifact
	// Steps counts the steps that it has recorded, in all runs; [Client.Steps] returns them.
	Steps int
	// Park is what it waits for; nil unless its state is [StateParked].
	Park *Park
}

// DecodeParams stores the params, or the input in their place, in what v points to, as encoding/json does. The error is
// that of encoding/json, or tells that the input is in the encoding of a codec.
func (t *Task) DecodeParams(v any) error {
	if t.Input != nil {
		return t.Input.Decode(v)
	}
	return decode(t.Params, v)
}

// DecodeResult stores the result, or the output in its place, in what v points to, as encoding/json does. The error is
// that of encoding/json, or tells that the output is in the encoding of a codec.
func (t *Task) DecodeResult(v any) error {
	if t.Output != nil {
		return t.Output.Decode(v)
	}
	return decode(t.Result, v)
}

// RetryPolicy tells whether and when a failed attempt is repeated. A zero field has the default of the server.
type RetryPolicy struct {
	// MaxAttempts is the most attempts, the first included. Default: 1.
	MaxAttempts uint32
	// FirstDelay is the time before the second attempt, rounded up to milliseconds. Default: 1 s.
	FirstDelay time.Duration
	// Multiplier is the factor from one delay to the next, at least 1. Default: 2.
	Multiplier float64
	// MaxDelay is the longest delay, rounded up to milliseconds. Default: 60 s.
	MaxDelay time.Duration
	// NonRetryableCodes are the codes of failures that are final. Default: none.
	NonRetryableCodes []string
}

// Attempt is one execution of a task within a run.
type Attempt struct {
	// Number is the position of the attempt in the run, from 1.
	Number int
	// HostID is the host that ran it.
	HostID string
	// StartedAt is when the attempt started. It is zero if the host was lost before it reported the start.
	StartedAt time.Time
	// EndedAt is zero while the attempt runs.
	EndedAt time.Time
	// Error tells why the attempt failed; "" if it runs or did not fail.
	Error string
	// Code is the code of the failure, "" if it has none.
	Code string
}

// Progress is the last report of a host on how far a task is.
type Progress struct {
	// Fraction is 0 to 1.
	Fraction float64
	// Message is a line of text, "" for none.
	Message string
	// Details is whatever the handler reported, nil for nothing.
	Details map[string]any
	// ReportedAt is when the server got the report.
	ReportedAt time.Time
}

// NewTask is a task to submit. Action is required. A zero field has its default, which is none unless its comment names
// one.
type NewTask struct {
	// Action is what to do. Hosts have a handler for each action.
	Action string
	// AgentID is who submits the task. Default: that of [WithAgentID]. A task of a batch has the agent of the batch.
	AgentID string
	// Deprecated: use AgentID.
	Agent string
	// TabID is the browser tab of a tab action.
	TabID string
	// Selector is the element of a tab action, as a selector such as "#btn".
	Selector string
	// Ref is the element of a tab action.
	Ref string
	// Params is anything that encoding/json encodes as an object. Integers beyond 2^53 are refused, since not every reader
	// of the API could tell them apart: see Input.
	Params any
	// Input is anything that encoding/json encodes, in place of Params. It arrives exactly, with all digits of its
	// integers: as params where these hold it, else beside them, for DecodeParams in Go and for the typed actions of other
	// languages. A [Payload] is sent as it is.
	Input any
	// Priority orders the tasks of one agent: the lower number is claimed first. Default: 0.
	Priority int32
	// Deadline is when the task fails unless it has ended. Default: 60 s, unless the server is configured otherwise,
	// after the task is due, released and no longer waits for its target.
	Deadline time.Time
	// RunTimeout is the longest time that one attempt may take from its start, rounded up to milliseconds. A longer one
	// ends as a retryable failure with the code timed_out. Default: no limit but the deadline.
	RunTimeout time.Duration
	// ParentID is the task whose work submits this one. Default: the task whose handler was given the context of the call.
	ParentID string
	// OnParentEnd is what becomes of the task when its parent ends; with [ParentEndCancels] that must not have ended.
	// Default: [ParentEndKeeps].
	OnParentEnd OnParentEnd
	// CallbackURL gets a POST when the task ends, by http or https. A task of a batch has the callback URL of the
	// batch.
	CallbackURL string
	// Project is what the task belongs to. A host with a project takes only the tasks of that project.
	Project string
	// Requires are the capabilities that a host must have, all of them.
	Requires []string
	// Labels are shown with the task. The server does not interpret them.
	Labels map[string]string
	// Target names a queue of tasks that run one at a time, oldest first.
	Target string
	// Hold keeps the task pending until it is resumed.
	Hold bool
	// NotBefore keeps the task pending until then. Default: it is due at once.
	NotBefore time.Time
	// TokenLimit is the most tokens of a language model that the task may use over all its attempts and runs. Default:
	// no limit.
	TokenLimit uint32
	// RetryPolicy tells whether and when a failed attempt is repeated. Default: one attempt.
	RetryPolicy *RetryPolicy
	// IdempotencyKey makes the submission safe to repeat: with the same key of the same agent it returns the first
	// task, as long as that is retained. Default: a new key.
	IdempotencyKey string
	// Traceparent is the W3C trace context of the submitter.
	Traceparent string
	// ConcurrencyKeys are keys that the task shares with others, at most 4, such as "site:example.org". A limit of the
	// LimitService bounds how many tasks of a key are in flight, or begin a second. Default: none.
	ConcurrencyKeys []string
	// After are the ids of tasks that must have ended before this one is due, at most 32. Default: none.
	After []string
	// AfterIndexes are tasks of the same batch that must have ended before, by their place in it from 0; each must stand
	// before this one. They are for batches alone. Default: none.
	AfterIndexes []uint32
	// Inputs are the ids of tasks whose results are handed on to this one, by a name for each: letters, digits, "-", "_" and
	// ".", at most 128 characters, not a "." first. The task comes after them as after those of After, with which they are
	// at most 32. Its handler has them as [RunningTask.Inputs]. Default: none.
	Inputs map[string]string
	// InputIndexes are the same of tasks of the same batch, by their place in it from 0; each must stand before this one.
	// They are for batches alone. Default: none.
	InputIndexes map[string]uint32
	// AfterPolicy is what the task asks of those that it comes after. Default: [AfterSuccess].
	AfterPolicy AfterPolicy
	// UniqueKey keeps the agent from having two tasks for the same thing at once: while another task has it, OnConflict
	// says what happens. Default: none.
	UniqueKey string
	// UniqueWhile is for how long this task has its key. Default: [UniqueWhileLive].
	UniqueWhile UniqueWhile
	// OnConflict is what happens when the key is taken. Default: [ConflictExisting].
	OnConflict OnConflict
	// OnTargetFailure is what becomes of the target if the task fails after its start. Default: what the settings say of
	// the target, else [TargetBlocks].
	OnTargetFailure OnTargetFailure
}

// message returns the request that submits the task. What the task leaves open comes from the client and the context.
func (t NewTask) message(ctx context.Context, agentID string) (*taskyardv1.SubmitTaskRequest, error) {
	params, err := structOf("params", t.Params)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	var input *taskyardv1.Payload
	if t.Input != nil {
		if t.Params != nil {
			return nil, badRequest("input: params are given too")
		}
		if params, input, err = encodeInput(t.Input); err != nil {
			return nil, badRequest("input: " + err.Error())
		}
	}
	if t.RunTimeout < 0 {
		return nil, badRequest("run_timeout: must not be negative")
	}
	if parent := CurrentTask(ctx); parent != nil && t.ParentID == "" {
		t.ParentID = parent.ID
	}
	if t.IdempotencyKey == "" {
		t.IdempotencyKey = newKey()
	}
	request := &taskyardv1.SubmitTaskRequest{
		AgentId: cmp.Or(t.AgentID, t.Agent, agentID), Action: t.Action, TabId: optional(t.TabID), Ref: optional(t.Ref),
		Selector: optional(t.Selector),
		Params:   params, Input: input, RunTimeoutMs: optional(toMillis(t.RunTimeout)), ParentId: optional(t.ParentID),
		Priority: optional(t.Priority), Deadline: timestampOf(t.Deadline), CallbackUrl: optional(t.CallbackURL),
		Project: optional(t.Project), Requires: t.Requires, Labels: t.Labels, Target: optional(t.Target),
		Hold: optional(t.Hold), NotBefore: timestampOf(t.NotBefore), TokenLimit: optional(t.TokenLimit),
		RetryPolicy: t.RetryPolicy.message(), IdempotencyKey: optional(t.IdempotencyKey),
		Traceparent: optional(t.Traceparent),
	}
	return request, t.addQueueing(request)
}

// singleMessage is message for a task that is not one of a batch.
func (t NewTask) singleMessage(ctx context.Context, agentID string) (*taskyardv1.SubmitTaskRequest, error) {
	if len(t.AfterIndexes) > 0 {
		return nil, badRequest("after_indexes: is for the tasks of a batch")
	}
	if len(t.InputIndexes) > 0 {
		return nil, badRequest("input_indexes: is for the tasks of a batch")
	}
	return t.message(ctx, agentID)
}

func (t NewTask) batchMessage(ctx context.Context) (*taskyardv1.BatchTask, error) {
	if t.AgentID != "" || t.Agent != "" || t.CallbackURL != "" {
		return nil, badRequest("a task of a batch has the agent and the callback of the batch")
	}
	m, err := t.message(ctx, "")
	if err != nil {
		return nil, err
	}
	return &taskyardv1.BatchTask{
		Action: m.Action, TabId: m.TabId, Ref: m.Ref, Selector: m.Selector, Params: m.Params, Priority: m.Priority, Deadline: m.Deadline,
		Project: m.Project, Requires: m.Requires, Labels: m.Labels, Target: m.Target, Hold: m.Hold,
		NotBefore: m.NotBefore, TokenLimit: m.TokenLimit, RetryPolicy: m.RetryPolicy,
		IdempotencyKey: m.IdempotencyKey, Traceparent: m.Traceparent, Input: m.Input, RunTimeoutMs: m.RunTimeoutMs,
		ParentId: m.ParentId, ConcurrencyKeys: m.ConcurrencyKeys, After: m.After, AfterPolicy: m.AfterPolicy,
		AfterIndexes: t.AfterIndexes, Inputs: m.Inputs, InputIndexes: t.InputIndexes, UniqueKey: m.UniqueKey, UniqueWhile: m.UniqueWhile, OnConflict: m.OnConflict,
		OnTargetFailure: m.OnTargetFailure, OnParentEnd: m.OnParentEnd,
	}, nil
}

func (p *RetryPolicy) message() *taskyardv1.RetryPolicy {
	if p == nil {
		return nil
	}
	return &taskyardv1.RetryPolicy{
		MaxAttempts:       optional(p.MaxAttempts),
		FirstDelayMs:      optional(toMillis(p.FirstDelay)),
		Multiplier:        optional(p.Multiplier),
		MaxDelayMs:        optional(toMillis(p.MaxDelay)),
		NonRetryableCodes: p.NonRetryableCodes,
	}
}

func taskOf(m *taskyardv1.Task) *Task {
	task := &Task{
		ID: m.GetTaskId(), AgentID: m.GetAgentId(), Agent: m.GetAgentId(), Action: m.GetAction(), TabID: m.GetTabId(),
		Ref: m.GetRef(), Selector: m.GetSelector(), Params: m.GetParams().AsMap(), Priority: m.GetPriority(), State: stateOf(m.GetState()),
		Deadline: timeOf(m.GetDeadline()), CreatedAt: timeOf(m.GetCreatedAt()), StartedAt: timeOf(m.GetStartedAt()),
		CompletedAt: timeOf(m.GetCompletedAt()), Latency: fromMillis(m.GetLatencyMs()), Result: anyOf(m.GetResult()),
		Error: m.GetError(), Position: int(m.GetPosition()), CallbackURL: m.GetCallbackUrl(), BatchID: m.GetBatchId(),
		Project: m.GetProject(), Requires: m.GetRequires(), Labels: m.GetLabels(), Target: m.GetTarget(),
		Hold: m.GetHold(), NotBefore: timeOf(m.GetNotBefore()), TokenLimit: m.GetTokenLimit(),
		TokensUsed: m.GetTokensUsed(), Run: int(max(1, m.GetRun())), IdempotencyKey: m.GetIdempotencyKey(),
		HostID: m.GetHostId(), Traceparent: m.GetTraceparent(), RunTimeout: fromMillis(m.GetRunTimeoutMs()),
		ParentID: m.GetParentId(), ChildName: m.GetChildName(), Input: payloadOf(m.GetInput()), Output: payloadOf(m.GetOutput()), Code: m.GetCode(),
		Traceback: m.GetTraceback(), Steps: int(m.GetSteps()), Park: parkOf(m.GetPark()),
	}
	task.showQueueing(m)
	if p := m.GetRetryPolicy(); p != nil {
		task.RetryPolicy = &RetryPolicy{
			MaxAttempts: p.GetMaxAttempts(), FirstDelay: fromMillis(p.GetFirstDelayMs()),
			Multiplier: p.GetMultiplier(), MaxDelay: fromMillis(p.GetMaxDelayMs()),
			NonRetryableCodes: p.GetNonRetryableCodes(),
		}
	}
	for _, a := range m.GetAttempts() {
		task.Attempts = append(task.Attempts, Attempt{
			Number: int(a.GetNumber()), HostID: a.GetHostId(), StartedAt: timeOf(a.GetStartedAt()),
			EndedAt: timeOf(a.GetEndedAt()), Error: a.GetError(), Code: a.GetCode(),
		})
	}
	for _, a := range m.GetArtifacts() {
		task.Artifacts = append(task.Artifacts, *artifactOf(a))
	}
	if p := m.GetProgress(); p != nil {
		task.Progress = &Progress{
			Fraction: p.GetFraction(), Message: p.GetMessage(), Details: p.GetDetails().AsMap(),
			ReportedAt: timeOf(p.GetReportedAt()),
		}
	}
	return task
}
