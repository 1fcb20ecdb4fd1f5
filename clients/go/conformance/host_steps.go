// The operations of a host, and its handlers.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	taskyard "github.com/taskyard/taskyard/clients/go"
)

// backgroundHost is a host that runs during the scenario and counts what its handlers do.
type backgroundHost struct {
	drain context.CancelFunc

	mu      sync.Mutex
	changed chan struct{} // Closed and replaced by each change.
	begun   int
	ended   int
	stopped int
	left    bool
	err     error
}

func hostStart(_ context.Context, p *program, _ string, with arguments) (outcome, error) {
	options := taskyard.HostOptions{Slots: with.Slots}
	if with.LeaseSecs != nil {
		options.Lease = time.Duration(*with.LeaseSecs) * time.Second
	}
	host := taskyard.NewHost(p.client, with.Host, options)
	ctx, drain := context.WithCancel(context.Background())
	h := &backgroundHost{drain: drain, changed: make(chan struct{})}
	host.Handle("echo", h.counted(echo))
	host.Handle("work", h.counted(work))
	host.Handle("fail", h.counted(fail))
	host.Handle("progress", h.counted(progress))
	host.Handle("say", h.counted(say))
	host.Handle("artifact", h.counted(artifact))
	host.Handle("take", h.counted(take))
	host.Handle("steps", h.counted(steps))
	host.Handle("crash", h.counted(crash))
	host.Handle("parks", h.counted(parks(p.client)))
	host.Handle("children", h.counted(children))
	host.Handle("typed", h.counted(taskyard.Typed(typed)))
	p.hosts[with.Host] = h
	go func() {
		err := host.Run(ctx)
		h.change(func() { h.left, h.err = true, err })
	}()
	return outcome{}, nil
}

func hostWait(_ context.Context, p *program, _ string, with arguments) (outcome, error) {
	h := p.hosts[with.Host]
	if h == nil {
		return nil, fmt.Errorf("no host %q was started", with.Host)
	}
	return h.wait(with)
}

func hostStop(_ context.Context, p *program, _ string, with arguments) (outcome, error) {
	h := p.hosts[with.Host]
	if h == nil {
		return nil, fmt.Errorf("no host %q was started", with.Host)
	}
	h.drain()
	with.Left = true
	return h.wait(with)
}

// wait returns the counts once they are as high as requested, or when the time is over.
func (h *backgroundHost) wait(with arguments) (outcome, error) {
	timeout := time.After(milliseconds(with.Ms))
	for over := false; ; {
		h.mu.Lock()
		found := outcome{"begun": h.begun, "ended": h.ended, "stopped": h.stopped, "left": h.left}
		enough := h.begun >= with.Begun && h.ended >= with.Ended && h.stopped >= with.Stopped && (h.left || !with.Left)
		changed, err := h.changed, h.err
		h.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if enough || over {
			return found, nil
		}
		select {
		case <-changed:
		case <-timeout:
			over = true
		}
	}
}

func (h *backgroundHost) change(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}

// counted counts the beginnings and ends of a handler.
func (h *backgroundHost) counted(handler taskyard.Handler) taskyard.Handler {
	return func(ctx context.Context, task *taskyard.RunningTask) (any, error) {
		h.change(func() { h.begun++ })
		isStopped := false
		defer func() {
			h.change(func() {
				if isStopped {
					h.stopped++
				} else {
					h.ended++
				}
			})
		}()
		result, err := handler(ctx, task)
		isStopped = err != nil && ctx.Err() != nil
		return result, err
	}
}

// Handlers

type actionParams struct {
	Ms           int      `json:"ms"`
	Error        string   `json:"error"`
	Code         string   `json:"code"`
	Retryable    *bool    `json:"retryable"`
	RetryAfterMs int      `json:"retry_after_ms"`
	Until        int      `json:"until"`
	Fraction     float64  `json:"fraction"`
	Message      string   `json:"message"`
	Tokens       *uint32  `json:"tokens"`
	Texts        []string `json:"texts"`
	Name         string   `json:"name"`
	Bytes        int      `json:"bytes"`
	Names        []string `json:"names"`
	Steps        []string `json:"steps"`
	Ask          string   `json:"ask"`
	Asks         string   `json:"asks"`
	Choices      []any    `json:"choices"`
	SleepMs      *int     `json:"sleep_ms"`
	Join         []string `json:"join"`
	Event        string   `json:"event"`
}

func echo(_ context.Context, task *taskyard.RunningTask) (any, error) { return task.Params, nil }

func work(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	var params actionParams
	if err := task.DecodeParams(&params); err != nil {
		return nil, err
	}
	select {
	case <-time.After(milliseconds(params.Ms)):
		return map[string]any{"attempt": task.Attempt}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func fail(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	var params actionParams
	if err := task.DecodeParams(&params); err != nil {
		return nil, err
	}
	if params.Until > 0 && task.Attempt >= params.Until {
		return work(ctx, task)
	}
	final := params.Retryable != nil && !*params.Retryable
	return nil, &taskyard.ActionFailed{
		Reason: params.Error, Code: params.Code, Final: final, RetryAfter: milliseconds(params.RetryAfterMs),
	}
}

func crash(_ context.Context, task *taskyard.RunningTask) (any, error) { panic(task.Params["text"]) }

type number struct {
	ID int64 `json:"id"`
}

type numbers struct {
	ID   int64 `json:"id"`
	Next int64 `json:"next"`
}

func typed(_ context.Context, _ *taskyard.RunningTask, input number) (numbers, error) {
	return numbers{input.ID, input.ID + 1}, nil
}

func progress(_ context.Context, task *taskyard.RunningTask) (any, error) {
	var params actionParams
	if err := task.DecodeParams(&params); err != nil {
		return nil, err
	}
	if params.Tokens != nil {
		task.SetTokensUsed(*params.Tokens)
	}
	task.Progress(params.Fraction, params.Message)
	return nil, nil
}

func say(_ context.Context, task *taskyard.RunningTask) (any, error) {
	var params actionParams
	if err := task.DecodeParams(&params); err != nil {
		return nil, err
	}
	for _, text := range params.Texts {
		if err := task.Emit(text); err != nil {
			return nil, err
		}
	}
	return nil, errors.Join(task.EmitTo("log", map[string]any{"said": len(params.Texts)}), task.EmitTo("bytes", []byte("end")))
}

func artifact(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	var params actionParams
	if err := task.DecodeParams(&params); err != nil {
		return nil, err
	}
	data := make([]byte, params.Bytes)
	for place := range data {
		data[place] = byte(place % 251)
	}
	if _, err := task.PutArtifact(ctx, params.Name, bytes.NewReader(data), ""); err != nil {
		return nil, err
	}
	read, err := task.ReadArtifact(ctx, params.Name)
	return map[string]any{"sha256": sumOf(read)}, err
}

func take(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	name, found := task.Params["name"], map[string]any{}
	for key, input := range task.Inputs {
		var value map[string]any
		if err := input.DecodeResult(&value); err != nil {
			return nil, err
		}
		shown := map[string]any{
			"state": input.State, "error": absent(input.Error), "value": value, "pad": nil, "sha256": nil,
		}
		if pad, ok := value["pad"].(string); ok {
			shown["pad"] = len(pad)
			delete(value, "pad")
		}
		if name, ok := name.(string); ok {
			data, err := input.ReadArtifact(ctx, name)
			if err == nil {
				shown["sha256"] = sumOf(data)
			} else if taskyard.CodeOf(err) != taskyard.CodeNotFound {
				return nil, err
			}
		}
		found[key] = shown
	}
	return found, nil
}

type stepResult struct {
	Attempt int    `json:"attempt"`
	Pad     string `json:"pad"`
}

func steps(ctx context.Context, task *taskyard.RunningTask) (any, error) {
	var params actionParams
	if err := task.DecodeParams(&params); err != nil {
		return nil, err
	}
	done, attempts, sizes := 0, []int{}, []int{}
	for _, name := range params.Names {
		found, err := taskyard.Step(ctx, task, name, func(context.Context) (stepResult, error) {
			done++
			return stepResult{task.Attempt, strings.Repeat("x", params.Bytes)}, nil
		})
		if err != nil {
			return nil, err
		}
		attempts, sizes = append(attempts, found.Attempt), append(sizes, len(found.Pad))
	}
	if task.Attempt < params.Until {
		return nil, errors.New("again")
	}
	return map[string]any{"done": done, "attempts": attempts, "bytes": sizes}, nil
}

func parks(client *taskyard.Client) taskyard.Handler {
	return func(ctx context.Context, task *taskyard.RunningTask) (any, error) {
		var params actionParams
		if err := task.DecodeParams(&params); err != nil {
			return nil, err
		}
		before, err := taskyard.Step(ctx, task, "before", func(context.Context) (int, error) { return task.Attempt, nil })
		if err != nil {
			return nil, err
		}
		found := map[string]any{"before": before}
		if params.Ask != "" {
			var options []taskyard.AskOption
			if params.Choices != nil {
				options = append(options, taskyard.WithChoices(params.Choices...))
			}
			if found["answer"], err = task.Ask(ctx, "go", params.Ask, options...); err != nil {
				return nil, err
			}
		}
		if params.SleepMs != nil {
			if err := task.Sleep(ctx, milliseconds(*params.SleepMs), "nap"); err != nil {
				return nil, err
			}
		}
		if params.Join != nil {
			if err := task.Join(ctx, params.Join, taskyard.JoinAs("all")); err != nil {
				return nil, err
			}
			ends := []taskyard.State{}
			for _, id := range params.Join {
				ended, err := client.Get(ctx, id)
				if err != nil {
					return nil, err
				}
				ends = append(ends, ended.State)
			}
			found["ends"] = ends
		}
		if params.Event != "" {
			if found["event"], err = task.Event(ctx, params.Event); err != nil {
				return nil, err
			}
		}
		return found, nil
	}
}

// serveWork runs a host of the shared queue until the context ends.
func serveWork(ctx context.Context, client *taskyard.Client, id string, slots int) error {
	host := taskyard.NewHost(client, id, taskyard.HostOptions{Slots: slots})
	host.Handle("work", func(ctx context.Context, task *taskyard.RunningTask) (any, error) {
		result := map[string]any{"language": "go", "attempt": task.Attempt, "process": os.Getpid()}
		var params actionParams
		if err := task.DecodeParams(&params); err != nil {
			return nil, err
		}
		done := []map[string]any{}
		for _, name := range params.Steps {
			found, err := taskyard.Step(ctx, task, name, func(context.Context) (map[string]any, error) {
				return map[string]any{"language": "go", "process": os.Getpid()}, nil
			})
			if err != nil {
				return nil, err
			}
			done = append(done, found)
		}
		result["steps"] = done
		if params.Asks != "" {
			said, err := task.Ask(ctx, "go", params.Asks)
			if err != nil {
				return nil, err
			}
			result["answer"] = said
		}
		if _, err := work(ctx, task); err != nil {
			return nil, err
		}
		if pad, ok := task.Params["pad"]; ok {
			result["pad"] = pad
		}
		for name, input := range task.Inputs {
			var value any
			if err := input.DecodeResult(&value); err != nil {
				return nil, err
			}
			result[name] = value
		}
		return result, nil
	})
	return host.Run(ctx)
}
