// The options of a load, as flags.

package main

import (
	"flag"
	"fmt"
	"time"
)

// How hosts report. In the new pattern a message of reports has their credit too, and the server counts the accepted
// ones; hosts fall back to the old one if the server does not.
const (
	newPattern = "new"
	oldPattern = "old"
)

// Options describe the load. Not every mode uses all of them.
type Options struct {
	Address     string        // Where the server listens, HOST:PORT.
	Measured    time.Duration // The length of the measured window.
	WarmUp      time.Duration // The time before the window.
	Connections int           // TCP connections that share the calls.
	Inflight    int           // Calls, or messages of each stream, that may be unanswered at once.
	Agents      int           // Agents that submit the tasks, in turn.
	Batch       int           // Tasks in a message.
	Submitters  int           // Streams that submit.
	Hosts       int           // Hosts, each with a connection and a stream.
	Slots       int           // Tasks that a host may hold at once.
	Backlog     int           // The most tasks that are submitted and not done.
	Tasks       int           // Tasks that fill the queue before the window.
	Rate        float64       // Operations a second, 0 for as many as possible.
	Watchers    int           // Watchers, each with a stream.
	Action      string        // The action of the tasks, and the only action of the hosts.
	ServerPID   int           // The process whose CPU time is measured, 0 for none.
	Namespace   string        // The namespace of each call, empty for the default one.
	Token       string        // The bearer token of each call, empty for none.
	CA          string        // A file with the authority of the server's certificate; empty for no TLS.
	Cert        string        // A file with the client certificate, empty for none.
	Key         string        // A file with its key.
	Pattern     string        // How hosts report: newPattern or oldPattern.
	Shared      string        // The concurrency key of all tasks, empty for none.
}

func parse(mode string, args []string) (*Options, error) {
	o := &Options{}
	flags := flag.NewFlagSet(mode, flag.ContinueOnError)
	secs := flags.Float64("secs", 5, "length of the measured window")
	warmUp := flags.Float64("warm-up", 1, "seconds before the window")
	flags.StringVar(&o.Address, "address", "", "HOST:PORT of the server")
	flags.IntVar(&o.Connections, "connections", 4, "TCP connections")
	flags.IntVar(&o.Inflight, "inflight", 64, "calls, or messages of a stream, unanswered at once")
	flags.IntVar(&o.Agents, "agents", 1000, "agents that submit the tasks")
	flags.IntVar(&o.Batch, "batch", 50, "tasks in a message")
	flags.IntVar(&o.Submitters, "submitters", 4, "streams that submit tasks")
	flags.IntVar(&o.Hosts, "hosts", 4, "hosts")
	flags.IntVar(&o.Slots, "slots", 200, "tasks that a host may hold at once")
	flags.IntVar(&o.Backlog, "backlog", 4000, "the most tasks that are submitted and not done")
	flags.IntVar(&o.Tasks, "tasks", 100_000, "tasks that fill the queue before the window")
	flags.Float64Var(&o.Rate, "rate", 0, "operations a second; 0 for as many as possible")
	flags.IntVar(&o.Watchers, "watchers", 50, "watchers")
	flags.StringVar(&o.Action, "action", "click", "action of the tasks")
	flags.IntVar(&o.ServerPID, "server-pid", 0, "process whose CPU time is measured")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of each call")
	flags.StringVar(&o.Token, "token", "", "bearer token of each call")
	flags.StringVar(&o.CA, "ca", "", "file with the authority of the server's certificate; without it no TLS")
	flags.StringVar(&o.Cert, "cert", "", "file with the client certificate")
	flags.StringVar(&o.Key, "key", "", "file with its key")
	flags.StringVar(&o.Shared, "shared-key", "", "concurrency key of all tasks; none without it")
	flags.StringVar(&o.Pattern, "pattern", newPattern, "how hosts report: new, or old as before reports were counted")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.Measured = time.Duration(*secs * float64(time.Second))
	o.WarmUp = time.Duration(*warmUp * float64(time.Second))
	if o.Address == "" || flags.NArg() > 0 {
		return nil, fmt.Errorf("%s: -address is required, and nothing but options", mode)
	}
	if min(o.Connections, o.Inflight, o.Agents, o.Batch, o.Submitters) < 1 {
		return nil, fmt.Errorf("%s: counts begin at 1", mode)
	}
	if o.Pattern != newPattern && o.Pattern != oldPattern {
		return nil, fmt.Errorf("%s: -pattern is new or old", mode)
	}
	return o, nil
}
