// Tasks as plain Go: what is submitted, and what the server shows.

package taskyard

import (
	"strings"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// State tells where a task stands.
type State string

// The states; the last four are terminal.
const (
	StatePending   State = "pending"
	StateQueued    State = "queued"
	StateAssigned  State = "assigned"
	StateRunning   State = "running"
	StatePaused    State = "paused"
	StateDone      State = "done"
	StateFailed    State = "failed"
	StateCancelled State = "cancelled"
	StateRejected  State = "rejected"
)

// Ended tells whether the state is terminal.
func (s State) Ended() bool {
	return s == StateDone || s == StateFailed || s == StateCancelled || s == StateRejected
}

// stateOf answers the lower-case word, which stands first in the proto.
func stateOf(state taskyardv1.Task_State) State { return State(word(state)) }

func statesOf(states []State) *string {
	words := make([]string, len(states))
	for i, state := range states {
		words[i] = string(state)
	}
	return optional(strings.Join(words, ","))
}

// Task is a task as the server showed it. What the server left out is zero; the comments of the proto tell what each
// field means.
type Task struct {
	ID             string
	Agent          string
	Action         string
	TabID          string
	Ref            string
	Params         map[string]any
	Priority       int32
	State          State
	Deadline       time.Time
	CreatedAt      time.Time
	StartedAt      time.Time
	CompletedAt    time.Time
	Latency        time.Duration
	Result         any
	Error          string
	Position       int
	CallbackURL    string
	BatchID        string
	Project        string
	Requires       []string
	Labels         map[string]string
	Target         string
	Hold           bool
	NotBefore      time.Time
	TokenLimit     uint32
	TokensUsed     uint32
	RetryPolicy    *RetryPolicy
	Attempts       []Attempt
	Run            int // 1 in the first run.
	IdempotencyKey string
	HostID         string
	Progress       *Progress // nil until the host reported some.
	Traceparent    string
}

// DecodeParams puts the params into what v points to, as encoding/json does.
func (t *Task) DecodeParams(v any) error { return decode(t.Params, v) }

// DecodeResult puts the result into what v points to, as encoding/json does.
func (t *Task) DecodeResult(v any) error { return decode(t.Result, v) }

// RetryPolicy tells how a failed attempt is repeated. What is zero takes the server's default.
type RetryPolicy struct {
	MaxAttempts       uint32
	FirstDelay        time.Duration
	Multiplier        float64
	MaxDelay          time.Duration
	NonRetryableCodes []string
}

// Attempt is one execution of a task within a run.
type Attempt struct {
	Number    int
	HostID    string
	StartedAt time.Time
	EndedAt   time.Time
	Error     string
	Code      string
}

// Progress is a host's last word on how far a task is. Fraction is 0 to 1.
type Progress struct {
	Fraction   float64
	Message    string
	Details    map[string]any
	ReportedAt time.Time
}

// NewTask is a task to submit. Action is required; what is zero takes the server's default.
type NewTask struct {
	Action string
	// Agent is by default that of WithAgent. A task of a batch has the agent of the batch.
	Agent string
	TabID string
	Ref   string
	// Params is anything that encoding/json makes an object of.
	Params   any
	Priority int32
	Deadline time.Time
	// CallbackURL is not for a task of a batch, which has that of the batch.
	CallbackURL string
	Project     string
	Requires    []string
	Labels      map[string]string
	Target      string
	Hold        bool
	NotBefore   time.Time
	TokenLimit  uint32
	RetryPolicy *RetryPolicy
	// IdempotencyKey is by default a new one, so that the client may repeat the call.
	IdempotencyKey string
	Traceparent    string
}

func (t NewTask) message(agent string) (*taskyardv1.SubmitTaskRequest, error) {
	params, err := structOf(t.Params)
	if err != nil {
		return nil, badRequest("params: " + err.Error())
	}
	if t.Agent != "" {
		agent = t.Agent
	}
	if t.IdempotencyKey == "" {
		t.IdempotencyKey = newKey()
	}
	return &taskyardv1.SubmitTaskRequest{
		AgentId: agent, Action: t.Action, TabId: optional(t.TabID), Ref: optional(t.Ref), Params: params,
		Priority: optional(t.Priority), Deadline: stampOf(t.Deadline), CallbackUrl: optional(t.CallbackURL),
		Project: optional(t.Project), Requires: t.Requires, Labels: t.Labels, Target: optional(t.Target),
		Hold: optional(t.Hold), NotBefore: stampOf(t.NotBefore), TokenLimit: optional(t.TokenLimit),
		RetryPolicy: t.RetryPolicy.message(), IdempotencyKey: optional(t.IdempotencyKey),
		Traceparent: optional(t.Traceparent),
	}, nil
}

func (t NewTask) batchMessage() (*taskyardv1.BatchTask, error) {
	if t.Agent != "" || t.CallbackURL != "" {
		return nil, badRequest("a task of a batch has the agent and the callback of the batch")
	}
	m, err := t.message("")
	if err != nil {
		return nil, err
	}
	return &taskyardv1.BatchTask{
		Action: m.Action, TabId: m.TabId, Ref: m.Ref, Params: m.Params, Priority: m.Priority, Deadline: m.Deadline,
		Project: m.Project, Requires: m.Requires, Labels: m.Labels, Target: m.Target, Hold: m.Hold,
		NotBefore: m.NotBefore, TokenLimit: m.TokenLimit, RetryPolicy: m.RetryPolicy,
		IdempotencyKey: m.IdempotencyKey, Traceparent: m.Traceparent,
	}, nil
}

func (p *RetryPolicy) message() *taskyardv1.RetryPolicy {
	if p == nil {
		return nil
	}
	return &taskyardv1.RetryPolicy{
		MaxAttempts:       optional(p.MaxAttempts),
		FirstDelayMs:      optional(millis(p.FirstDelay)),
		Multiplier:        optional(p.Multiplier),
		MaxDelayMs:        optional(millis(p.MaxDelay)),
		NonRetryableCodes: p.NonRetryableCodes,
	}
}

func taskOf(m *taskyardv1.Task) *Task {
	task := &Task{
		ID: m.GetTaskId(), Agent: m.GetAgentId(), Action: m.GetAction(), TabID: m.GetTabId(), Ref: m.GetRef(),
		Params: m.GetParams().AsMap(), Priority: m.GetPriority(), State: stateOf(m.GetState()),
		Deadline: timeOf(m.GetDeadline()), CreatedAt: timeOf(m.GetCreatedAt()), StartedAt: timeOf(m.GetStartedAt()),
		CompletedAt: timeOf(m.GetCompletedAt()), Latency: milliseconds(m.GetLatencyMs()), Result: plain(m.GetResult()),
		Error: m.GetError(), Position: int(m.GetPosition()), CallbackURL: m.GetCallbackUrl(), BatchID: m.GetBatchId(),
		Project: m.GetProject(), Requires: m.GetRequires(), Labels: m.GetLabels(), Target: m.GetTarget(),
		Hold: m.GetHold(), NotBefore: timeOf(m.GetNotBefore()), TokenLimit: m.GetTokenLimit(),
		TokensUsed: m.GetTokensUsed(), Run: int(max(1, m.GetRun())), IdempotencyKey: m.GetIdempotencyKey(),
		HostID: m.GetHostId(), Traceparent: m.GetTraceparent(),
	}
	if p := m.GetRetryPolicy(); p != nil {
		task.RetryPolicy = &RetryPolicy{
			MaxAttempts: p.GetMaxAttempts(), FirstDelay: milliseconds(p.GetFirstDelayMs()),
			Multiplier: p.GetMultiplier(), MaxDelay: milliseconds(p.GetMaxDelayMs()),
			NonRetryableCodes: p.GetNonRetryableCodes(),
		}
	}
	for _, a := range m.GetAttempts() {
		task.Attempts = append(task.Attempts, Attempt{
			Number: int(a.GetNumber()), HostID: a.GetHostId(), StartedAt: timeOf(a.GetStartedAt()),
			EndedAt: timeOf(a.GetEndedAt()), Error: a.GetError(), Code: a.GetCode(),
		})
	}
	if p := m.GetProgress(); p != nil {
		task.Progress = &Progress{
			Fraction: p.GetFraction(), Message: p.GetMessage(), Details: p.GetDetails().AsMap(),
			ReportedAt: timeOf(p.GetReportedAt()),
		}
	}
	return task
}
