// The connection to a server: its options, and what every call over it has in common.

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

// Option is an option of [Connect].
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

// WithNamespace sets the namespace of all calls. Default: "default".
func WithNamespace(namespace string) Option { return func(s *settings) { s.namespace = namespace } }

// WithToken sends a bearer token with all calls. Without [WithTLS] it is sent unencrypted. Default: none.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithAgent names the agent of tasks that name no agent themselves. Default: none.
func WithAgent(agent string) Option { return func(s *settings) { s.agent = agent } }

// WithTLS encrypts the connection. A nil config stands for the root certificates of the system and the name of the
// server in the address. Default: no encryption.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.credentials = credentials.NewTLS(config) }
}

// WithTimeout sets how long one attempt of a call may take, even if its context allows more. The time that a call asks
// the server to wait is added. Default: 30 s.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithPatience sets how long the server may be unavailable before watches, and calls that can be repeated, end with
// [CodeUnavailable]. Default: 30 s.
func WithPatience(patience time.Duration) Option { return func(s *settings) { s.patience = patience } }

// WithLogger sets the logger of hosts and watches. Default: [slog.Default].
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithDialOptions adds options of gRPC, which take precedence over those of this package. Default: none.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// Connect returns a client of the server at an address: HOST:PORT, or a gRPC target such as unix:///PATH. It connects
// with the first call, and again whenever the connection is lost. Close it when it is no longer used. The error is an
// *[Error] with [CodeBadRequest], for an address or an option that can never work.
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
		// The server permits a ping every 10 s. Proxies drop connections that are silent for a minute or more.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 30 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true,
		}),
		// By default gRPC waits up to two minutes between attempts to connect.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxDelay},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A page of tasks has about 3 MB. A single task may be larger if the server is configured so.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(8 << 20)),
		grpc.WithUnaryInterceptor(s.unary),
		grpc.WithStreamInterceptor(s.stream),
	}, s.dial...)...)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	return newClient(conn, s), nil
}

// check finds mistakes that would otherwise look like an outage or a fault of the server.
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

// unary adds the namespace and the token to a call, limits the time of each attempt, and repeats calls that are
// idempotent.
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
			return cmp.Or(encodingError(message), err)
		}
		return err
	}
	if !isIdempotent[method] {
		return attempt()
	}
	_, err := retryWhileUnavailable(ctx, s.patience, attempt)
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

// waitOf returns how long a request asks the server to wait before it answers.
func waitOf(request any) time.Duration {
	switch request := request.(type) {
	case *taskyardv1.WaitTaskRequest:
		if request.TimeoutMs == nil {
			return 30 * time.Second
		}
		return fromMillis(request.GetTimeoutMs())
	case interface{ GetWaitMs() uint32 }:
		return fromMillis(request.GetWaitMs())
	}
	return 0
}

// isIdempotent has the unary methods that their proto marks as idempotent. A broken stream is resumed by its reader,
// which knows its position.
var isIdempotent = func() map[string]bool {
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
