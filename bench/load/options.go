package main

import (
	"flag"
	"fmt"
	"time"
)

// Options tell what load to make. Not every mode heeds all of them.
type Options struct {
	Address     string        // Where the server listens, HOST:PORT.
	Measured    time.Duration // The length of the measured window.
	WarmUp      time.Duration // What goes before the window.
	Connections int           // TCP connections over which the calls are spread.
	Inflight    int           // Calls, or messages of each stream, that may be unanswered at once.
	Agents      int           // Agents whose tasks these are, in turn.
	Batch       int           // Tasks a message.
	Submitters  int           // Streams that submit.
	Hosts       int           // Hosts, each with a connection and a stream.
	Slots       int           // Tasks that one host may hold at once.
	Backlog     int           // The most tasks that are submitted and not yet done.
	Tasks       int           // Tasks with which the queue is filled beforehand.
	Rate        float64       // Operations a second to keep to; 0 for as many as can be.
	Watchers    int           // Watchers, each with a stream.
	Action      string        // The action of the tasks, and the only one that the hosts take.
	ServerPID   int           // The process whose CPU time is read over the window; 0 for none.
}

func parse(mode string, args []string) (*Options, error) {
	o := &Options{}
	flags := flag.NewFlagSet(mode, flag.ContinueOnError)
	secs := flags.Float64("secs", 5, "length of the measured window")
	warmUp := flags.Float64("warm-up", 1, "seconds before the window")
	flags.StringVar(&o.Address, "address", "", "HOST:PORT of the server")
	flags.IntVar(&o.Connections, "connections", 4, "TCP connections")
	flags.IntVar(&o.Inflight, "inflight", 64, "calls, or messages of a stream, unanswered at once")
	flags.IntVar(&o.Agents, "agents", 1000, "agents whose tasks these are")
	flags.IntVar(&o.Batch, "batch", 50, "tasks a message")
	flags.IntVar(&o.Submitters, "submitters", 4, "streams that submit")
	flags.IntVar(&o.Hosts, "hosts", 4, "hosts")
	flags.IntVar(&o.Slots, "slots", 200, "tasks that one host may hold")
	flags.IntVar(&o.Backlog, "backlog", 4000, "tasks submitted and not yet done, at most")
	flags.IntVar(&o.Tasks, "tasks", 100_000, "tasks with which the queue is filled")
	flags.Float64Var(&o.Rate, "rate", 0, "operations a second; 0 for as many as can be")
	flags.IntVar(&o.Watchers, "watchers", 50, "watchers")
	flags.StringVar(&o.Action, "action", "click", "action of the tasks")
	flags.IntVar(&o.ServerPID, "server-pid", 0, "process whose CPU time is read over the window")
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
	return o, nil
}
