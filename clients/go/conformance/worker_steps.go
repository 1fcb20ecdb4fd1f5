// The operations of a worker without a host loop, with the generated stubs.

package main

import (
	"context"

	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func (p *program) leases() taskyardv1.LeaseServiceClient {
	return taskyardv1.NewLeaseServiceClient(p.client.Conn())
}

func register(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := taskyardv1.NewRuntimeHostServiceClient(p.client.Conn()).RegisterHost(
		ctx, &taskyardv1.RegisterHostRequest{HostId: with.Host})
	return outcome{"host": answer.GetHost().GetId()}, err
}

func claim(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	waitMs := uint32(with.Ms)
	answer, err := p.leases().ClaimTask(ctx, &taskyardv1.ClaimTaskRequest{
		HostId: with.Host, LeaseSecs: with.LeaseSecs, WaitMs: &waitMs, ClaimId: with.ClaimID,
	})
	if err != nil {
		return nil, err
	}
	if !answer.GetClaimed() {
		return outcome{"claimed": false}, nil
	}
	found := outcome{"claimed": true, "task": answer.TaskId, "token": answer.FencingToken, "input": nil}
	if input := answer.GetTask().GetInput(); input != nil {
		found["input"] = string(input.GetData())
	}
	return found, nil
}

func claimMany(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	waitMs, count := uint32(with.Ms), uint32(with.Count)
	answer, err := p.leases().ClaimTasks(ctx, &taskyardv1.ClaimTasksRequest{
		HostId: with.Host, MaxTasks: count, LeaseSecs: with.LeaseSecs, WaitMs: &waitMs, ClaimId: with.ClaimID,
	})
	if err != nil {
		return nil, err
	}
	ids, tokens := []string{}, []float64{}
	for _, each := range answer.GetAssignments() {
		ids = append(ids, each.GetLease().GetTaskId())
		tokens = append(tokens, each.GetLease().GetFencingToken())
	}
	return outcome{"tasks": ids, "tokens": tokens}, nil
}

func start(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := p.leases().StartTask(ctx, &taskyardv1.StartTaskRequest{
		HostId: with.Host, TaskId: with.Task, FencingToken: float64(with.Token),
	})
	return outcome{"state": stateName(answer.GetState())}, err
}

func complete(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	request := &taskyardv1.CompleteTaskRequest{
		HostId: with.Host, TaskId: with.Task, FencingToken: float64(with.Token), TokensUsed: with.Tokens,
	}
	if with.Output != nil {
		request.Output = &taskyardv1.Payload{Data: []byte(*with.Output), Encoding: with.OutputEncoding}
	} else {
		result, err := structpb.NewValue(with.Result)
		if err != nil {
			return nil, err
		}
		request.Result = result
	}
	answer, err := p.leases().CompleteTask(ctx, request)
	return outcome{"state": stateName(answer.GetState())}, err
}

func failByCall(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := p.leases().FailTask(ctx, &taskyardv1.FailTaskRequest{
		HostId: with.Host, TaskId: with.Task, FencingToken: float64(with.Token), Error: with.Error, Code: with.Code,
		Retryable: with.Retryable, RetryAfterMs: with.RetryAfterMs, Traceback: with.Traceback,
	})
	return outcome{"state": stateName(answer.GetState())}, err
}

func deregister(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := taskyardv1.NewRuntimeHostServiceClient(p.client.Conn()).DeregisterHost(
		ctx, &taskyardv1.DeregisterHostRequest{HostId: with.Host})
	return outcome{"deregistered": answer.GetDeregistered()}, err
}

func drain(ctx context.Context, p *program, _ string, with arguments) (outcome, error) {
	answer, err := taskyardv1.NewRuntimeHostServiceClient(p.client.Conn()).DrainHost(
		ctx, &taskyardv1.DrainHostRequest{HostId: with.Host, GracePeriodSecs: with.GraceSecs})
	return outcome{"draining": answer.GetHost().GetDraining()}, err
}

// stateName returns the name of a state in lower case, which is the first in the proto.
func stateName(state taskyardv1.Task_State) string {
	return string(state.Descriptor().Values().ByNumber(state.Number()).Name())
}
