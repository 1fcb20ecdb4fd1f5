// The operations on the queue, by the generated stubs.

package main

import (
	"context"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func explain(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	tasks := taskyardv1.NewTaskServiceClient(p.client.Conn())
	answer, err := tasks.ExplainTask(ctx, &taskyardv1.ExplainTaskRequest{TaskId: with.Task})
	if err != nil {
		return nil, err
	}
	kinds, names := []string{}, []any{}
	for _, reason := range answer.GetReasons() {
		kinds, names = append(kinds, nameOf(reason.GetKind())), append(names, absent(reason.GetName()))
	}
	return outcome{"runnable": answer.GetRunnable(), "kinds": kinds, "names": names}, nil
}

func putLimit(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := taskyardv1.NewLimitServiceClient(p.client.Conn()).PutLimit(ctx, &taskyardv1.PutLimitRequest{
		Pattern: with.Pattern, MaxInflight: with.MaxInflight,
	})
	if err != nil {
		return nil, err
	}
	limit := answer.GetLimit()
	return outcome{
		"pattern": limit.GetPattern(), "max_inflight": limit.MaxInflight, "per_second": limit.PerSecond,
	}, nil
}

func limits(ctx context.Context, p *program, _ string, _ arguments) (outcome, error) {
	answer, err := taskyardv1.NewLimitServiceClient(p.client.Conn()).ListLimits(ctx, &taskyardv1.ListLimitsRequest{})
	if err != nil {
		return nil, err
	}
	limits, keys := map[string]*uint32{}, map[string][]uint32{}
	for _, limit := range answer.GetLimits() {
		limits[limit.GetPattern()] = limit.MaxInflight
	}
	for _, key := range answer.GetKeys() {
		keys[key.GetKey()] = []uint32{key.GetInflight(), key.GetWaiting()}
	}
	return outcome{"limits": limits, "keys": keys}, nil
}

func deleteLimit(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	limits := taskyardv1.NewLimitServiceClient(p.client.Conn())
	_, err := limits.DeleteLimit(ctx, &taskyardv1.DeleteLimitRequest{Pattern: with.Pattern})
	return outcome{}, err
}

func putWeight(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	agents := taskyardv1.NewAgentServiceClient(p.client.Conn())
	answer, err := agents.PutAgentWeight(ctx, &taskyardv1.PutAgentWeightRequest{
		Pattern: with.Pattern, Weight: with.Weight,
	})
	if err != nil {
		return nil, err
	}
	return outcome{"pattern": answer.GetWeight().GetPattern(), "weight": answer.GetWeight().GetWeight()}, nil
}

func weights(ctx context.Context, p *program, _ string, _ arguments) (outcome, error) {
	agents := taskyardv1.NewAgentServiceClient(p.client.Conn())
	answer, err := agents.ListAgentWeights(ctx, &taskyardv1.ListAgentWeightsRequest{})
	if err != nil {
		return nil, err
	}
	weights := map[string]uint32{}
	for _, each := range answer.GetWeights() {
		weights[each.GetPattern()] = each.GetWeight()
	}
	return outcome{"weights": weights}, nil
}

func deleteWeight(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	agents := taskyardv1.NewAgentServiceClient(p.client.Conn())
	_, err := agents.DeleteAgentWeight(ctx, &taskyardv1.DeleteAgentWeightRequest{Pattern: with.Pattern})
	return outcome{}, err
}

func cancelTasks(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	operations := taskyardv1.NewOperationServiceClient(p.client.Conn())
	filter := &taskyardv1.TaskFilter{}
	if with.Selector != "" {
		filter.Labels = &with.Selector
	}
	begun, err := operations.CancelTasks(ctx, &taskyardv1.CancelTasksRequest{OperationId: with.Operation, Filter: filter})
	if err != nil {
		return nil, err
	}
	operation := begun.GetOperation()
	for until := time.Now().Add(milliseconds(with.Ms)); operation.GetEndedAt() == nil && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
		answer, err := operations.GetOperation(ctx, &taskyardv1.GetOperationRequest{OperationId: with.Operation})
		if err != nil {
			return nil, err
		}
		operation = answer.GetOperation()
	}
	return outcome{
		"kind": nameOf(operation.GetKind()), "status": nameOf(operation.GetStatus()), "matched": operation.GetMatched(),
		"done": operation.GetDone(), "skipped": operation.GetSkipped(), "failed": operation.GetFailed(),
	}, nil
}

// nameOf returns the first name of an enum value, as JSON shows it.
func nameOf(value protoreflect.Enum) string {
	return string(value.Descriptor().Values().ByNumber(value.Number()).Name())
}
