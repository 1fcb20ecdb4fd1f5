// Watches across broken streams, cut connections and lost cursors.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func taskEvent(kind taskyardv1.TaskEvent_Kind, id string, state taskyardv1.Task_State) *taskyardv1.TaskEvent {
	return &taskyardv1.TaskEvent{Kind: &kind, Task: &taskyardv1.Task{TaskId: &id, State: &state}}
}

func sendEvents(stream watchStream, cursor string, events ...*taskyardv1.TaskEvent) {
	message := &taskyardv1.WatchTasksResponse{Events: events, Cursor: optional(cursor)}
	if len(events) == 0 {
		message.Bookmark = proto.Bool(true)
	}
	_ = stream.Send(message)
}

func sendEnd(stream watchStream, reason taskyardv1.WatchEnd_Reason) error {
	end := &taskyardv1.WatchEnd{Reason: &reason, Message: proto.String("end")}
	return stream.Send(&taskyardv1.WatchTasksResponse{End: end})
}

// collect returns the events of a watch as text: kind, task, state and cursor.
func collect(events iter.Seq2[*Event, error]) (lines []string, err error) {
	for event, err := range events {
		if err != nil {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", event.Kind, event.Task.ID, event.Task.State, event.Cursor))
	}
	return lines, nil
}

func TestWatchResumesAfterTheLastCursorWhateverBreaksTheStream(t *testing.T) {
	for name, end := range map[string]func(watchStream) error{
		"end of the stream": func(watchStream) error { return nil },
		"unavailable":       func(watchStream) error { return status.Error(codes.Unavailable, "down") },
		"internal":          func(watchStream) error { return status.Error(codes.Internal, "RST_STREAM") },
		"shutdown":          func(s watchStream) error { return sendEnd(s, taskyardv1.WatchEnd_shutdown) },
		"internal end":      func(s watchStream) error { return sendEnd(s, taskyardv1.WatchEnd_internal) },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeServer{watchTasks: func(number int, stream watchStream) error {
				if number == 1 {
					sendEvents(stream, "c1")
					sendEvents(stream, "c2", taskEvent(taskyardv1.TaskEvent_submitted, "a", taskyardv1.Task_queued),
						taskEvent(taskyardv1.TaskEvent_changed, "a", taskyardv1.Task_running))
					return end(stream)
				}
				sendEvents(stream, "c3", taskEvent(taskyardv1.TaskEvent_changed, "a", taskyardv1.Task_done))
				return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
			}}
			lines, err := collect(serve(t, f).Watch(testContext(t), WatchOptions{TaskIDs: []string{"a"}, UntilEnded: true}))
			want := []string{"submitted a queued c1", "changed a running c2", "changed a done c3"}
			if err != nil || !slices.Equal(lines, want) {
				t.Error(lines, err)
			}
			if second := f.watches[1]; second.GetCursor() != "c2" || !second.GetUntilEnded() || second.GetTaskIds()[0] != "a" {
				t.Error(second)
			}
		})
	}
}

func TestWatchYieldsNoCurrentTaskTwiceWhenItsStreamBreaks(t *testing.T) {
	f := &fakeServer{watchTasks: func(number int, stream watchStream) error {
		sendEvents(stream, "", taskEvent(taskyardv1.TaskEvent_current, "a", taskyardv1.Task_queued))
		if number == 1 {
			sendEvents(stream, "", taskEvent(taskyardv1.TaskEvent_current, "b", taskyardv1.Task_queued))
			return status.Error(codes.Unavailable, "down")
		}
		sendEvents(stream, "", taskEvent(taskyardv1.TaskEvent_current, "b", taskyardv1.Task_running))
		sendEvents(stream, "c1")
		return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
	}}
	lines, err := collect(serve(t, f).Watch(testContext(t), WatchOptions{IncludeCurrent: true}))
	want := []string{"current a queued ", "current b queued ", "current b running "}
	if err != nil || !slices.Equal(lines, want) {
		t.Error(lines, err)
	}
	if second := f.watches[1]; !second.GetIncludeCurrent() || second.Cursor != nil {
		t.Error(second)
	}
}

func TestWatchBeginsAgainWhenItsCursorHasExpired(t *testing.T) {
	f := &fakeServer{watchTasks: func(number int, stream watchStream) error {
		switch number {
		case 1:
			return status.Error(codes.OutOfRange, "it has left the log")
		case 2:
			sendEvents(stream, "", taskEvent(taskyardv1.TaskEvent_current, "a", taskyardv1.Task_running))
			sendEvents(stream, "c1")
			return sendEnd(stream, taskyardv1.WatchEnd_cursor_expired)
		}
		sendEvents(stream, "", taskEvent(taskyardv1.TaskEvent_current, "a", taskyardv1.Task_done))
		sendEvents(stream, "c2")
		return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
	}}
	lines, err := collect(serve(t, f).Watch(testContext(t), WatchOptions{Cursor: "old"}))
	if want := []string{"current a running ", "current a done "}; err != nil || !slices.Equal(lines, want) {
		t.Error(lines, err)
	}
	if f.watches[0].GetCursor() != "old" || !f.watches[1].GetIncludeCurrent() || !f.watches[2].GetIncludeCurrent() {
		t.Error(f.watches)
	}
}

func TestWatchEndsWithTheErrorWhenTheServerRefusesIt(t *testing.T) {
	f := &fakeServer{watchTasks: func(int, watchStream) error { return status.Error(codes.InvalidArgument, "no such state") }}
	if _, err := collect(serve(t, f).Watch(testContext(t), WatchOptions{})); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
}

func TestWatchWithAFilterThatCannotBeEncodedIsABadRequest(t *testing.T) {
	client := serve(t, &fakeServer{})
	if lines, err := collect(client.Watch(testContext(t), WatchOptions{AgentID: "\xff"})); CodeOf(err) != CodeBadRequest {
		t.Errorf("%v, %v", lines, err)
	}
}

func TestWatchEndsAsUnavailableAfterItsPatience(t *testing.T) {
	client := connect(t, freeAddress(), WithPatience(50*time.Millisecond))
	if _, err := collect(client.Watch(testContext(t), WatchOptions{})); CodeOf(err) != CodeUnavailable {
		t.Error(err)
	}
}

func TestWatchReplacesASilentStream(t *testing.T) {
	f := &fakeServer{watchTasks: func(number int, stream watchStream) error {
		if number == 1 {
			<-stream.Context().Done()
			return nil
		}
		return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
	}}
	client := serve(t, f)
	w := &watch{
		streams: newStreams(client, "the watch"), filter: &taskyardv1.WatchTasksRequest{},
		current: map[string]uint64{}, yield: func(*Event, error) bool { return true },
	}
	w.silenceTimeout = 20 * time.Millisecond
	// Where the machine is busy others are silent for so long, too.
	if err := w.run(testContext(t)); err != nil || len(f.watches) < 2 {
		t.Error(err, len(f.watches))
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	client := connect(t, address)
	ctx, cancel := context.WithCancel(testContext(t))
	task := must(client.Submit(ctx, NewTask{Action: "echo"}))(t)
	_, err := collect(func(yield func(*Event, error) bool) {
		for event, err := range client.Watch(ctx, WatchOptions{TaskIDs: []string{task.ID}, IncludeCurrent: true}) {
			cancel()
			if !yield(event, err) {
				return
			}
		}
	})
	if !errors.Is(err, context.Canceled) || CodeOf(err) != CodeCancelled {
		t.Error(err)
	}
}

func TestWatchLeavesNoGoroutinesWhenItsLoopIsLeft(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	must(client.Submit(ctx, NewTask{Action: "echo"}))(t)
	before := runtime.NumGoroutine()
	for range 10 {
		for _, err := range client.Watch(ctx, WatchOptions{IncludeCurrent: true}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	expectGoroutines(t, before)
}

func TestWatchResumesAcrossCutConnectionsWithoutGapOrRepeat(t *testing.T) {
	proxy := startProxy(t, address)
	ctx := testContext(t)
	client, watcher := connect(t, address, WithNamespace("watch-cut")), connect(t, proxy.address, WithNamespace("watch-cut"))
	batch := must(client.SubmitBatch(ctx, NewBatch{Tasks: slices.Repeat([]NewTask{{Action: "echo", Hold: true}}, 3)}))(t)
	ids := batch.TaskIDs()
	var seen []string
	for event, err := range watcher.Watch(ctx, WatchOptions{BatchID: batch.ID, IncludeCurrent: true, UntilEnded: true}) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprintf("%s %d %s", event.Kind, slices.Index(ids, event.Task.ID), event.Task.State))
		switch len(seen) {
		case 3:
			must(client.Resume(ctx, ids[0]))(t)
		case 4:
			proxy.block()
			must(client.Cancel(ctx, ids[0]))(t)
			must(client.Cancel(ctx, ids[1]))(t)
			proxy.unblock()
		case 5:
			proxy.cut()
		case 6:
			proxy.cut()
			must(client.Cancel(ctx, ids[2]))(t)
		}
	}
	if want := []string{
		"current 0 pending", "current 1 pending", "current 2 pending", "changed 0 queued", "changed 0 cancelled",
		"changed 1 cancelled", "changed 2 cancelled",
	}; !slices.Equal(seen, want) {
		t.Error(seen)
	}
}

func TestWatchUntilEndedShowsEachTaskAsEndedOnce(t *testing.T) {
	for untilEnded, want := range map[bool]int{true: 2, false: 4} {
		f := &fakeServer{watchTasks: func(_ int, stream watchStream) error {
			sendEvents(stream, "1", taskEvent(taskyardv1.TaskEvent_changed, "a", taskyardv1.Task_failed))
			sendEvents(stream, "2", taskEvent(taskyardv1.TaskEvent_changed, "a", taskyardv1.Task_cancelled),
				taskEvent(taskyardv1.TaskEvent_evicted, "a", taskyardv1.Task_cancelled))
			sendEvents(stream, "3", taskEvent(taskyardv1.TaskEvent_changed, "b", taskyardv1.Task_done))
			return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
		}}
		options := WatchOptions{TaskIDs: []string{"a", "b"}, UntilEnded: untilEnded}
		if lines, err := collect(serve(t, f).Watch(testContext(t), options)); err != nil || len(lines) != want {
			t.Error(untilEnded, lines, err)
		}
	}
}

func TestWatchTellsOfAGap(t *testing.T) {
	f := &fakeServer{watchTasks: func(number int, stream watchStream) error {
		if number == 1 {
			return sendEnd(stream, taskyardv1.WatchEnd_cursor_expired)
		}
		return sendEnd(stream, taskyardv1.WatchEnd_tasks_ended)
	}}
	gaps := 0
	options := WatchOptions{BatchID: "b", Cursor: "old", UntilEnded: true, OnGap: func(reason string) { gaps += len(reason) }}
	if lines, err := collect(serve(t, f).Watch(testContext(t), options)); err != nil || len(lines) > 0 || gaps != len("end") {
		t.Error(lines, err, gaps)
	}
}
