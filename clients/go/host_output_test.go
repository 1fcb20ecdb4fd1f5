// Hosts whose tasks say something, and readers of it, against the real server.

package taskyard

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// runTalker runs a host of one action, talk, until the test ends.
func runTalker(t *testing.T, client *Client, options HostOptions, handler Handler) {
	t.Helper()
	host := NewHost(client, "talker", options)
	host.Handle("talk", handler)
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

func readAll(t *testing.T, chunks iter.Seq2[*OutputChunk, error]) (found []*OutputChunk) {
	t.Helper()
	for chunk, err := range chunks {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, chunk)
	}
	return found
}

func TestReadersGetWhatATaskSays(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	runTalker(t, client, HostOptions{}, func(_ context.Context, task *RunningTask) (any, error) {
		return nil, errors.Join(
			task.Emit("grüß"), task.EmitTo("stdout", []byte{0xff}), task.EmitTo("log", map[string]any{"n": 1}), task.Emit(nil),
			task.Emit(strings.Repeat("€", maxChunkBytes)),
		)
	})
	id := must(client.Submit(ctx, NewTask{Action: "talk"}))(t).ID
	followed := readAll(t, client.Output(ctx, id, OutputOptions{Follow: true}))
	if len(followed) != 8 {
		t.Fatalf("%d chunks", len(followed))
	}
	for i, chunk := range followed {
		if chunk.Sequence != uint32(i+1) || chunk.Attempt != 1 || chunk.TakenAt.IsZero() {
			t.Errorf("%+v", chunk)
		}
	}
	object, _ := followed[2].JSON.(map[string]any)
	if followed[0].Text != "grüß" || followed[0].Channel != "output" || followed[1].Channel != "stdout" ||
		!slices.Equal(followed[1].Binary, []byte{0xff}) || object["n"] != 1.0 || !followed[3].IsJSON || followed[3].JSON != nil {
		t.Errorf("%+v", followed)
	}
	long := ""
	for _, chunk := range readAll(t, client.Output(ctx, id, OutputOptions{After: 4, Channels: []string{"output"}})) {
		long += chunk.Text
	}
	if long != strings.Repeat("€", maxChunkBytes) {
		t.Errorf("%d bytes", len(long))
	}
	if logs := readAll(t, client.Output(ctx, id, OutputOptions{Channels: []string{"log"}})); len(logs) != 1 {
		t.Error(logs)
	}
	_, err := collectOutput(client.Output(ctx, "tsk_none", OutputOptions{Follow: true}))
	if CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
}

func collectOutput(chunks iter.Seq2[*OutputChunk, error]) (count int, err error) {
	for _, err := range chunks {
		if err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

func TestOutputGoesOnAcrossBrokenConnections(t *testing.T) {
	hostProxy, readerProxy, namespace := startProxy(t, address), startProxy(t, address), WithNamespace("output-breaks")
	const count = 3000
	half := make(chan bool)
	var begun atomic.Int32
	client := connect(t, address, namespace)
	ctx := testContext(t)
	runTalker(t, connect(t, hostProxy.address, namespace), HostOptions{}, func(_ context.Context, task *RunningTask) (any, error) {
		begun.Add(1)
		for i := range count {
			if i%1000 == 500 {
				<-half
			}
			if err := task.Emit(i); err != nil {
				return nil, err
			}
		}
		return "done", nil
	})
	id := must(client.Submit(ctx, NewTask{Action: "talk"}))(t).ID
	reader := connect(t, readerProxy.address, namespace)
	next := 0
	for chunk, err := range reader.Output(ctx, id, OutputOptions{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk.JSON != float64(next) {
			t.Fatalf("%v instead of %d", chunk.JSON, next)
		}
		if next++; next%1000 == 500 {
			readerProxy.cut()
			half <- true
			hostProxy.cut()
		}
	}
	if task := must(client.Wait(ctx, id))(t); next != count || task.Result != "done" || begun.Load() != 1 {
		t.Errorf("%d chunks, %+v", next, task)
	}
}

func TestSayingWaitsForRoomAndFailsOnceTheLeaseIsLost(t *testing.T) {
	proxy, namespace := startProxy(t, address), WithNamespace("output-room")
	client, ctx := connect(t, address, namespace), testContext(t)
	ended := make(chan error, 1)
	begun, release := make(chan bool, 1), make(chan bool)
	options := HostOptions{Lease: time.Second}
	runTalker(t, connect(t, proxy.address, namespace), options, func(ctx context.Context, task *RunningTask) (any, error) {
		if task.FencingToken > 1 {
			return nil, nil
		}
		begun <- true
		<-release
		for {
			if err := task.Emit(make([]byte, 50_000)); err != nil {
				ended <- err
				return nil, err
			}
		}
	})
	must(client.Submit(ctx, NewTask{Action: "talk"}))(t)
	receive(t, begun)
	proxy.block()
	close(release)
	if err := receive(t, ended); !isStop(err, "lease_lost") {
		t.Error(err)
	}
	proxy.unblock()
}

func TestMalformedChannelIsRefusedBeforeItIsSaid(t *testing.T) {
	task := &RunningTask{}
	for _, channel := range []string{"", "a b", strings.Repeat("x", 65)} {
		if err := task.EmitTo(channel, "x"); err == nil || !strings.Contains(err.Error(), "channel") {
			t.Error(channel, err)
		}
	}
}

func TestReaderIsToldWhatWasDroppedToMakeRoom(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	const count = 60
	runTalker(t, client, HostOptions{}, func(_ context.Context, task *RunningTask) (any, error) {
		for range count {
			if err := task.Emit(make([]byte, 50_000)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	id := must(client.Run(ctx, NewTask{Action: "talk"}))(t).ID
	dropped := 0
	kept := readAll(t, client.Output(ctx, id, OutputOptions{OnDropped: func(chunks int) { dropped += chunks }}))
	if dropped == 0 || dropped+len(kept) != count || kept[0].Sequence != uint32(dropped+1) {
		t.Errorf("%d dropped, %d kept", dropped, len(kept))
	}
}
