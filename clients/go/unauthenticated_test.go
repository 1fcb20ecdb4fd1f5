// What a client does, and says, when the server refuses its credentials.

package taskyard

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// admitting returns the options of a server that takes one token. Its refusals quote what they got.
func admitting(token func() string) []grpc.ServerOption {
	check := func(ctx context.Context) error {
		headers, _ := metadata.FromIncomingContext(ctx)
		if got := strings.Join(headers.Get("authorization"), ""); got != "Bearer "+token() {
			return status.Error(codes.Unauthenticated, "not valid: "+got)
		}
		return nil
	}
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(
			ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
		) (any, error) {
			if err := check(ctx); err != nil {
				return nil, err
			}
			return handler(ctx, request)
		}),
		grpc.StreamInterceptor(func(
			server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
		) error {
			if err := check(stream.Context()); err != nil {
				return err
			}
			return handler(server, stream)
		}),
	}
}

func TestRefusalSaysWhichCredentialsWereTriedAndNotWhatTheyHold(t *testing.T) {
	configure(t, `[profiles.blue]
		token = "tyd_0123456789"`)
	ca := newAuthority(t)
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "tyd_0123456789")
	cert, key := ca.issue(t)
	for want, each := range map[string]struct {
		environment string
		options     []Option
	}{
		"nothing: no token and no client certificate is set": {},
		"the token from the option token":                    {options: []Option{WithToken("tyd_0123456789")}},
		"the token from TASKYARD_TOKEN":                      {environment: "TASKYARD_TOKEN"},
		"the token file " + file:                             {options: []Option{WithTokenFile(file)}},
		"the token of profile blue":                          {options: []Option{WithProfile("blue")}},
		"the client certificate " + cert: {
			options: []Option{WithClientCertificate(cert, key), WithCA(ca.file)},
		},
	} {
		t.Run(want, func(t *testing.T) {
			if each.environment != "" {
				t.Setenv(each.environment, "tyd_0123456789")
			}
			f := &fakeServer{options: admitting(func() string { return "another" })}
			if strings.Contains(want, "certificate /") {
				f.options = append(f.options, ca.server(t, ca))
			}
			client := serve(t, f, each.options...)
			_, unary := client.Get(testContext(t), "tsk_1")
			_, watch := collect(client.Watch(testContext(t), WatchOptions{}))
			_, submit := client.Submit(testContext(t), NewTask{Action: "echo"})
			for _, err := range []error{unary, watch, submit} {
				if CodeOf(err) != CodeUnauthenticated || !strings.Contains(err.Error(), "(tried: "+want) ||
					strings.Contains(err.Error(), "0123456789") {
					t.Error(err)
				}
			}
		})
	}
}

func TestWatchAndHostGoOnOnceWithTheTokenReadAnew(t *testing.T) {
	var token atomic.Pointer[string]
	first, second := "first", "second"
	token.Store(&first)
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, first)
	// The server takes another token from now on, and ends the streams of the old one.
	expire := func() error {
		write(t, file, second)
		token.Store(&second)
		return status.Error(codes.Unauthenticated, "expired")
	}
	begun := make(chan struct{}, 1)
	f := &fakeServer{
		options: admitting(func() string { return *token.Load() }),
		watchTasks: func(number int, stream watchStream) error {
			if number == 1 {
				sendEvents(stream, "c1", taskEvent(taskyardv1.TaskEvent_submitted, "a", taskyardv1.Task_queued))
				return expire()
			}
			return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
		},
		connectHost: func(number int, host *fakeHostStream) error {
			if _, err := host.welcome(); err != nil {
				return err
			}
			if number == 1 {
				return expire()
			}
			begun <- struct{}{}
			return host.acceptAll(func(*taskyardv1.Report) {})
		},
	}
	client := serve(t, f, WithTokenFile(file))
	lines, err := collect(client.Watch(testContext(t), WatchOptions{}))
	if err != nil || len(lines) != 1 || len(f.watches) != 2 {
		t.Error(lines, err)
	}
	token.Store(&first)
	write(t, file, first)
	ctx, drain := context.WithCancel(t.Context())
	host := NewHost(client, "host", HostOptions{})
	host.HandleAny(func(context.Context, *RunningTask) (any, error) { return nil, nil })
	left := make(chan error, 1)
	go func() { left <- host.Run(ctx) }()
	receive(t, begun)
	drain()
	if err := receive(t, left); err != nil {
		t.Error(err)
	}
}

func TestWatchAndHostEndWhenTheTokenReadAnewIsRefusedToo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "revoked")
	var streams atomic.Int32
	f := &fakeServer{options: admitting(func() string { streams.Add(1); return "another" })}
	for name, each := range map[string]struct {
		option Option
		want   int32
	}{"token file": {WithTokenFile(file), 2}, "token": {WithToken("revoked"), 1}} {
		client := serve(t, f, each.option)
		streams.Store(0)
		_, err := collect(client.Watch(testContext(t), WatchOptions{}))
		if CodeOf(err) != CodeUnauthenticated || streams.Load() != each.want {
			t.Errorf("%s, watch: %v after %d streams", name, err, streams.Load())
		}
		host := NewHost(client, "host", HostOptions{})
		host.HandleAny(func(context.Context, *RunningTask) (any, error) { return nil, nil })
		streams.Store(0)
		if err := host.Run(testContext(t)); CodeOf(err) != CodeUnauthenticated || streams.Load() != each.want {
			t.Errorf("%s, host: %v after %d streams", name, err, streams.Load())
		}
	}
}
