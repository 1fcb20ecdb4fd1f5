// The handler that has children by name.

package main

import (
	"context"
	"errors"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

func children(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	params := struct {
		Names      []string
		Action     string
		Fail, Join bool
	}{Action: "echo"}
	if err := task.DecodeParams(&params); err != nil {
		return nil, err
	}
	found, ids := []*taskyard.Child{}, []string{}
	for place, name := range params.Names {
		wanted := taskyard.NewTask{Action: params.Action, Params: map[string]any{"n": place}}
		child, err := task.Child(ctx, name, wanted)
		if err != nil {
			return nil, err
		}
		found, ids = append(found, child), append(ids, child.ID)
	}
	first, err := taskyard.Step(ctx, task, "ids", func(context.Context) ([]string, error) { return ids, nil })
	if err != nil {
		return nil, err
	}
	if params.Fail && task.Attempt == 1 {
		return nil, errors.New("again")
	}
	if params.Join {
		if err := task.Join(ctx, ids, taskyard.JoinAs("all")); err != nil {
			return nil, err
		}
	}
	results, differ := []any{}, map[string]bool{}
	for _, child := range found {
		var result any
		err := child.Result(ctx, &result)
		if failed, ok := errors.AsType[*taskyard.ChildFailed](err); ok {
			result = map[string]any{"child": failed.Name, "state": failed.State}
		} else if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	for _, id := range append(first, ids...) {
		differ[id] = true
	}
	return map[string]any{"results": results, "ids_differ": len(differ)}, nil
}
