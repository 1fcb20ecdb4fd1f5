// Command river puts the load of `load flow` on a River queue in PostgreSQL, and prints the same line of JSON.
//
//	river -dsn DSN -secs S -server-pid PID
//
// Submitters insert 50 tasks by one statement (`InsertManyFast`) and wait for its commit; one client works on all of them.
// A task counts when its end is committed. Everything else is as it is by default.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type result struct {
	Operations    int64   `json:"operations"`      // Tasks whose end was committed in the window.
	Secs          float64 `json:"secs"`            // The length of the window as measured.
	CPUSecs       float64 `json:"cpu_secs"`        // CPU time of this process in the window.
	ServerCPUSecs float64 `json:"server_cpu_secs"` // CPU time of -server-pid and of the processes that it started.
}

var (
	dsn        = flag.String("dsn", "", "the database")
	secs       = flag.Float64("secs", 5, "length of the measured window")
	warmUp     = flag.Float64("warm-up", 1, "seconds before the window")
	serverPID  = flag.Int("server-pid", 0, "process whose CPU time is read over the window")
	submitters = flag.Int("submitters", 8, "unanswered inserts")
	batch      = flag.Int("batch", 50, "tasks an insert")
	workers    = flag.Int("workers", 500, "tasks that are worked on at once")
	backlog    = flag.Int("backlog", 4000, "tasks inserted and not yet ended, at most")
)

// Click is the task.
type Click struct {
	AgentID string            `json:"agent_id"`
	Params  map[string]any    `json:"params"`
	Labels  map[string]string `json:"labels"`
}

// Kind names the task.
func (Click) Kind() string { return "click" }

type clicks struct {
	river.WorkerDefaults[Click]
}

func (clicks) Work(context.Context, *river.Job[Click]) error { return nil }

var number, done atomic.Int64

func main() {
	flag.Parse()
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(400)
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, *dsn)
	if err != nil {
		return err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	known := river.NewWorkers()
	river.AddWorker(known, &clicks{})
	client, err := river.NewClient(driver, &river.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: *workers}},
		Workers: known,
	})
	if err != nil {
		return err
	}
	ended, stop := client.Subscribe(river.EventKindJobCompleted)
	defer stop()
	if err := client.Start(ctx); err != nil {
		return err
	}
	room, failed := make(chan struct{}, *backlog / *batch), make(chan error, *submitters)
	go func() {
		for range ended {
			if done.Add(1)%int64(*batch) == 0 {
				<-room
			}
		}
	}()
	for range *submitters {
		go func() { failed <- submit(ctx, client, room) }()
	}
	answer, err := window(failed)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// submit inserts batch after batch, as there is room.
func submit(ctx context.Context, client *river.Client[pgx.Tx], room chan<- struct{}) error {
	for {
		room <- struct{}{}
		tasks := make([]river.InsertManyParams, *batch)
		for i := range tasks {
			tasks[i].Args = newTask(number.Add(1))
		}
		if _, err := client.InsertManyFast(ctx, tasks); err != nil {
			return err
		}
	}
}

// newTask is a task of about 300 bytes.
func newTask(number int64) Click {
	return Click{
		AgentID: fmt.Sprintf("agent-%d", number%1000),
		Labels:  map[string]string{"run": fmt.Sprintf("run-%d", number/100)},
		Params: map[string]any{
			"url":      fmt.Sprintf("https://shop.example.com/catalogue/chairs/item-%d?from=search", number),
			"selector": fmt.Sprintf("main > section.results article#item-%d button.buy", number),
			"x":        number % 1280, "y": number % 720, "double": number%7 == 0,
		},
	}
}

// window warms up, measures, and answers what was measured, unless something fails before.
func window(failed <-chan error) (*result, error) {
	if err := wait(*warmUp, failed); err != nil {
		return nil, err
	}
	begin, before, client, server := time.Now(), done.Load(), cpu(os.Getpid()), cpuOfServer()
	if err := wait(*secs, failed); err != nil {
		return nil, err
	}
	return &result{
		Operations: done.Load() - before, Secs: time.Since(begin).Seconds(),
		CPUSecs: cpu(os.Getpid()) - client, ServerCPUSecs: cpuOfServer() - server,
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

// cpuOfServer adds up the processes of PostgreSQL, one a connection.
func cpuOfServer() float64 {
	used := cpu(*serverPID)
	tasks, _ := os.ReadDir("/proc")
	for _, task := range tasks {
		if pid, err := strconv.Atoi(task.Name()); err == nil && parent(pid) == *serverPID {
			used += cpu(pid)
		}
	}
	return used
}

func parent(pid int) int {
	if fields := stat(pid); len(fields) > 1 {
		found, _ := strconv.Atoi(fields[1])
		return found
	}
	return -1
}

// cpu answers the CPU time that a process has used, in seconds, to the hundredth; 0 if there is no such process.
func cpu(pid int) float64 {
	fields := stat(pid)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// stat has the fields of a process after its name.
func stat(pid int) []string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name of the program, in brackets, may hold anything.
	return strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
}
