// What every call over a connection has in common: encryption, metadata, repeats, outages.

package taskyard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestSubmitIsRepeatedWithOneKeyWhileTheServerIsUnavailable(t *testing.T) {
	f := &fakeServer{failures: 2}
	client := serve(t, f)
	submitted := must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t)
	if submitted.ID != "tsk_1" || len(f.submits) != 3 {
		t.Errorf("%+v after %d calls", submitted, len(f.submits))
	}
	key := f.submits[0].GetIdempotencyKey()
	if key == "" || f.submits[1].GetIdempotencyKey() != key || f.submits[2].GetIdempotencyKey() != key {
		t.Errorf("keys of the calls: %v", f.submits)
	}
}

func TestCallsCarryTheNamespaceAndTheToken(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f, WithNamespace("blue"), WithToken("secret"))
	must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t)
	if got := f.headers[0]; !slices.Equal(got["taskyard-namespace"], []string{"blue"}) ||
		!slices.Equal(got["authorization"], []string{"Bearer secret"}) {
		t.Error(got)
	}
}

func TestTLSEncryptsTheConnectionAndChecksTheCertificate(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	web.Close()
	f := &fakeServer{options: []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0]))}}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	client := serve(t, f, WithTLS(&tls.Config{RootCAs: roots}), WithToken("secret"))
	must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t)

	untrusting := serve(t, f, WithTLS(nil), WithPatience(time.Millisecond))
	if _, err := untrusting.Submit(testContext(t), NewTask{Action: "echo"}); CodeOf(err) != CodeUnavailable ||
		!strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

func TestConnectRefusesAddressesAndHeadersThatCanNeverWork(t *testing.T) {
	for _, each := range []string{"", "localhost", "localhost:", "http://localhost:50051", "::1"} {
		if _, err := Connect(each); CodeOf(err) != CodeBadRequest {
			t.Errorf("%q: %v", each, err)
		}
	}
	for name, option := range map[string]Option{
		"token with its line end":     WithToken("secret\n"),
		"namespace beyond ASCII":      WithNamespace("blå"),
		"namespace with a line break": WithNamespace("a\nb"),
	} {
		if _, err := Connect("localhost:50051", option); CodeOf(err) != CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, each := range []string{
		"a:1,", ",", "a:1,b", "a:1,dns://server/b:1", "a:1,xds:///b", "a:1,unix-abstract:b", "a:1,http://b:1",
		"https://a:1,unix:/tmp/b",
	} {
		if _, err := Connect(each); CodeOf(err) != CodeBadRequest {
			t.Errorf("%q: %v", each, err)
		}
	}
	for _, each := range []string{
		"[::1]:50051", "dns:///localhost:50051", "unix:///tmp/taskyard.sock", "unix:taskyard.sock", "a:1, [::1]:2",
		"dns:///a:1,dns:b:2,unix:///tmp/c,unix:d", "https://a,https://b:1",
	} {
		if client := must(Connect(each))(t); client.Close() != nil {
			t.Errorf("%q", each)
		}
	}
}

func TestCallEndsAsUnavailableAfterItsPatience(t *testing.T) {
	client := connect(t, freeAddress(), WithPatience(50*time.Millisecond))
	for name, call := range map[string]func() error{
		"submit": func() error { _, err := client.Submit(testContext(t), NewTask{Action: "echo"}); return err },
		"get":    func() error { _, err := client.Get(testContext(t), "tsk_1"); return err },
	} {
		if err := call(); CodeOf(err) != CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCallOfAClosedClientIsCancelled(t *testing.T) {
	client := connect(t, address)
	_ = client.Close()
	if _, err := client.Get(testContext(t), "tsk_1"); CodeOf(err) != CodeCancelled {
		t.Error(err)
	}
	for _, err := range client.Watch(testContext(t), WatchOptions{}) {
		if CodeOf(err) != CodeCancelled {
			t.Error(err)
		}
	}
}

func TestCallSurvivesAnOutageShorterThanItsPatience(t *testing.T) {
	proxy := startProxy(t, address)
	client, ctx := connect(t, proxy.address), testContext(t)
	proxy.block()
	submitted := make(chan error, 1)
	go func() {
		_, err := client.Submit(ctx, NewTask{Action: "echo"})
		submitted <- err
	}()
	receive(t, proxy.refused)
	proxy.unblock()
	if err := receive(t, submitted); err != nil {
		t.Error(err)
	}
}

func TestWaitSurvivesACutConnection(t *testing.T) {
	proxy := startProxy(t, address)
	client, ctx := connect(t, proxy.address), testContext(t)
	task := must(client.Submit(ctx, NewTask{Action: "echo"}))(t)
	ended := make(chan *Task, 1)
	go func() {
		task, _ := client.Wait(ctx, task.ID)
		ended <- task
	}()
	proxy.block()
	receive(t, proxy.refused)
	proxy.unblock()
	must(client.Cancel(ctx, task.ID))(t)
	if task := receive(t, ended); task == nil || task.State != StateCancelled || !task.State.Ended() {
		t.Errorf("%+v", task)
	}
}

func TestGeneratedStubsUseTheConnectionOfTheClient(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	targets := taskyardv1.NewTargetServiceClient(client.Conn())
	must(client.Submit(ctx, NewTask{Action: "echo", Target: "page"}))(t)
	if found := must(targets.ListTargets(ctx, &taskyardv1.ListTargetsRequest{}))(t); len(found.GetTargets()) != 1 {
		t.Error(found)
	}
	leases := taskyardv1.NewLeaseServiceClient(client.Conn())
	if _, err := leases.ClaimTask(ctx, &taskyardv1.ClaimTaskRequest{HostId: "nobody"}); CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
}

func TestReadThatAStoppingServerCancelsIsRepeated(t *testing.T) {
	var calls atomic.Int32
	f := &fakeServer{options: []grpc.ServerOption{grpc.UnaryInterceptor(func(
		ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		if calls.Add(1) == 1 {
			return nil, status.Error(codes.Canceled, "CANCEL")
		}
		return handler(ctx, request)
	})}}
	must(serve(t, f).Get(testContext(t), "tsk_1"))(t)
	if calls.Load() != 2 {
		t.Error(calls.Load())
	}
}
