// What parked tasks wait for, as callers see it, and the questions that they ask (docs/rules.md, Parked tasks,
// Questions).

package taskyard

import (
	"context"
	"iter"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// Park is what a parked task waits for.
type Park struct {
	// Since is when it was parked.
	Since time.Time
	// Waits are the things that it waits for, any of which lets it go on.
	Waits []Wait
}

// Wait is one thing that a parked task waits for.
type Wait struct {
	// Kind is [StepAnswer], [StepTime], [StepEnds] or [StepEvent].
	Kind StepKind
	// Name is what no other of its kind in the task is called: the id of a question.
	Name string
	// Until is when it is over, zero where that has no end.
	Until time.Time
	// Question is what is asked; nil for other kinds.
	Question *Question
	// TaskIDs are the tasks whose ends are waited for.
	TaskIDs []string
	// EventName is the event that is waited for, "" for other kinds.
	EventName string
}

// Question is what a task asks of people or agents.
type Question struct {
	// Text is for people, "" where there is a URL alone.
	Text string
	// Schema is the JSON Schema of the answer, nil for any JSON.
	Schema map[string]any
	// Choices are the answers that there are, nil for any.
	Choices []any
	// Default is the answer that counts if nobody gives one in time. HasDefault tells whether there is one.
	Default    any
	HasDefault bool
	// URL is an address to visit for the answer, "" for none.
	URL string
}

// OpenQuestion is a question that nobody has answered yet.
type OpenQuestion struct {
	// TaskID is the task that asks; AgentID and Action are its own.
	TaskID, AgentID, Action string
	// QuestionID is the id of the question.
	QuestionID string
	// Question is nil for a viewer that is shown no payloads.
	Question *Question
	// Since is when the task was parked last.
	Since time.Time
	// Until is when the time for an answer is over, zero where it has no end.
	Until time.Time
}

// QuestionOptions selects the questions of [Client.Questions]. A zero field does not filter.
type QuestionOptions struct {
	// AgentID selects the questions of the tasks of one agent.
	AgentID string
	// PageSize is for how many tasks one call asks. Default and maximum: 1,000.
	PageSize uint32
}

// Questions iterates over the questions that are open, in the order in which their tasks were submitted. It calls the
// server for one page after the other. An error is the last item.
func (c *Client) Questions(ctx context.Context, options QuestionOptions) iter.Seq2[*OpenQuestion, error] {
	return func(yield func(*OpenQuestion, error) bool) {
		parks := taskyardv1.NewParkServiceClient(c.conn)
		request := &taskyardv1.ListQuestionsRequest{
			AgentId: optional(options.AgentID), PageSize: optional(options.PageSize),
		}
		for {
			page, err := parks.ListQuestions(ctx, request)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, each := range page.GetQuestions() {
				if !yield(openQuestionOf(each), nil) {
					return
				}
			}
			if page.GetNextPageToken() == "" {
				return
			}
			request.PageToken = page.NextPageToken
		}
	}
}

// Answer answers a question that a task has asked, and returns the state of the task: [StateQueued] where it was
// parked. The answer is anything that encoding/json encodes; nil is null. The first one wins, and the same again is
// the same.
//
// Codes: [CodeNotFound], [CodeBadRequest] for an answer that the question does not allow, [CodeConflict] if it has
// another answer, or its time is over, and [CodeTooLarge].
func (c *Client) Answer(ctx context.Context, taskID, questionID string, answer any) (State, error) {
	value, err := orNull("answer", answer)
	if err != nil {
		return "", badRequest(err.Error())
	}
	answered, err := taskyardv1.NewParkServiceClient(c.conn).AnswerQuestion(ctx, &taskyardv1.AnswerQuestionRequest{
		TaskId: taskID, QuestionId: questionID, Answer: value,
	})
	if err != nil {
		return "", err
	}
	return stateOf(answered.GetState()), nil
}

func parkOf(m *taskyardv1.Park) *Park {
	if m == nil {
		return nil
	}
	park := &Park{Since: timeOf(m.GetSince())}
	for _, each := range m.GetWaits() {
		park.Waits = append(park.Waits, Wait{
			Kind: StepKind(enumName(each.GetKind())), Name: each.GetName(), Until: timeOf(each.GetUntil()),
			Question: questionOf(each.GetQuestion()), TaskIDs: each.GetTaskIds(),
			EventName: each.GetEventName(),
		})
	}
	return park
}

func questionOf(m *taskyardv1.Question) *Question {
	if m == nil {
		return nil
	}
	found := &Question{
		Text: m.GetText(), Default: anyOf(m.GetDefault()), HasDefault: m.GetDefault() != nil, URL: m.GetUrl(),
	}
	if m.GetSchema() != nil {
		found.Schema = m.GetSchema().AsMap()
	}
	if m.GetChoices() != nil {
		found.Choices = m.GetChoices().AsSlice()
	}
	return found
}

func openQuestionOf(m *taskyardv1.OpenQuestion) *OpenQuestion {
	return &OpenQuestion{
		TaskID: m.GetTaskId(), AgentID: m.GetAgentId(), Action: m.GetAction(), QuestionID: m.GetQuestionId(),
		Question: questionOf(m.GetQuestion()), Since: timeOf(m.GetSince()), Until: timeOf(m.GetUntil()),
	}
}
