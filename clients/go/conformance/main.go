// Command conformance runs the scenario of clients/conformance with the Go client, and prints the outcome of each step.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

// arguments has the arguments of all operations.
type arguments struct {
	Agent          string            `json:"agent"`
	Action         string            `json:"action"`
	Params         any               `json:"params"`
	Labels         map[string]string `json:"labels"`
	Priority       int32             `json:"priority"`
	Hold           bool              `json:"hold"`
	TokenLimit     uint32            `json:"token_limit"`
	RunTimeoutMs   int               `json:"run_timeout_ms"`
	Parent         string            `json:"parent"`
	Children       bool              `json:"children"`
	Input          *string           `json:"input"`
	InputEncoding  string            `json:"input_encoding"`
	Output         *string           `json:"output"`
	OutputEncoding *string           `json:"output_encoding"`
	Number         string            `json:"number"`
	ClaimID        *string           `json:"claim_id"`
	Error          string            `json:"error"`
	Code           *string           `json:"code"`
	Retryable      *bool             `json:"retryable"`
	RetryAfterMs   *uint32           `json:"retry_after_ms"`
	Traceback      *string           `json:"traceback"`
	Inputs         map[string]string `json:"inputs"`
	Key            string            `json:"key"`
	Retry          *retry            `json:"retry"`
	Count          int               `json:"count"`
	Task           string            `json:"task"`
	Batch          string            `json:"batch"`
	States         []taskyard.State  `json:"states"`
	PageSize       uint32            `json:"page_size"`
	Ms             int               `json:"ms"`
	Result         any               `json:"result"`
	IncludeCurrent bool              `json:"include_current"`
	UntilEnded     bool              `json:"until_ended"`
	Cursor         string            `json:"cursor"`
	Keep           bool              `json:"keep"`
	Watch          string            `json:"watch"`
	URL            string            `json:"url"`
	Host           string            `json:"host"`
	LeaseSecs      *uint32           `json:"lease_secs"`
	GraceSecs      *uint32           `json:"grace_secs"`
	Token          int64             `json:"token"`
	Tokens         *uint32           `json:"tokens"`
	Slots          int               `json:"slots"`
	Begun          int               `json:"begun"`
	Ended          int               `json:"ended"`
	Stopped        int               `json:"stopped"`
	Left           bool              `json:"left"`

	Keys            []string `json:"keys"`
	After           []string `json:"after"`
	Handed          bool     `json:"handed"`
	AfterPolicy     string   `json:"after_policy"`
	UniqueKey       string   `json:"unique_key"`
	OnConflict      string   `json:"on_conflict"`
	Target          string   `json:"target"`
	OnTargetFailure string   `json:"on_target_failure"`
	Chain           bool     `json:"chain"`
	Selector        string   `json:"selector"`
	ConcurrencyKey  string   `json:"concurrency_key"`
	IDPrefix        string   `json:"id_prefix"`
	WaitMs          *int     `json:"wait_ms"`
	Pattern         string   `json:"pattern"`
	MaxInflight     *uint32  `json:"max_inflight"`
	Weight          uint32   `json:"weight"`
	Operation       string   `json:"operation"`
	Name            string   `json:"name"`
	Pad             int      `json:"pad"`
	Channels        []string `json:"channels"`
	AfterChunk      uint32   `json:"after_chunk"`
	Question        string   `json:"question"`
	Answer          any      `json:"answer"`
	Payload         any      `json:"payload"`
}

type retry struct {
	MaxAttempts       uint32   `json:"max_attempts"`
	FirstDelayMs      int      `json:"first_delay_ms"`
	NonRetryableCodes []string `json:"non_retryable_codes"`
}

// outcome is the outcome of a step.
type outcome map[string]any

// operation is one kind of step. The id is that of the step.
type operation func(ctx context.Context, p *program, id string, with arguments) (outcome, error)

// program is one run of the scenario.
type program struct {
	client  *taskyard.Client
	watches map[string]*openWatch
	hosts   map[string]*backgroundHost
}

var operations = map[string]operation{
	"submit": submit, "submit_batch": submitBatch, "get": get, "list": list, "wait": wait,
	"submit_inexact": submitInexact, "cancel": cancel, "pause": pause, "resume": resume,
	"resolve": resolve, "get_batch": getBatch, "cancel_batch": cancelBatch, "stats": stats,
	"watch": watch, "watch_more": watchMore, "cut": cut, "sleep": sleep,
	"register": register, "claim": claim, "claim_many": claimMany, "start": start, "complete": complete,
	"fail": failByCall, "deregister": deregister, "drain": drain,
	"explain": explain, "put_limit": putLimit, "limits": limits, "delete_limit": deleteLimit,
	"put_weight": putWeight, "weights": weights, "delete_weight": deleteWeight, "cancel_tasks": cancelTasks,
	"read_output": readOutput, "read_artifact": readArtifact, "list_steps": listSteps, "result": result,
	"list_questions": listQuestions, "answer": answer, "send_event": sendEvent,
	"host_start": hostStart, "host_wait": hostWait, "host_stop": hostStop,
}

func main() {
	server := flag.String("server", "", "HOST:PORT")
	namespace := flag.String("namespace", "default", "the namespace of all calls")
	scenario := flag.String("scenario", "", "the file of the steps")
	given := flag.String("run", "{}", "values of this run, as JSON")
	serve := flag.Bool("serve", false, "run a host with the action work instead, until SIGTERM")
	hostID := flag.String("host-id", "go", "the id of that host")
	slots := flag.Int("slots", 4, "the slots of that host")
	flag.Parse()

	client, err := taskyard.Connect(*server, taskyard.WithNamespace(*namespace))
	if err != nil {
		log.Fatal(err)
	}
	if *serve {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		err = serveWork(ctx, client, *hostID, *slots)
		stop()
	} else {
		err = perform(client, *scenario, *given)
	}
	if err = errors.Join(err, client.Close()); err != nil {
		log.Fatal(err)
	}
}

// perform runs the steps of a file in their order. The error tells that the file cannot be read.
func perform(client *taskyard.Client, file, given string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var scenario struct {
		Steps []struct {
			ID   string `json:"id"`
			Do   string `json:"do"`
			With any    `json:"with"`
		} `json:"steps"`
	}
	var run any
	if err := errors.Join(json.Unmarshal(text, &scenario), json.Unmarshal([]byte(given), &run)); err != nil {
		return err
	}
	p := &program{client: client, watches: map[string]*openWatch{}, hosts: map[string]*backgroundHost{}}
	outcomes := map[string]any{"run": run}
	out := json.NewEncoder(os.Stdout)
	for _, step := range scenario.Steps {
		line := map[string]any{"step": step.ID}
		if found, err := p.step(step.ID, step.Do, step.With, outcomes); err != nil {
			line["crashed"] = err.Error()
		} else {
			line["outcome"], outcomes[step.ID] = found, found
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step and returns its outcome as plain JSON. Errors of the client are part of the outcome; other errors
// are returned.
func (p *program) step(id, do string, with any, outcomes map[string]any) (plain any, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	operation := operations[do]
	if operation == nil {
		return nil, fmt.Errorf("no operation %q", do)
	}
	resolved, err := resolveReferences(with, outcomes)
	if err != nil {
		return nil, err
	}
	var a arguments
	if err := recode(resolved, &a); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	found, err := operation(ctx, p, id, a)
	if refused, ok := errors.AsType[*taskyard.Error](err); ok {
		found = outcome{
			"error": refused.Code, "retryable": refused.Retryable, "retry_after_ms": retryAfterMs(refused),
			"message": refused.Reason,
			"details": slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(refused.Details)))),
		}
	} else if err != nil {
		return nil, err
	}
	return plain, recode(found, &plain)
}

// resolveReferences replaces the references in a value by the outcomes that they name.
func resolveReferences(value any, outcomes map[string]any) (any, error) {
	var err error
	switch value := value.(type) {
	case string:
		if strings.HasPrefix(value, "$") {
			return lookUp(value[1:], outcomes)
		}
	case map[string]any:
		found := map[string]any{}
		for key, item := range value {
			if found[key], err = resolveReferences(item, outcomes); err != nil {
				return nil, err
			}
		}
		return found, nil
	case []any:
		found := make([]any, len(value))
		for i, item := range value {
			if found[i], err = resolveReferences(item, outcomes); err != nil {
				return nil, err
			}
		}
		return found, nil
	}
	return value, nil
}

func lookUp(path string, outcomes map[string]any) (any, error) {
	var found any = outcomes
	for _, part := range strings.Split(path, ".") {
		switch within := found.(type) {
		case map[string]any:
			item, ok := within[part]
			if !ok {
				return nil, fmt.Errorf("$%s has no outcome", path)
			}
			found = item
		case []any:
			index, err := strconv.Atoi(part)
			if err != nil || index < 0 || index >= len(within) {
				return nil, fmt.Errorf("$%s has no outcome", path)
			}
			found = within[index]
		default:
			return nil, fmt.Errorf("$%s has no outcome", path)
		}
	}
	return found, nil
}

// recode converts a value to another type by way of JSON.
func recode(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
