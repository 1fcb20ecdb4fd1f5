// A fake server, whose answers a test determines.

package taskyard

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// fakeServer answers calls as a test determines, and records them.
type fakeServer struct {
	taskyardv1.UnimplementedTaskServiceServer
	taskyardv1.UnimplementedBatchServiceServer
	taskyardv1.UnimplementedRuntimeHostServiceServer

	options []grpc.ServerOption

	mu       sync.Mutex
	headers  []metadata.MD // Of all unary calls.
	resumes  []*taskyardv1.ResumeTaskRequest
	cancels  []*taskyardv1.CancelTaskRequest
	waits    int
	submits  []*taskyardv1.SubmitTaskRequest
	watches  []*taskyardv1.WatchTasksRequest
	failures int               // How many of the next calls end as unavailable, or with the failure.
	failure  error             // Default: the server is down.
	refusal  *taskyardv1.Error // Why the task of each batch is refused, nil if it is accepted.

	// These answer the calls of their names; nil for an answer that fits most tests. The number counts the calls, from 1.
	submitTask func(number int) (*taskyardv1.SubmitTaskResponse, error)
	waitTask   func(number int) (*taskyardv1.WaitTaskResponse, error)
	cancelTask func() (*taskyardv1.CancelTaskResponse, error)

	// The functions below serve a stream. The number counts the streams of their kind, from 1.
	submitTasks   func(number int, stream submitTasksStream) error
	submitStreams int
	watchTasks    func(number int, stream watchStream) error
	connectHost   func(number int, host *fakeHostStream) error
	hostStreams   int
	leaving       []string // What hosts have done to leave, in order.
}

type (
	submitTasksStream = grpc.BidiStreamingServer[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse]
	watchStream       = grpc.ServerStreamingServer[taskyardv1.WatchTasksResponse]
)

// serve starts a fake server and returns a client of it.
func serve(t *testing.T, f *fakeServer, options ...Option) *Client {
	t.Helper()
	return connect(t, f.listen(t, "tcp", "127.0.0.1:0"), options...)
}

// listen starts a fake server, and returns where it listens.
func (f *fakeServer) listen(t *testing.T, network, at string) (address string) {
	t.Helper()
	checkForLeaks(t)
	server := grpc.NewServer(f.options...)
	taskyardv1.RegisterTaskServiceServer(server, f)
	taskyardv1.RegisterBatchServiceServer(server, f)
	taskyardv1.RegisterRuntimeHostServiceServer(server, f)
	listener := must(net.Listen(network, at))(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return listener.Addr().String()
}

func (f *fakeServer) noteLeaving(step string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = append(f.leaving, step)
}

func (f *fakeServer) record(ctx context.Context) error {
	headers, _ := metadata.FromIncomingContext(ctx)
	f.headers = append(f.headers, headers)
	if f.failures--; f.failures >= 0 && f.failure != nil {
		return f.failure
	} else if f.failures >= 0 {
		return status.Error(codes.Unavailable, "down")
	}
	return nil
}

func (f *fakeServer) SubmitTask(
	ctx context.Context, request *taskyardv1.SubmitTaskRequest,
) (*taskyardv1.SubmitTaskResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.submits = append(f.submits, request)
	if f.submitTask != nil {
		return f.submitTask(len(f.submits))
	}
	return &taskyardv1.SubmitTaskResponse{TaskId: proto.String("tsk_1")}, f.record(ctx)
}

func (f *fakeServer) SubmitTasks(stream submitTasksStream) error {
	f.mu.Lock()
	f.submitStreams++
	number := f.submitStreams
	f.mu.Unlock()
	return f.submitTasks(number, stream)
}

func (f *fakeServer) SubmitBatch(
	ctx context.Context, request *taskyardv1.SubmitBatchRequest,
) (*taskyardv1.SubmitBatchResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &taskyardv1.SubmitBatchResponse{
		BatchId: proto.String("bat_second"),
		Tasks: []*taskyardv1.BatchOutcome{{
			TaskId: proto.String("tsk_1"), State: taskyardv1.Task_queued.Enum(), Error: f.refusal,
		}},
	}, f.record(ctx)
}

// GetTask returns a cancelled task of the batch bat_first, as after calls whose answers were lost.
func (f *fakeServer) GetTask(ctx context.Context, request *taskyardv1.GetTaskRequest) (*taskyardv1.Task, error) {
	return &taskyardv1.Task{
		TaskId: &request.TaskId, State: taskyardv1.Task_cancelled.Enum(), BatchId: proto.String("bat_first"),
	}, nil
}

func (f *fakeServer) CancelTask(
	ctx context.Context, request *taskyardv1.CancelTaskRequest,
) (*taskyardv1.CancelTaskResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancels = append(f.cancels, request)
	if err := f.record(ctx); err != nil {
		return nil, err
	}
	if f.cancelTask != nil {
		return f.cancelTask()
	}
	return nil, status.Error(codes.FailedPrecondition, "it has ended")
}

func (f *fakeServer) ResumeTask(
	ctx context.Context, request *taskyardv1.ResumeTaskRequest,
) (*taskyardv1.ResumeTaskResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumes = append(f.resumes, request)
	return &taskyardv1.ResumeTaskResponse{}, f.record(ctx)
}

func (f *fakeServer) WaitTask(
	ctx context.Context, request *taskyardv1.WaitTaskRequest,
) (*taskyardv1.WaitTaskResponse, error) {
	f.mu.Lock()
	f.waits++
	number := f.waits
	f.mu.Unlock()
	if f.waitTask != nil {
		return f.waitTask(number)
	}
	select {
	case <-time.After(fromMillis(request.GetTimeoutMs())):
	case <-ctx.Done():
	}
	return &taskyardv1.WaitTaskResponse{Ended: proto.Bool(false)}, nil
}

func (f *fakeServer) WatchTasks(
	request *taskyardv1.WatchTasksRequest, stream watchStream,
) error {
	f.mu.Lock()
	f.watches = append(f.watches, request)
	number := len(f.watches)
	f.mu.Unlock()
	return f.watchTasks(number, stream)
}
