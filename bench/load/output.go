// The load of output: tasks that run and say something at a fixed rate, and followers that read some of it.

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// chunkBytes is the length of what a chunk says.
const chunkBytes = 40

// runOutput has -hosts hosts with -slots running tasks each, which say chunks in turn, -rate a second in all. A message of
// a host has -batch of them, each of another task. -watchers followers read the output of one task each. The operations
// are acknowledged chunks; the latencies are from when a chunk was due until its follower has it.
func runOutput(ctx context.Context, o *Options) (*Result, error) {
	filled := *o
	filled.Tasks = o.Hosts * o.Slots
	return during(ctx, func(w *work) (*Result, error) {
		meter, begin := &Meter{serverPID: o.ServerPID}, time.Now()
		if err := fill(w, meter, &filled); err != nil {
			return nil, err
		}
		speakers, err := connectSpeakers(w, o, begin)
		if err != nil {
			return nil, err
		}
		if err := startFollowers(w, o, meter, speakers, begin); err != nil {
			return nil, err
		}
		for number, speaker := range speakers {
			pace, err := newOpenPace(o.Rate/float64(o.Hosts*o.Batch), float64(number)/float64(o.Hosts))
			if err != nil {
				return nil, err
			}
			w.start(func(ctx context.Context) error {
				defer pace.close()
				return speaker.say(ctx, pace, o.Batch)
			})
			w.start(func(ctx context.Context) error { return speaker.listen(ctx, meter) })
		}
		return meter.Window(w.ctx, o)
	})
}

// speaker is a host whose tasks say something and do not end.
type speaker struct {
	host  *host
	tasks []*spokenTask
	next  int   // The task that says the next chunk.
	room  *room // For bytes that are sent and not acknowledged.
	begin time.Time
}

// spokenTask is a task under its lease: how many chunks it has said, and how many of them are acknowledged.
type spokenTask struct {
	id          string
	token       float64
	said, taken uint32
}

// connectSpeakers connects -hosts hosts, each over a connection of its own, and waits until each has all of its tasks.
func connectSpeakers(w *work, o *Options, begin time.Time) ([]*speaker, error) {
	connections, err := w.dial(o, o.Hosts)
	if err != nil {
		return nil, err
	}
	speakers := make([]*speaker, 0, o.Hosts)
	for number, connection := range connections {
		host, err := connectHost(w.ctx, connection, fmt.Sprintf("host-%s-%d", o.Action, number), o)
		if err != nil {
			return nil, err
		}
		if host.outputBytes < o.Batch*chunkBytes {
			return nil, fmt.Errorf("the server takes %d bytes of output at once", host.outputBytes)
		}
		speakers = append(speakers, &speaker{host: host, room: newRoom(host.outputBytes), begin: begin})
		if err := host.giveCredit(o.Slots); err != nil {
			return nil, err
		}
	}
	for _, speaker := range speakers {
		for len(speaker.tasks) < o.Slots {
			answer, err := speaker.host.stream.Recv()
			if err != nil {
				return nil, err
			}
			speaker.take(answer.GetAssignments().GetAssignments())
		}
	}
	return speakers, nil
}

func (s *speaker) take(assignments []*taskyardv1.Assignment) {
	for _, assignment := range assignments {
		lease := assignment.GetLease()
		s.tasks = append(s.tasks, &spokenTask{id: lease.GetTaskId(), token: lease.GetFencingToken()})
	}
}

// say sends messages when they are due, as long as the server lets so much be unacknowledged.
func (s *speaker) say(ctx context.Context, pace *pace, batch int) error {
	for pace.wait(ctx) == nil {
		if s.room.take(ctx, batch*chunkBytes) != nil {
			return nil
		}
		if err := s.host.stream.Send(s.message(batch, pace.due())); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// message has a chunk of each of the next tasks.
func (s *speaker) message(batch int, due time.Time) *taskyardv1.ConnectRequest {
	output := &taskyardv1.Output{Leases: make([]*taskyardv1.LeaseOutput, batch)}
	text := fmt.Sprintf("%-*d", chunkBytes, due.Sub(s.begin).Nanoseconds())
	for i := range output.Leases {
		task := s.tasks[s.next]
		s.next = (s.next + 1) % len(s.tasks)
		task.said++
		chunk := &taskyardv1.NewChunk{Data: &taskyardv1.NewChunk_Text{Text: text}}
		output.Leases[i] = &taskyardv1.LeaseOutput{
			TaskId: task.id, FencingToken: task.token, Number: task.said, Chunks: []*taskyardv1.NewChunk{chunk},
		}
	}
	return &taskyardv1.ConnectRequest{Message: &taskyardv1.ConnectRequest_Output{Output: output}}
}

// listen reads acknowledgements, and counts the chunks.
func (s *speaker) listen(ctx context.Context, meter *Meter) error {
	tasks := map[string]*spokenTask{}
	for _, task := range s.tasks {
		tasks[task.id] = task
	}
	for {
		answer, err := s.host.stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		chunks := 0
		for _, ack := range answer.GetOutputAcks().GetAcks() {
			if refusal := ack.GetError(); refusal != nil {
				return fmt.Errorf("a chunk was refused: %s", refusal.GetError())
			}
			if task := tasks[ack.GetTaskId()]; ack.GetTaken() > task.taken {
				chunks += int(ack.GetTaken() - task.taken)
				task.taken = ack.GetTaken()
			}
		}
		meter.Counted(chunks)
		s.room.free(chunks * chunkBytes)
	}
}

// startFollowers opens -watchers streams of ReadOutput, of tasks that are spread over all hosts, and reads them until the
// work ends. All are open when it returns.
func startFollowers(w *work, o *Options, meter *Meter, speakers []*speaker, begin time.Time) error {
	connections, err := w.dial(o, (o.Watchers+watchesPerConnection-1)/watchesPerConnection)
	if err != nil {
		return err
	}
	for number := range o.Watchers {
		tasks := speakers[number%len(speakers)].tasks
		request := &taskyardv1.ReadOutputRequest{TaskId: tasks[number*len(tasks)/o.Watchers].id, Follow: true}
		stub := taskyardv1.NewOutputServiceClient(connections[number%len(connections)])
		stream, err := stub.ReadOutput(w.ctx, request)
		if err != nil {
			return err
		}
		// The first message, which has no chunks, shows that the stream is open.
		if _, err := stream.Recv(); err != nil {
			return err
		}
		w.start(func(ctx context.Context) error { return follow(ctx, stream, meter, begin) })
	}
	return nil
}

func follow(
	ctx context.Context, stream grpc.ServerStreamingClient[taskyardv1.ReadOutputResponse], meter *Meter, begin time.Time,
) error {
	for last := uint32(0); ; {
		message, err := stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		at := time.Since(begin)
		for _, chunk := range message.GetChunks() {
			due, err := strconv.ParseInt(strings.TrimRight(chunk.GetText(), " "), 10, 64)
			if err != nil {
				return err
			}
			if last++; chunk.GetSequence() != last {
				return fmt.Errorf("chunk %d came in the place of %d", chunk.GetSequence(), last)
			}
			meter.Took(at - time.Duration(due))
		}
	}
}
