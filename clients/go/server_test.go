package taskyard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// patient is how long a test waits for what must come.
const patient = 15 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// address is where the server of these tests serves.
var address string

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withServer has a server run meanwhile: that of the repository's virtual environment, or TASKYARD_BINARY.
func withServer(run func() int) (code int, err error) {
	folder, err := os.MkdirTemp("", "taskyard-go-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	// A free port may be taken before the server has it.
	server, err := startServer(folder, freeAddress())
	for tries := 1; err != nil && tries < 3; tries++ {
		server, err = startServer(folder, freeAddress())
	}
	if err != nil {
		return 0, err
	}
	defer server.kill()
	address = server.address
	return run(), nil
}

// process is a server that runs.
type process struct {
	address string
	command *exec.Cmd
	ended   context.Context
}

func startServer(folder, address string) (*process, error) {
	binary := os.Getenv("TASKYARD_BINARY")
	if binary == "" {
		binary = filepath.Join("..", "..", ".venv", "bin", "taskyard")
	}
	limits := map[string]any{
		"maxInflight": 1000, "maxPerAgentInflight": 1000, "maxQueueSize": 1000, "maxPerAgent": 100,
		"maxPayloadBytes": 100_000, "reconnectGraceSecs": 3,
	}
	config, err := json.Marshal(map[string]any{"scheduler": limits})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "taskyard.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, "server.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(binary, "up", "--no-gateway", "--config", file, "--grpc", address, "--metrics", freeAddress())
	command.Stdout, command.Stderr = log, log
	for _, each := range os.Environ() {
		if !strings.HasPrefix(each, "TASKYARD_") {
			command.Env = append(command.Env, each)
		}
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("these tests need the server; `make setup` in the top folder brings it: %w", err)
	}
	ended, end := context.WithCancel(context.Background())
	started := &process{address, command, ended}
	go func() {
		_ = command.Wait()
		end()
	}()
	client, err := Connect(address, WithLogger(quiet))
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Stats(ended); err != nil {
		started.kill()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the server does not start: %w\n%s", err, said)
	}
	return started, nil
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended.Done()
}

func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// connect answers a client that is closed with the test. Without WithNamespace it has a namespace of its own.
func connect(t *testing.T, address string, options ...Option) *Client {
	t.Helper()
	lookForLeaks(t)
	client, err := Connect(address, append([]Option{
		WithNamespace(rand.Text()), WithAgent("ann"), WithLogger(quiet),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var lookedAt sync.Map

// lookForLeaks has a test fail that leaves goroutines behind once all else of it is cleaned up.
func lookForLeaks(t *testing.T) {
	t.Helper()
	if _, known := lookedAt.LoadOrStore(t.Name(), true); known {
		return
	}
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		lookedAt.Delete(t.Name())
		settle(t, before)
	})
}

// settle waits until no more goroutines run than before.
func settle(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(patient); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}

// limited answers a context that ends a test that hangs.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	t.Cleanup(cancel)
	return ctx
}

// must answers the value of a call that must not fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// from answers the next thing of a channel.
func from[T any](t *testing.T, channel <-chan T) T {
	t.Helper()
	select {
	case value, ok := <-channel:
		if !ok {
			t.Fatal("the channel is closed")
		}
		return value
	case <-time.After(patient):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// proxy is a TCP proxy whose connections can be cut, and which can refuse new ones.
type proxy struct {
	address string
	// refused gets a word for each connection that was refused, if there is room.
	refused chan struct{}

	target   string
	listener net.Listener
	mu       sync.Mutex
	blocked  bool
	open     map[net.Conn]bool
	pumps    sync.WaitGroup
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	lookForLeaks(t)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{
		address: listener.Addr().String(), refused: make(chan struct{}, 1), target: target, listener: listener,
		open: map[net.Conn]bool{},
	}
	p.pumps.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.pumps.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		blocked := p.blocked
		p.mu.Unlock()
		if blocked {
			_ = near.Close()
			select {
			case p.refused <- struct{}{}:
			default:
			}
			continue
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.open[near], p.open[far] = true, true
		p.mu.Unlock()
		p.pumps.Go(func() { p.pump(near, far) })
		p.pumps.Go(func() { p.pump(far, near) })
	}
}

func (p *proxy) pump(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, from)
	delete(p.open, to)
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

// block breaks all connections and refuses new ones until unblock.
func (p *proxy) block() {
	p.mu.Lock()
	p.blocked = true
	p.mu.Unlock()
	p.cut()
}

func (p *proxy) unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = false
}

// hostNamed answers a host as the server knows it, nil if it does not.
func hostNamed(ctx context.Context, t *testing.T, client *Client, id string) *taskyardv1.RuntimeHost {
	t.Helper()
	hosts := taskyardv1.NewRuntimeHostServiceClient(client.Conn())
	for _, host := range must(hosts.ListHosts(ctx, &taskyardv1.ListHostsRequest{}))(t).GetHosts() {
		if host.GetId() == id {
			return host
		}
	}
	return nil
}
