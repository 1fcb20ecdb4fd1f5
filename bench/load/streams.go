package main

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// submission is one stream of SubmitTasks with some messages unanswered.
type submission struct {
	stream grpc.BidiStreamingClient[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse]
	tasks  *Tasks
	batch  int
	// The most messages that may be unanswered.
	window int
	// before is asked before each message for leave to send that many tasks.
	before func(ctx context.Context, tasks int) error
	// answered is told of each answer: tasks taken, tasks refused and why, and how long it took.
	answered func(taken, refused int, why string, took time.Duration)
}

// run submits until the context ends, or as many messages as told if that is not 0, and reads all answers.
func (s *submission) run(ctx context.Context, messages int) error {
	sent, room := make(chan time.Time, s.window), make(chan struct{}, s.window)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	var sender sync.WaitGroup
	sender.Go(func() {
		defer close(sent)
		for number := 0; messages == 0 || number < messages; number++ {
			select {
			case room <- struct{}{}:
			case <-sending.Done():
				return
			}
			if s.before(sending, s.batch) != nil {
				return
			}
			request := s.tasks.Many(s.batch)
			sent <- time.Now()
			if failed = s.stream.Send(request); failed != nil {
				return
			}
		}
		_ = s.stream.CloseSend()
	})
	err := s.read(sent, room)
	stop()
	sender.Wait()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = failed
	}
	return err
}

func (s *submission) read(sent <-chan time.Time, room <-chan struct{}) error {
	for begin := range sent {
		answer, err := s.stream.Recv()
		if err != nil {
			return err
		}
		refused, why := 0, ""
		for _, outcome := range answer.GetOutcomes() {
			if failure := outcome.GetError(); failure != nil {
				refused, why = refused+1, failure.GetError()
			}
		}
		s.answered(len(answer.GetOutcomes())-refused, refused, why, time.Since(begin))
		<-room
	}
	return nil
}

// openSubmissions opens -submitters streams over -connections, each of which keeps to its share of -rate. Refusals go
// to the meter; the streams do not run yet.
func openSubmissions(w *work, meter *Meter, o *Options) ([]*submission, error) {
	connections, err := w.dial(o.Address, o.Connections)
	if err != nil {
		return nil, err
	}
	tasks := newTasks(o)
	submissions := make([]*submission, 0, o.Submitters)
	for number := range o.Submitters {
		stub := taskyardv1.NewTaskServiceClient(connections[number%len(connections)])
		stream, err := stub.SubmitTasks(w.ctx)
		if err != nil {
			return nil, err
		}
		pace := newPace(o.Rate/float64(o.Submitters*o.Batch), float64(number)/float64(o.Submitters))
		submissions = append(submissions, &submission{
			stream: stream, tasks: tasks, batch: o.Batch, window: o.Inflight,
			before: func(ctx context.Context, _ int) error { return pace.wait(ctx) },
			answered: func(_, refused int, why string, _ time.Duration) {
				meter.Failed(refused, why)
			},
		})
	}
	return submissions, nil
}

// runStream submits tasks by SubmitTasks; its operations are tasks taken.
func runStream(ctx context.Context, o *Options) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		meter := &Meter{serverPID: o.ServerPID}
		submissions, err := openSubmissions(w, meter, o)
		if err != nil {
			return nil, err
		}
		for _, one := range submissions {
			one.answered = func(taken, refused int, why string, took time.Duration) {
				meter.Done(taken, took)
				meter.Failed(refused, why)
			}
			w.start(func(ctx context.Context) error { return one.run(ctx, 0) })
		}
		return meter.Window(w.ctx, o)
	})
}
