// Command load puts a load on a Taskyard server, or on a bare server of the same messages, and says what it bore.
//
//	load MODE -address HOST:PORT -secs S ...
//
// It prints one line of JSON, see Result. Every task that it sends is built anew, of one of many agents and with a
// payload of its own. One thread runs its code unless GOMAXPROCS says otherwise.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

// modes are the loads by name.
var modes = map[string]func(context.Context, *Options) (*Result, error){
	"submit":       runSubmit,
	"rest":         runRest,
	"batch":        runBatch,
	"stream":       runStream,
	"flow":         runFlow,
	"hostflow":     runHostFlow,
	"latency":      runLatency,
	"watch":        runWatch,
	"watch-agents": runWatchAgents,
}

func main() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	// The load shall cost the machine little; its memory is small.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || modes[args[0]] == nil {
		return fmt.Errorf("the first argument must be one of %s", strings.Join(slices.Sorted(maps.Keys(modes)), ", "))
	}
	options, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	result, err := modes[args[0]](ctx, options)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
