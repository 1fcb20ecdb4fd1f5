// Command load puts a load on a Taskyard server, or on a bare server with the same messages, and measures it.
//
//	load MODE -address HOST:PORT -secs S ...
//
// It prints one line of JSON, see Result. Every task is built anew, for one of many agents and with params of its own.
// The program uses one thread unless GOMAXPROCS is set.
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

// modes has the loads by name.
var modes = map[string]func(context.Context, *Options) (*Result, error){
	"submit":       runSubmit,
	"rest":         runRest,
	"batch":        runBatch,
	"stream":       runStream,
	"flow":         runFlow,
	"hostflow":     runHostFlow,
	"latency":      runLatency,
	"output":       runOutput,
	"steady":       runSteady,
	"steady-calls": runSteadyCalls,
	"watch":        runWatch,
	"watch-agents": runWatchAgents,
}

func main() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	// Collect garbage less often: the program needs little memory, and the CPU is for the server.
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
