// The real server that the tests use.

package taskyard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// address is where the server of these tests listens.
var address string

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withServer runs a function while a server runs: that of TASKYARD_BINARY, or of the virtual environment of the
// repository.
func withServer(run func() int) (code int, err error) {
	folder, err := os.MkdirTemp("", "taskyard-go-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	// The credentials of who runs the tests are not for their servers.
	for _, each := range os.Environ() {
		if name, _, _ := strings.Cut(each, "="); strings.HasPrefix(name, "TASKYARD_") && name != "TASKYARD_BINARY" {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("XDG_CONFIG_HOME", folder)
	// Another process may take the free port before the server does.
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

// process is a running server.
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
		"maxPayloadBytes": 100_000, "maxOutputBytes": 1_000_000, "reconnectGraceSecs": 3,
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
	command := exec.Command(binary, "up", "--no-gateway", "--config", file, "--grpc", address, "--metrics", freeAddress(),
		"--store", "memory://")
	command.Stdout, command.Stderr = log, log
	for _, each := range os.Environ() {
		if !strings.HasPrefix(each, "TASKYARD_") {
			command.Env = append(command.Env, each)
		}
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("these tests need the server; `make setup` in the top folder installs it: %w", err)
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
		output, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the server does not start: %w\n%s", err, output)
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

// connect returns a client that is closed when the test ends. Without WithNamespace it has a namespace of its own.
func connect(t *testing.T, address string, options ...Option) *Client {
	t.Helper()
	checkForLeaks(t)
	client, err := Connect(address, append([]Option{
		WithNamespace(rand.Text()), WithAgentID("ann"), WithLogger(quiet),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
