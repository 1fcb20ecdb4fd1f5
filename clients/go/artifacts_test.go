// Artifacts of tasks, and values that are artifacts since they are too large, against the real server.

package taskyard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// someBytes returns so many bytes, not all alike.
func someBytes(count int) []byte {
	return bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz\x00\xff!"), count/39+1)[:count]
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestHandlersPutArtifactsThatAnybodyReads(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	for _, size := range []int{0, 1, artifactPartBytes, 2*artifactPartBytes + 5} {
		runArtifactTask(ctx, t, client, size)
	}
}

func runArtifactTask(ctx context.Context, t *testing.T, client *Client, size int) {
	t.Helper()
	data, id := someBytes(size), fmt.Sprintf("host-%d", size)
	host := NewHost(client, id, HostOptions{Slots: 1})
	action := fmt.Sprintf("put-%d", size)
	host.Handle(action, func(ctx context.Context, task *RunningTask) (any, error) {
		put, err := task.PutArtifact(ctx, "shot.png", bytes.NewReader(data), "image/png")
		if err != nil {
			return nil, err
		}
		read, err := task.ReadArtifact(ctx, "shot.png")
		return map[string]any{"size": put.Size, "same": bytes.Equal(read, data)}, err
	})
	runUntilTheEnd(t, host)
	ended := must(client.Run(ctx, NewTask{Action: action}))(t)
	if result, _ := ended.Result.(map[string]any); result["size"] != float64(size) || result["same"] != true {
		t.Error(ended.Result)
	}
	if len(ended.Artifacts) != 1 {
		t.Fatal(ended.Artifacts)
	}
	artifact := ended.Artifacts[0]
	if artifact.Name != "shot.png" || artifact.MediaType != "image/png" || artifact.Size != int64(size) ||
		artifact.SHA256 != sumOf(data) || artifact.Attempt != 1 || artifact.CreatedAt.IsZero() {
		t.Errorf("%+v", artifact)
	}
	if read := must(client.ReadArtifact(ctx, ended.ID, "shot.png"))(t); !bytes.Equal(read, data) {
		t.Errorf("%d bytes", len(read))
	}
}

// runUntilTheEnd runs a host until the test ends.
func runUntilTheEnd(t *testing.T, host *Host) {
	t.Helper()
	ctx, drain := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- host.Run(ctx) }()
	t.Cleanup(func() {
		drain()
		if err := receive(t, left); err != nil {
			t.Error(err)
		}
	})
}

func TestAttachedArtifactsAreThereForTheHandler(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	data := someBytes(artifactPartBytes + 1)
	submitted := must(client.Submit(ctx, NewTask{Action: "talk", Hold: true}))(t)
	attached := must(client.AttachArtifact(ctx, submitted.ID, "page.html", bytes.NewReader(data), ""))(t)
	if attached.Attempt != 0 || attached.MediaType != "application/octet-stream" {
		t.Errorf("%+v", attached)
	}
	must(client.Resume(ctx, submitted.ID))(t)
	_, err := client.AttachArtifact(ctx, submitted.ID, "page.html", bytes.NewReader(data), "")
	if CodeOf(err) != CodeConflict {
		t.Error(err)
	}
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		read, err := task.ReadArtifact(ctx, "page.html")
		if _, none := task.ReadArtifact(ctx, "none"); CodeOf(none) != CodeNotFound {
			return nil, fmt.Errorf("an artifact that is not there: %w", none)
		}
		return sumOf(read), err
	})
	if ended := must(client.Wait(ctx, submitted.ID))(t); ended.Result != sumOf(data) {
		t.Errorf("%+v", ended)
	}
}

func TestAnArtifactThatCannotBeReadIsAnError(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	submitted := must(client.Submit(ctx, NewTask{Action: "talk", Hold: true}))(t)
	for _, id := range []string{submitted.ID, "tsk_none"} {
		if _, err := client.ReadArtifact(ctx, id, "none"); CodeOf(err) != CodeNotFound {
			t.Error(err)
		}
	}
	_, err := client.AttachArtifact(ctx, submitted.ID, "../none", strings.NewReader("x"), "")
	if CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
	must(client.AttachArtifact(ctx, submitted.ID, "some", strings.NewReader("x"), ""))(t)
	full := errors.New("the disk is full")
	if err := client.CopyArtifact(ctx, brokenWriter{full}, submitted.ID, "some"); !errors.Is(err, full) {
		t.Error(err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestALargeResultComesBackAsItWas(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	text := strings.Repeat("€", 100_000)
	var result any
	runTalker(t, client, HostOptions{}, func(context.Context, *RunningTask) (any, error) { return result, nil })
	for _, result = range []any{
		map[string]any{"text": text, "n": 7}, Output{map[string]any{"text": text, "n": 1<<60 + 1}},
		Payload{[]byte(text), "mine"},
	} {
		ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t)
		if ended.Output == nil || len(ended.Artifacts) != 1 || ended.Artifacts[0].Name != "result.json" {
			t.Fatalf("%+v", ended.Artifacts)
		}
		if given, ok := result.(Payload); ok {
			if ended.Output.Encoding != "mine" || !bytes.Equal(ended.Output.Data, given.Data) {
				t.Error(ended.Output.Encoding)
			}
			continue
		}
		var found struct {
			Text string
			N    int
		}
		if err := ended.DecodeResult(&found); err != nil || found.Text != text || found.N != 7 && found.N != 1<<60+1 {
			t.Error(err, found.N)
		}
	}
}

func TestWhatOnlyLooksLikeAReferenceIsAResult(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	given := map[string]any{"$artifact": map[string]any{"name": "result.json", "sizeBytes": 1.0, "sha256": "00"}}
	runTalker(t, client, HostOptions{}, func(ctx context.Context, task *RunningTask) (any, error) {
		_, err := task.PutArtifact(ctx, "result.json", strings.NewReader("1"), "")
		return given, err
	})
	if ended := must(client.Run(ctx, NewTask{Action: "talk"}))(t); ended.Output != nil || ended.Result == nil {
		t.Errorf("%+v", ended)
	}
}

func TestParamsThatAreAnArtifactAreThereForTheHandler(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(_ context.Context, task *RunningTask) (any, error) {
		var found struct{ N int }
		err := task.DecodeParams(&found)
		return Output{map[string]any{"n": found.N, "params": len(task.Params)}}, err
	})
	for data, result := range map[string]string{
		`{"N": 7}`:                   `{"n":7,"params":1}`,
		`{"N": 1152921504606846977}`: `{"n":1152921504606846977,"params":0}`,
		`{"N"`:                       "",
	} {
		sum := sumOf([]byte(data))
		params := map[string]any{"$artifact": map[string]any{"name": "params.json", "sizeBytes": len(data), "sha256": sum}}
		submitted := must(client.Submit(ctx, NewTask{Action: "talk", Params: params, Hold: true}))(t)
		must(client.AttachArtifact(ctx, submitted.ID, "params.json", strings.NewReader(data), "application/json"))(t)
		must(client.Resume(ctx, submitted.ID))(t)
		ended := must(client.Wait(ctx, submitted.ID))(t)
		if result == "" {
			if ended.State != StateFailed || !strings.HasPrefix(ended.Error, "the params cannot be fetched") {
				t.Errorf("%+v", ended)
			}
			continue
		}
		var got, want struct{ N, Params int }
		if err := errors.Join(ended.DecodeResult(&got), (&Payload{Data: []byte(result)}).Decode(&want)); err != nil || got != want {
			t.Error(err, got, want)
		}
	}
}
