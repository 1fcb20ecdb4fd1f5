// The tasks of a load.

package main

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// Tasks builds tasks of about 300 bytes, each different. It may be used by many goroutines at once.
type Tasks struct {
	agents int
	action string
	keys   []string
	next   atomic.Int64
}

func newTasks(o *Options) *Tasks {
	tasks := &Tasks{agents: o.Agents, action: o.Action}
	if o.Shared != "" {
		tasks.keys = []string{o.Shared}
	}
	return tasks
}

// One returns a task of the next agent.
func (t *Tasks) One() *taskyardv1.SubmitTaskRequest {
	number := int(t.next.Add(1))
	return &taskyardv1.SubmitTaskRequest{
		AgentId:         agentName(number % t.agents),
		Action:          t.action,
		Params:          params(number),
		Labels:          labels(number),
		ConcurrencyKeys: t.keys,
	}
}

// Many returns a number of tasks, each of the next agent.
func (t *Tasks) Many(count int) *taskyardv1.SubmitTasksRequest {
	tasks := make([]*taskyardv1.SubmitTaskRequest, count)
	for i := range tasks {
		tasks[i] = t.One()
	}
	return &taskyardv1.SubmitTasksRequest{Tasks: tasks}
}

// Batch returns a batch of the next agent.
func (t *Tasks) Batch(count int) *taskyardv1.SubmitBatchRequest {
	first := int(t.next.Add(int64(count)))
	tasks := make([]*taskyardv1.BatchTask, count)
	for i := range tasks {
		tasks[i] = &taskyardv1.BatchTask{
			Action:          t.action,
			Params:          params(first - i),
			Labels:          labels(first - i),
			ConcurrencyKeys: t.keys,
		}
	}
	return &taskyardv1.SubmitBatchRequest{AgentId: agentName(first / count % t.agents), Tasks: tasks}
}

func agentName(number int) string {
	return fmt.Sprintf("agent-%d", number)
}

func labels(number int) map[string]string {
	return map[string]string{"run": fmt.Sprintf("run-%d", number/100)}
}

// params returns the params of a click in a browser.
func params(number int) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"url":      structpb.NewStringValue(fmt.Sprintf("https://shop.example.com/catalogue/chairs/%d?from=search", number)),
		"selector": structpb.NewStringValue(fmt.Sprintf("main > section.results article#item-%d button.buy", number)),
		"text":     structpb.NewStringValue(fmt.Sprintf("Add chair %d to the cart and then wait for the notice", number)),
		"x":        structpb.NewNumberValue(float64(number % 1280)),
		"y":        structpb.NewNumberValue(float64(number % 720)),
		"double":   structpb.NewBoolValue(number%7 == 0),
	}}
}
