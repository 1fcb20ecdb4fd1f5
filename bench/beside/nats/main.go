// Command nats puts the load of `load flow` on a NATS server with JetStream, and prints the same line of JSON.
//
//	nats -address HOST:PORT -secs S -server-pid PID
//
// Publishers publish asynchronously, 50 tasks at a time, and wait until all 50 are acknowledged as stored; each has some
// such batches on their way. Workers pull 50 at a time and acknowledge each task. A task counts when it is acknowledged.
// The stream is a work queue in files, everything else as it is by default.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type result struct {
	Operations    int64   `json:"operations"`      // Tasks acknowledged in the window.
	Secs          float64 `json:"secs"`            // The length of the window as measured.
	CPUSecs       float64 `json:"cpu_secs"`        // CPU time of this process in the window.
	ServerCPUSecs float64 `json:"server_cpu_secs"` // CPU time of the process of -server-pid in the window.
}

var (
	address    = flag.String("address", "", "HOST:PORT of the server")
	secs       = flag.Float64("secs", 5, "length of the measured window")
	warmUp     = flag.Float64("warm-up", 1, "seconds before the window")
	serverPID  = flag.Int("server-pid", 0, "process whose CPU time is read over the window")
	publishers = flag.Int("submitters", 4, "connections that publish")
	inflight   = flag.Int("inflight", 4, "batches of each of them on their way at once")
	workers    = flag.Int("hosts", 4, "connections that pull")
	batch      = flag.Int("batch", 50, "tasks a batch")
	pull       = flag.Int("pull", 50, "tasks that a worker pulls at once")
	backlog    = flag.Int("backlog", 4000, "tasks published and not yet acknowledged by a worker, at most")
)

var number, done atomic.Int64

func main() {
	flag.Parse()
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(400)
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	room := make(chan struct{}, *backlog / *batch)
	failed := make(chan error, 1)
	js, err := connect()
	if err != nil {
		return err
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "TASKS", Subjects: []string{"tasks"}, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return err
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	for range *workers {
		js, err := connect()
		if err != nil {
			return err
		}
		go func() { failed <- work(ctx, js, room) }()
	}
	for range *publishers {
		js, err := connect()
		if err != nil {
			return err
		}
		for range *inflight {
			go func() { failed <- publish(js, room) }()
		}
	}
	answer, err := window(failed)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func connect() (jetstream.JetStream, error) {
	connection, err := nats.Connect("nats://" + *address)
	if err != nil {
		return nil, err
	}
	return jetstream.New(connection)
}

// publish publishes batch after batch, as there is room.
func publish(js jetstream.JetStream, room chan<- struct{}) error {
	for {
		room <- struct{}{}
		stored := make([]jetstream.PubAckFuture, 0, *batch)
		for range *batch {
			future, err := js.PublishAsync("tasks", newTask(number.Add(1)))
			if err != nil {
				return err
			}
			stored = append(stored, future)
		}
		for _, future := range stored {
			select {
			case <-future.Ok():
			case err := <-future.Err():
				return err
			}
		}
	}
}

// work executes and acknowledges what it pulls. Whenever that is a batch's worth more, there is room for a batch.
func work(ctx context.Context, js jetstream.JetStream, room <-chan struct{}) error {
	consumer, err := js.Consumer(ctx, "TASKS", "workers")
	if err != nil {
		return err
	}
	for {
		messages, err := consumer.Fetch(*pull, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for message := range messages.Messages() {
			if err := message.Ack(); err != nil {
				return err
			}
			if done.Add(1)%int64(*batch) == 0 {
				<-room
			}
		}
		if err := messages.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
	}
}

// newTask is the JSON of a task of about 300 bytes. No worker reads it, which is less than a real one would do.
func newTask(number int64) []byte {
	return fmt.Appendf(nil, `{"agent_id":"agent-%d","action":"click","labels":{"run":"run-%d"},"params":{`+
		`"url":"https://shop.example.com/catalogue/chairs/item-%d?from=search",`+
		`"selector":"main > section.results article#item-%d button.buy","x":%d,"y":%d,"double":%t}}`,
		number%1000, number/100, number, number, number%1280, number%720, number%7 == 0)
}

// window warms up, measures, and answers what was measured, unless something fails before.
func window(failed <-chan error) (*result, error) {
	if err := wait(*warmUp, failed); err != nil {
		return nil, err
	}
	begin, before, client, server := time.Now(), done.Load(), cpu(os.Getpid()), cpu(*serverPID)
	if err := wait(*secs, failed); err != nil {
		return nil, err
	}
	return &result{
		Operations: done.Load() - before, Secs: time.Since(begin).Seconds(),
		CPUSecs: cpu(os.Getpid()) - client, ServerCPUSecs: cpu(*serverPID) - server,
	}, nil
}

func wait(secs float64, failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	case <-time.After(time.Duration(secs * float64(time.Second))):
		return nil
	}
}

// cpu answers the CPU time that a process has used, in seconds, to the hundredth; 0 if there is no such process.
func cpu(pid int) float64 {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name of the program, in brackets, may hold anything; utime and stime are the 12th and 13th field after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}
