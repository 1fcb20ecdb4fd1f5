// The connection to a server: its options, and what every call over it has in common.

package taskyard

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
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
	namespace string
	agentID   string
	options   given
	profile   string
	insecure  bool
	encrypted bool
	tls       *tls.Config
	identity  identity
	security  *transportSecurity // nil without TLS
	timeout   time.Duration
	patience  time.Duration
	log       *slog.Logger
	dial      []grpc.DialOption
	conn      *grpc.ClientConn
	servers   string // Their addresses, for people.
	outages   outageLog
}

// WithNamespace sets the namespace of all calls. Default: TASKYARD_NAMESPACE, or that of the profile, or "default".
func WithNamespace(namespace string) Option { return func(s *settings) { s.namespace = namespace } }

// WithToken sends a bearer token with all calls; "" means none at all. Default: TASKYARD_TOKEN, or the token of the
// profile, or none.
func WithToken(token string) Option {
	return func(s *settings) { s.options.token, s.options.noToken = token, token == "" }
}

// WithTokenFile sends the token in a file with all calls. The file is read anew when it changes, and before a watch or a
// host goes on whose token was refused. Default: TASKYARD_TOKEN_FILE, or the token_file of the profile, or none.
func WithTokenFile(path string) Option { return func(s *settings) { s.options.tokenFile = path } }

// WithCA encrypts the connection, and trusts the certificate authorities in a file of PEM. The file is read anew for
// each connection. Default: TASKYARD_CA, or the ca of the profile, or the root certificates of the system.
func WithCA(path string) Option { return func(s *settings) { s.options.ca = path } }

// WithClientCertificate encrypts the connection, and shows the server a certificate. It and its private key are in files
// of PEM, which are read anew for each connection. Default: TASKYARD_CERT and TASKYARD_KEY, or cert and key of the
// profile, or none.
func WithClientCertificate(cert, key string) Option {
	return func(s *settings) { s.options.cert, s.options.key = cert, key }
}

// WithProfile takes what other options do not say from the table [profiles.NAME] of ~/.config/taskyard/config.toml, which
// goes before the environment. Default: TASKYARD_PROFILE, which goes after it, or the default_profile of that file, which
// counts only where no address is given.
func WithProfile(name string) Option { return func(s *settings) { s.profile = name } }

// WithInsecure permits a token over a connection that is not encrypted, to another machine than this one. Everybody on
// the way can read it. Default: [Connect] refuses that.
func WithInsecure() Option { return func(s *settings) { s.insecure = true } }

// WithAgentID names the agent of tasks that name no agent themselves. Default: none.
func WithAgentID(agentID string) Option { return func(s *settings) { s.agentID = agentID } }

// WithAgent is [WithAgentID] by its former name.
//
// Deprecated: use WithAgentID.
func WithAgent(agent string) Option { return WithAgentID(agent) }

// WithTLS encrypts the connection. A nil config stands for the name of the server in the address. What the config leaves
// open comes from [WithCA] and [WithClientCertificate]. Default: encryption if there is a CA or a client certificate, or
// if the address begins with https://.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.encrypted, s.tls = true, config }
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

// Connect returns a client of the server at an address: HOST:PORT, https://HOST:PORT, a gRPC target such as
// unix:///PATH, or "" for TASKYARD_ADDRESS or that of the profile. Several replicas have several addresses, with commas in
// between: one that works is chosen at random, and kept while it does. The same holds for a name with several addresses.
//
// The client connects with the first call, and again whenever the connection is lost. Close it when it is no longer used. The error is an *[Error] with [CodeBadRequest], for an address or an option
// that can never work, and for a token that would leave this machine without encryption, see [WithInsecure].
func Connect(address string, options ...Option) (*Client, error) {
	s := &settings{timeout: 30 * time.Second, patience: 30 * time.Second, log: slog.Default()}
	for _, option := range options {
		option(s)
	}
	servers, err := s.settle(address)
	if err != nil {
		return nil, err
	}
	var security credentials.TransportCredentials = insecure.NewCredentials()
	if s.security != nil {
		security = s.security
	}
	s.servers = strings.Join(servers.targets, ", ")
	target, ways := servers.dial()
	conn, err := grpc.NewClient(target, slices.Concat(ways, []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		// The server permits a ping every 10 s. Proxies drop connections that are silent for a minute or more.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 30 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true,
		}),
		// By default gRPC waits up to two minutes between attempts to connect.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstDelay, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxDelay},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A page of tasks has about 3 MB. A single task may be larger if the server is configured so.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(8 << 20)),
		grpc.WithUnaryInterceptor(s.unary),
		grpc.WithStreamInterceptor(s.stream),
	}, s.dial)...)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	s.conn = conn
	return newClient(s), nil
}

// settle decides who calls whom, and finds mistakes that would otherwise look like an outage or a fault of the server.
// It returns where the servers are.
func (s *settings) settle(address string) (servers addresses, err error) {
	s.options.named = func(option string) string { return "the option " + option }
	s.options.address, s.options.namespace = address, s.namespace
	places, err := placesOf(s.options, s.profile)
	if err != nil {
		return servers, err
	}
	s.namespace = ""
	for _, place := range slices.Backward(places) {
		address, s.namespace = cmp.Or(place.address, address), cmp.Or(place.namespace, s.namespace)
	}
	s.namespace = cmp.Or(s.namespace, "default")
	if !isHeader(s.namespace) {
		return servers, badRequest("namespace: must be printable ASCII")
	}
	if servers, err = addressesOf(address); err != nil {
		return servers, err
	}
	if s.identity, err = identityOf(places...); err != nil {
		return servers, err
	}
	if servers.areAllUnix() {
		if s.options.ca != "" || s.options.cert != "" {
			return servers, badRequest("ca, cert: a unix socket is not encrypted")
		}
		s.identity.ca, s.identity.cert, s.identity.key = "", "", ""
	}
	if s.encrypted = s.encrypted || servers.encrypted || s.identity.ca != "" || s.identity.cert != ""; s.encrypted {
		if len(servers.targets) > 1 && slices.ContainsFunc(servers.targets, isUnix) {
			return servers, badRequest("address: a unix socket is not encrypted, as the other addresses are")
		}
		s.security, err = newTransportSecurity(s.tls, s.identity)
		return servers, err
	}
	for _, target := range servers.targets {
		if s.identity.token != nil && !s.insecure && !staysHere(target) {
			return servers, badRequest("token: without encryption everybody on the way to " + target +
				" could read it; set a CA or an https:// address, or else WithInsecure")
		}
	}
	return servers, nil
}

func isHeader(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// unary adds the namespace and the token to a call, limits the time of each attempt, and repeats calls: idempotent ones
// while the server is unavailable, others while it is another one's to answer them, which has done nothing.
func (s *settings) unary(
	ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	ctx = s.outgoing(ctx)
	attempt := func() error {
		ctx, cancel := context.WithTimeout(ctx, s.timeout+waitOf(request))
		defer cancel()
		err := s.failed(ctx, s.explained(invoke(ctx, method, request, answer, conn, options...)))
		if err == nil {
			s.worked()
		}
		if message, ok := request.(proto.Message); ok && CodeOf(err) == CodeInternal {
			return cmp.Or(encodingError(message), err)
		}
		return err
	}
	if isRepeatedByCaller(ctx) {
		return attempt()
	}
	mayRepeat := (*Error).isElsewhere
	if isIdempotent[method] || hasClaimID(request) {
		mayRepeat = (*Error).mayPass
	}
	_, err := repeat(ctx, conn, s.patience, mayRepeat, func(context.Context) error { return attempt() })
	return err
}

func (s *settings) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	inner, err := open(s.outgoing(ctx), desc, conn, method, options...)
	if err != nil {
		return nil, s.failed(ctx, s.explained(err))
	}
	return &explainedStream{inner, s}, nil
}

func (s *settings) outgoing(ctx context.Context) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "taskyard-namespace", s.namespace)
	if s.identity.token != nil {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.identity.token.current())
	}
	return ctx
}

// hasClaimID reports whether a request is a claim that may be repeated: a repeat gets the same leases.
func hasClaimID(request any) bool {
	claim, isClaim := request.(interface{ GetClaimId() string })
	return isClaim && claim.GetClaimId() != ""
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
