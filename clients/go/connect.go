// The connection to a server: its options, and what holds for every call over it.

package taskyard

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// Option is a choice of Connect.
type Option func(*settings)

type settings struct {
	namespace   string
	token       string
	agent       string
	credentials credentials.TransportCredentials
	timeout     time.Duration
	patience    time.Duration
	log         *slog.Logger
	dial        []grpc.DialOption
}

// WithNamespace has all calls act in a namespace. Default "default".
func WithNamespace(namespace string) Option { return func(s *settings) { s.namespace = namespace } }

// WithToken has all calls carry a bearer token. Without WithTLS it travels in the clear.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithAgent names the agent that submits the tasks that name no other.
func WithAgent(agent string) Option { return func(s *settings) { s.agent = agent } }

// WithTLS has the connection encrypted; nil stands for the system's roots and the server's own name. Default: in the
// clear.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.credentials = credentials.NewTLS(config) }
}

// WithTimeout sets how long one attempt of a call may take, whatever its context allows. Default 30 s. What a wait asks
// the server to wait is added.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithPatience sets how long an outage of the server may last before calls that may be repeated, and watches, give up
// with CodeUnavailable. Default 30 s.
func WithPatience(patience time.Duration) Option { return func(s *settings) { s.patience = patience } }

// WithLogger sets where hosts and watches log. Default slog.Default().
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithDialOptions adds options of gRPC's own, after those of this package.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// Connect answers a client of the server at an address: HOST:PORT, or a target of gRPC's such as unix:///PATH. It connects
// with the first call, and again by itself whenever the connection is lost. Close it when done. The error is an *Error
// with CodeBadRequest, for an address or an option that can never work.
func Connect(address string, options ...Option) (*Client, error) {
	s := &settings{
		namespace:   "default",
		credentials: insecure.NewCredentials(),
		timeout:     30 * time.Second,
		patience:    30 * time.Second,
		log:         slog.Default(),
	}
	for _, option := range options {
		option(s)
	}
	if err := s.check(address); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(s.credentials),
		// The server permits a ping every 10 s; proxies drop connections that are quiet for a minute or more.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 30 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true,
		}),
		// gRPC's own would let two minutes pass between attempts to connect.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxDelay},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A page of tasks holds about 3 MB; a single task may be larger where the server is configured so.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(8 << 20)),
		grpc.WithUnaryInterceptor(s.unary),
		grpc.WithStreamInterceptor(s.stream),
	}, s.dial...)...)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	return newClient(conn, s), nil
}

// check finds the mistakes that would look like an outage, or like a fault of the server.
func (s *settings) check(address string) error {
	_, port, err := net.SplitHostPort(address)
	switch isTarget := strings.Contains(address, "/") && !strings.HasPrefix(address, "http"); {
	case !isTarget && (err != nil || port == ""):
		return badRequest(fmt.Sprintf("address: must be HOST:PORT, is %q", address))
	case !isHeader(s.namespace):
		return badRequest("namespace: must be printable ASCII")
	case !isHeader(s.token):
		return badRequest("token: must be printable ASCII; a line end may have come along")
	}
	return nil
}

func isHeader(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// unary makes a call in its namespace, in its time, and again where the proto says that nobody could notice.
func (s *settings) unary(
	ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	ctx = s.outgoing(ctx)
	attempt := func() error {
		ctx, cancel := context.WithTimeout(ctx, s.timeout+waitOf(request))
		defer cancel()
		err := ErrorFrom(invoke(ctx, method, request, answer, conn, options...))
		if message, ok := request.(proto.Message); ok && CodeOf(err) == CodeInternal {
			return cmp.Or(malformed(message), err)
		}
		return err
	}
	if !mayRepeat[method] {
		return attempt()
	}
	_, err := persist(ctx, s.patience, attempt)
	return err
}

func (s *settings) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return open(s.outgoing(ctx), desc, conn, method, options...)
}

func (s *settings) outgoing(ctx context.Context) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "taskyard-namespace", s.namespace)
	if s.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.token)
	}
	return ctx
}

// waitOf answers how long the server is asked to hold back its answer.
func waitOf(request any) time.Duration {
	switch request := request.(type) {
	case *taskyardv1.WaitTaskRequest:
		if request.TimeoutMs == nil {
			return 30 * time.Second
		}
		return milliseconds(request.GetTimeoutMs())
	case interface{ GetWaitMs() uint32 }:
		return milliseconds(request.GetWaitMs())
	}
	return 0
}

// mayRepeat holds the unary methods that are idempotent by their proto. A broken stream is for its reader to resume, who
// knows how far it came.
var mayRepeat = func() map[string]bool {
	found := map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage("taskyard.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				options, _ := method.Options().(*descriptorpb.MethodOptions)
				if !method.IsStreamingServer() && !method.IsStreamingClient() &&
					options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN {
					found["/"+string(service.FullName())+"/"+string(method.Name())] = true
				}
			}
		}
		return true
	})
	return found
}()
