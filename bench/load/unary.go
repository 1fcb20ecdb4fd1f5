// Loads of unary calls: SubmitTask, SubmitBatch, and POST /tasks.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// runSubmit submits tasks by SubmitTask. The operations are calls.
func runSubmit(ctx context.Context, o *Options) (*Result, error) {
	return overConnections(ctx, o, func(connection *grpc.ClientConn, tasks *Tasks) call {
		stub := taskyardv1.NewTaskServiceClient(connection)
		return func(ctx context.Context) (int, int, error) {
			_, err := stub.SubmitTask(ctx, tasks.One())
			return 1, 0, err
		}
	})
}

// runBatch submits batches by SubmitBatch. The operations are accepted tasks.
func runBatch(ctx context.Context, o *Options) (*Result, error) {
	return overConnections(ctx, o, func(connection *grpc.ClientConn, tasks *Tasks) call {
		stub := taskyardv1.NewBatchServiceClient(connection)
		return func(ctx context.Context) (int, int, error) {
			answer, err := stub.SubmitBatch(ctx, tasks.Batch(o.Batch))
			refused := 0
			for _, outcome := range answer.GetTasks() {
				if outcome.GetError() != nil {
					refused++
				}
			}
			return len(answer.GetTasks()) - refused, refused, err
		}
	})
}

// overConnections runs callers that share -connections connections. newCall returns the call of one caller.
func overConnections(
	ctx context.Context, o *Options, newCall func(connection *grpc.ClientConn, tasks *Tasks) call,
) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		connections, err := w.dial(o, o.Connections)
		if err != nil {
			return nil, err
		}
		tasks := newTasks(o)
		return runCallers(w, o, func(caller int) call {
			return newCall(connections[caller%len(connections)], tasks)
		})
	})
}

// restTask is the body of POST /tasks.
type restTask struct {
	AgentID string            `json:"agentId"`
	Action  string            `json:"action"`
	Params  map[string]any    `json:"params"`
	Labels  map[string]string `json:"labels"`
}

// runRest submits tasks as JSON. Each caller has a connection of HTTP/1.1 that is kept open; -connections is not used.
func runRest(ctx context.Context, o *Options) (*Result, error) {
	transport := &http.Transport{MaxIdleConns: o.Inflight, MaxIdleConnsPerHost: o.Inflight, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	tasks := newTasks(o)
	return during(ctx, func(w *work) (*Result, error) {
		return runCallers(w, o, func(int) call {
			return func(ctx context.Context) (int, int, error) {
				return 1, 0, post(ctx, client, "http://"+o.Address+"/tasks", tasks.One())
			}
		})
	})
}

func post(ctx context.Context, client *http.Client, url string, task *taskyardv1.SubmitTaskRequest) error {
	body, err := json.Marshal(restTask{task.AgentId, task.Action, task.Params.AsMap(), task.Labels})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}
