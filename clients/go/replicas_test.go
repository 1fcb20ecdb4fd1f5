// Clients of several servers, and of one that is not the owner of the namespace.

package taskyard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// refusal is the error of a call, with a reason of the API and a time to come again.
func refusal(status *status.Status, reason string, after time.Duration) error {
	withDetails, err := status.WithDetails(
		&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: map[string]string{"owner": "b"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(after)},
	)
	if err != nil {
		panic(err)
	}
	return withDetails.Err()
}

var (
	elsewhere = refusal(status.New(codes.Unavailable, "the replica b serves it"), notOwner, 50*time.Millisecond)
	tooMany   = refusal(status.New(codes.ResourceExhausted, "slower"), "TOO_MANY_REQUESTS", 300*time.Millisecond)
)

func (f *fakeServer) submitted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.submits)
}

func TestDeadServerIsPassedOver(t *testing.T) {
	for name, live := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		f := &fakeServer{}
		address := f.listen(t, name, live)
		if name == "unix" {
			address = "unix:" + address
		}
		// Two dead ones: in one of a few clients the live one comes last.
		for range 8 {
			client := connect(t, strings.Join([]string{freeAddress(), address, freeAddress()}, ","), WithPatience(noPatience))
			if _, err := client.Submit(testContext(t), NewTask{Action: "echo"}); err != nil {
				t.Error(name, err)
			}
		}
	}
}

func TestClientsSpreadAtRandomAndEachKeepsItsServer(t *testing.T) {
	a, b := &fakeServer{}, &fakeServer{}
	both := a.listen(t, "tcp", "127.0.0.1:0") + "," + b.listen(t, "tcp", "127.0.0.1:0")
	for range 20 {
		client, before := connect(t, both), a.submitted()
		for range 3 {
			must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t)
		}
		if got := a.submitted() - before; got != 0 && got != 3 {
			t.Error("a client has changed its server")
		}
	}
	if a.submitted() == 0 || b.submitted() == 0 {
		t.Error("all clients chose the same server")
	}
}

func TestClientGoesToAnotherServerWhenItsOwnDies(t *testing.T) {
	f := &fakeServer{}
	proxies := []*proxy{startProxy(t, f.listen(t, "tcp", "127.0.0.1:0")), startProxy(t, f.listen(t, "tcp", "127.0.0.1:0"))}
	client := connect(t, proxies[0].address+","+proxies[1].address)
	for _, each := range []int{0, 1, 0} {
		proxies[1-each].unblock()
		proxies[each].block()
		must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t)
	}
}

func TestEachServerShowsACertificateOfItsOwnName(t *testing.T) {
	ca := newAuthority(t)
	listen := func(f *fakeServer, names []string, ips ...net.IP) (port string) {
		pair := must(tls.LoadX509KeyPair(ca.issueFor(t, names, ips)))(t)
		f.options = []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&pair))}
		_, port, _ = net.SplitHostPort(f.listen(t, "tcp", "127.0.0.1:0"))
		return port
	}
	a, b := &fakeServer{}, &fakeServer{}
	both := "https://localhost:" + listen(a, []string{"localhost"}) + ",127.0.0.1:" + listen(b, nil, net.IPv4(127, 0, 0, 1))
	for range 20 {
		must(connect(t, both, WithCA(ca.file), WithPatience(noPatience)).Submit(testContext(t), NewTask{Action: "echo"}))(t)
	}
	if a.submitted() == 0 || b.submitted() == 0 {
		t.Error("one of the certificates was refused")
	}
}

func TestTokenIsNotSentInTheClearToAnyOfSeveralServers(t *testing.T) {
	if _, err := Connect("127.0.0.1:1,example.com:1", WithToken("secret")); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
	client := must(Connect("127.0.0.1:1,unix:/tmp/t", WithToken("secret")))(t)
	_ = client.Close()
}

func TestEveryCallIsRepeatedWhileAnotherServerOwnsTheNamespace(t *testing.T) {
	f := &fakeServer{}
	client, ctx := serve(t, f), testContext(t)
	for name, call := range map[string]func() error{
		"submit": func() error { _, err := client.Submit(ctx, NewTask{Action: "echo"}); return err },
		"batch": func() error {
			// The first batch is that of the answer: no earlier one may have been made.
			batch, err := client.SubmitBatch(ctx, NewBatch{Tasks: []NewTask{{Action: "echo"}}})
			if err == nil && batch.ID != "bat_second" {
				t.Error(batch.ID)
			}
			return err
		},
		"resume, which is not repeated otherwise": func() error { _, err := client.Resume(ctx, "tsk_1"); return err },
		"stub": func() error {
			_, err := taskyardv1.NewTaskServiceClient(client.Conn()).ResumeTask(ctx, &taskyardv1.ResumeTaskRequest{})
			return err
		},
	} {
		f.failures, f.failure = 3, elsewhere
		before, began := len(f.headers), time.Now()
		if err := call(); err != nil {
			t.Error(name, err)
		}
		if got, took := len(f.headers)-before, time.Since(began); got != 4 || took < 60*time.Millisecond {
			t.Errorf("%s: %d calls in %s", name, got, took)
		}
	}
	f.failures = 1
	// Its conflict is real: the call before it did nothing.
	if _, err := client.Cancel(ctx, "tsk_1"); CodeOf(err) != CodeConflict {
		t.Error(err)
	}
}

func TestNamespaceWithoutAnOwnerIsUnavailableAfterThePatience(t *testing.T) {
	f := &fakeServer{failures: 1000, failure: elsewhere}
	client := serve(t, f, WithPatience(200*time.Millisecond))
	began := time.Now()
	for name, call := range map[string]func() error{
		"submit": func() error { _, err := client.Submit(testContext(t), NewTask{Action: "echo"}); return err },
		"resume": func() error { _, err := client.Resume(testContext(t), "tsk_1"); return err },
	} {
		err := call()
		if found := errorFrom(err); found.Code != CodeUnavailable || found.Details["owner"] != "b" || !found.Retryable {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if took := time.Since(began); took > 2*time.Second || len(f.headers) < 8 {
		t.Error(took, len(f.headers))
	}
}

func TestTooManyRequestsAreRepeatedWhenTheServerSays(t *testing.T) {
	f := &fakeServer{failures: 1, failure: tooMany}
	client, began := serve(t, f), time.Now()
	must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t)
	if took := time.Since(began); took < 300*time.Millisecond || len(f.submits) != 2 {
		t.Error(took, len(f.submits))
	}
	f.failures = 1
	_, err := client.Resume(testContext(t), "tsk_1")
	if found := errorFrom(err); found.Code != CodeTooManyRequests || !found.Retryable || found.RetryAfter == 0 {
		t.Errorf("%+v", found)
	}
}

func TestRetryWaitsAMomentForTheOwnerAndLongerAfterTooMany(t *testing.T) {
	o := &outage{patience: time.Minute, random: func() float64 { return 1 }, isStream: true}
	for i, want := range []time.Duration{0, 50 * time.Millisecond, 50 * time.Millisecond} {
		if delay, _ := o.nextDelay(time.Now(), errorFrom(elsewhere)); delay != want {
			t.Error(i, delay)
		}
	}
	if delay, _ := o.nextDelay(time.Now(), errorFrom(tooMany)); delay != 375*time.Millisecond {
		t.Error(delay)
	}
}

func TestRetryIsInDoubtOnlyAfterAnAttemptThatMayHaveWorked(t *testing.T) {
	for want, first := range map[bool]error{false: elsewhere, true: status.Error(codes.Unavailable, "down")} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			inDoubt, err := retryWhileUnavailable(t.Context(), nil, time.Minute, func(context.Context) error {
				if tries++; tries == 1 {
					return ErrorFrom(first)
				}
				return nil
			})
			if err != nil || inDoubt != want {
				t.Error(first, inDoubt, err)
			}
		})
	}
}

func TestTasksOnAStreamAreSubmittedAgainWhenTheNamespaceMoves(t *testing.T) {
	f := &fakeServer{submitTasks: func(number int, stream submitTasksStream) error {
		if number == 1 {
			return elsewhere
		}
		request, err := stream.Recv()
		if err != nil || number == 2 {
			details, _ := structpb.NewStruct(map[string]any{"owner": "b"})
			_ = stream.Send(refuse(&taskyardv1.Error{Code: proto.String("unavailable"), Details: details}))
			return err
		}
		if err := stream.Send(accept(request)); err != nil {
			return err
		}
		return acceptAllTasks(stream, func(*taskyardv1.SubmitTasksRequest) {})
	}}
	client := serve(t, f)
	shareStreams(t, client)
	if submitted := must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t); submitted.ID != "echo" {
		t.Error(submitted)
	}
}

func TestWatchGoesOnAtOnceWhenTheNamespaceMoves(t *testing.T) {
	f := &fakeServer{watchTasks: func(number int, stream watchStream) error {
		if number < 4 {
			sendEvents(stream, "c"+string(rune('0'+number)), taskEvent(taskyardv1.TaskEvent_changed, "t", taskyardv1.Task_running))
			return elsewhere
		}
		return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
	}}
	client := serve(t, f)
	lines, err := collect(client.Watch(testContext(t), WatchOptions{TaskIDs: []string{"t"}, UntilEnded: true}))
	if err != nil || len(lines) != 3 || f.watches[3].GetCursor() != "c3" {
		t.Error(lines, err, f.watches)
	}
}

func TestHostGoesOnWithItsTasksWhereItsNamespaceMoves(t *testing.T) {
	held, began, done := make(chan []string, 1), make(chan bool, 1), make(chan bool, 1)
	release := make(chan bool)
	f := &fakeServer{}
	f.connectHost = func(number int, stream *fakeHostStream) error {
		if number == 2 {
			began <- true
			return elsewhere
		}
		hello, err := stream.welcome("a")
		if err != nil {
			return err
		}
		if number == 1 {
			if err := stream.assign("a", &taskyardv1.Task{Action: proto.String("work")}); err != nil {
				return err
			}
			if _, err := stream.reports(); err != nil {
				return err
			}
			_ = stream.Send(&taskyardv1.ConnectResponse{
				Message: &taskyardv1.ConnectResponse_Drain{Drain: &taskyardv1.Drain{Reconnect: true}},
			})
			return status.Error(codes.Unavailable, "another replica serves this namespace")
		}
		var ids []string
		for _, lease := range hello.GetLeases() {
			ids = append(ids, lease.GetTaskId())
		}
		held <- ids
		release <- true
		return stream.acceptAll(func(report *taskyardv1.Report) {
			if report.GetCompleted() != nil {
				done <- true
			}
		})
	}
	runHost(t, f, func(ctx context.Context, _ *RunningTask) (any, error) {
		<-release
		return nil, ctx.Err()
	})
	receive(t, began)
	if ids := receive(t, held); !slices.Equal(ids, []string{leaseNamed("a").GetTaskId()}) {
		t.Error(ids)
	}
	receive(t, done)
}

func TestHostThatIsAskedBackIsBackAtOnce(t *testing.T) {
	gap := time.Hour
	// A machine that is busy may be slow once.
	for range 5 {
		ended, gaps := time.Now(), make(chan time.Duration, 1)
		f := &fakeServer{}
		f.connectHost = func(number int, stream *fakeHostStream) error {
			if number == 2 {
				gaps <- time.Since(ended)
			}
			if _, err := stream.welcome(); err != nil || number > 1 {
				return errors.Join(err, stream.acceptAll(func(*taskyardv1.Report) {}))
			}
			_ = stream.Send(&taskyardv1.ConnectResponse{
				Message: &taskyardv1.ConnectResponse_Drain{Drain: &taskyardv1.Drain{Reconnect: true}},
			})
			ended = time.Now()
			return status.Error(codes.Unavailable, "another replica serves this namespace")
		}
		runHost(t, f, func(context.Context, *RunningTask) (any, error) { return nil, nil })
		if gap = min(gap, receive(t, gaps)); gap < 40*time.Millisecond {
			return
		}
	}
	t.Errorf("the next stream came after %s", gap)
}

func TestHostComesBackInShortStepsAtFirst(t *testing.T) {
	down := unavailable("down")
	for out, limit := range map[time.Duration][2]time.Duration{
		0: {50, 100}, 2900 * time.Millisecond: {50, 100}, 4 * time.Second: {0, 2000}, time.Hour: {0, 5000},
	} {
		for range 100 {
			delay := reconnectDelay(down, false, out, maxReconnectDelay)
			if delay < limit[0]*time.Millisecond || delay > limit[1]*time.Millisecond {
				t.Error(out, delay)
			}
		}
	}
	if delay := reconnectDelay(down, true, 0, maxReconnectDelay); delay != 0 {
		t.Error(delay)
	}
	if delay := reconnectDelay(errorFrom(tooMany), true, 0, maxReconnectDelay); delay < 300*time.Millisecond {
		t.Error(delay)
	}
}
