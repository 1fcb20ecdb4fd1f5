package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// acksOnly is the stream of a host that gets these acknowledgements, and then its end.
type acksOnly struct {
	grpc.BidiStreamingClient[taskyardv1.ConnectRequest, taskyardv1.ConnectResponse]
	acks []*taskyardv1.OutputAck
}

func (a *acksOnly) Recv() (*taskyardv1.ConnectResponse, error) {
	if len(a.acks) == 0 {
		return nil, io.EOF
	}
	acks := &taskyardv1.OutputAcks{Acks: a.acks[:1]}
	a.acks = a.acks[1:]
	return &taskyardv1.ConnectResponse{Message: &taskyardv1.ConnectResponse_OutputAcks{OutputAcks: acks}}, nil
}

func threeTasks(acks ...*taskyardv1.OutputAck) *speaker {
	speaker := &speaker{host: &host{stream: &acksOnly{acks: acks}}, room: newRoom(0), begin: time.Now()}
	for _, id := range []string{"a", "b", "c"} {
		lease := &taskyardv1.Lease{TaskId: proto.String(id), FencingToken: proto.Float64(7)}
		speaker.take([]*taskyardv1.Assignment{{Lease: lease}})
	}
	return speaker
}

func TestTasksSayChunksInTurnAndNumberThem(t *testing.T) {
	speaker := threeTasks()
	var said []string
	for range 2 {
		for _, lease := range speaker.message(2, speaker.begin.Add(time.Millisecond)).GetOutput().GetLeases() {
			text := lease.GetChunks()[0].GetText()
			said = append(said, fmt.Sprintf("%s %d %v %.7s %d", lease.GetTaskId(), lease.GetNumber(), lease.GetFencingToken(), text, len(text)))
		}
	}
	expected := []string{"a 1 7 1000000 40", "b 1 7 1000000 40", "c 1 7 1000000 40", "a 2 7 1000000 40"}
	if !slices.Equal(said, expected) {
		t.Errorf("said %v", said)
	}
}

func TestAcknowledgedChunksAreCountedOnceAndLeaveRoom(t *testing.T) {
	speaker := threeTasks(
		&taskyardv1.OutputAck{TaskId: "a", Taken: 2},
		&taskyardv1.OutputAck{TaskId: "a", Taken: 2},
		&taskyardv1.OutputAck{TaskId: "b", Taken: 1},
	)
	meter := &Meter{}
	meter.Open()
	if err := speaker.listen(context.Background(), meter); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if result, _ := meter.Close(); result.Operations != 3 || speaker.room.left != 3*chunkBytes {
		t.Errorf("%d chunks, room for %d bytes", result.Operations, speaker.room.left)
	}
}

func TestARefusedChunkEndsTheLoad(t *testing.T) {
	speaker := threeTasks(&taskyardv1.OutputAck{TaskId: "a", Error: &taskyardv1.Error{Error: proto.String("no")}})
	if err := speaker.listen(context.Background(), &Meter{}); err == nil || err.Error() != "a chunk was refused: no" {
		t.Error(err)
	}
}
