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

// fake is a server that says what a test has it say.
type fake struct {
	taskyardv1.UnimplementedTaskServiceServer
	taskyardv1.UnimplementedBatchServiceServer
	taskyardv1.UnimplementedRuntimeHostServiceServer

	options []grpc.ServerOption

	mu       sync.Mutex
	resumes  []*taskyardv1.ResumeTaskRequest
	submits  []*taskyardv1.SubmitTaskRequest
	headers  []metadata.MD
	watched  []*taskyardv1.WatchTasksRequest
	failures int // How many calls still end as unavailable.
	watch    func(number int, stream grpc.ServerStreamingServer[taskyardv1.WatchTasksResponse]) error
	refusal  *taskyardv1.Error // Why the task of each batch is refused, nil if it is accepted.
	streams  int               // How many streams of submissions were opened.
	shared   func(number int, stream submitTasksStream) error
	connects int // How many streams of hosts were opened.
	connect  func(number int, host *fakeHostStream) error
}

type submitTasksStream = grpc.BidiStreamingServer[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse]

func serve(t *testing.T, f *fake, options ...Option) *Client {
	t.Helper()
	lookForLeaks(t)
	server := grpc.NewServer(f.options...)
	taskyardv1.RegisterTaskServiceServer(server, f)
	taskyardv1.RegisterBatchServiceServer(server, f)
	taskyardv1.RegisterRuntimeHostServiceServer(server, f)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return connect(t, listener.Addr().String(), options...)
}

func (f *fake) called(ctx context.Context) error {
	headers, _ := metadata.FromIncomingContext(ctx)
	f.headers = append(f.headers, headers)
	if f.failures--; f.failures >= 0 {
		return status.Error(codes.Unavailable, "down")
	}
	return nil
}

func (f *fake) SubmitTask(
	ctx context.Context, request *taskyardv1.SubmitTaskRequest,
) (*taskyardv1.SubmitTaskResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.submits = append(f.submits, request)
	return &taskyardv1.SubmitTaskResponse{TaskId: proto.String("tsk_1")}, f.called(ctx)
}

func (f *fake) SubmitTasks(stream submitTasksStream) error {
	f.mu.Lock()
	f.streams++
	number := f.streams
	f.mu.Unlock()
	return f.shared(number, stream)
}

func (f *fake) SubmitBatch(
	ctx context.Context, request *taskyardv1.SubmitBatchRequest,
) (*taskyardv1.SubmitBatchResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &taskyardv1.SubmitBatchResponse{
		BatchId: proto.String("bat_second"),
		Tasks: []*taskyardv1.BatchOutcome{{
			TaskId: proto.String("tsk_1"), State: taskyardv1.Task_queued.Enum(), Error: f.refusal,
		}},
	}, f.called(ctx)
}

// GetTask answers a task that a call before has cancelled, of a batch that a call before has made.
func (f *fake) GetTask(ctx context.Context, request *taskyardv1.GetTaskRequest) (*taskyardv1.Task, error) {
	return &taskyardv1.Task{
		TaskId: &request.TaskId, State: taskyardv1.Task_cancelled.Enum(), BatchId: proto.String("bat_first"),
	}, nil
}

func (f *fake) CancelTask(
	ctx context.Context, request *taskyardv1.CancelTaskRequest,
) (*taskyardv1.CancelTaskResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.called(ctx); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.FailedPrecondition, "it has ended")
}

func (f *fake) ResumeTask(
	ctx context.Context, request *taskyardv1.ResumeTaskRequest,
) (*taskyardv1.ResumeTaskResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumes = append(f.resumes, request)
	return &taskyardv1.ResumeTaskResponse{}, f.called(ctx)
}

func (f *fake) WaitTask(
	ctx context.Context, request *taskyardv1.WaitTaskRequest,
) (*taskyardv1.WaitTaskResponse, error) {
	select {
	case <-time.After(fromMillis(request.GetTimeoutMs())):
	case <-ctx.Done():
	}
	return &taskyardv1.WaitTaskResponse{Ended: proto.Bool(false)}, nil
}

func (f *fake) WatchTasks(
	request *taskyardv1.WatchTasksRequest, stream grpc.ServerStreamingServer[taskyardv1.WatchTasksResponse],
) error {
	f.mu.Lock()
	f.watched = append(f.watched, request)
	number := len(f.watched)
	f.mu.Unlock()
	return f.watch(number, stream)
}
