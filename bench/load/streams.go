// The load of submission streams.

package main

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// submission is one stream of SubmitTasks. It sends messages without waiting for each answer.
type submission struct {
	stream grpc.BidiStreamingClient[taskyardv1.SubmitTasksRequest, taskyardv1.SubmitTasksResponse]
	tasks  *Tasks
	batch  int
	// window is the most messages without an answer.
	window int
	// before is called before each message, with the number of its tasks. It waits until the message may be sent.
	before func(ctx context.Context, tasks int) error
	// answered is called for each answer: how many tasks were accepted and refused, the reason of a refusal, and how
	// long the answer took.
	answered func(accepted, refused int, reason string, took time.Duration)
}

// run submits until the context ends, or a number of messages if that is not 0. It returns when all are answered.
func (s *submission) run(ctx context.Context, messages int) error {
	sentAt, room := make(chan time.Time, s.window), make(chan struct{}, s.window)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var sendError error
	var sender sync.WaitGroup
	sender.Go(func() {
		defer close(sentAt)
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
			sentAt <- time.Now()
			if sendError = s.stream.Send(request); sendError != nil {
				return
			}
		}
		_ = s.stream.CloseSend()
	})
	err := s.read(sentAt, room)
	stop()
	sender.Wait()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = sendError
	}
	return err
}

func (s *submission) read(sentAt <-chan time.Time, room <-chan struct{}) error {
	for begin := range sentAt {
		answer, err := s.stream.Recv()
		if err != nil {
			return err
		}
		refused, reason := 0, ""
		for _, outcome := range answer.GetOutcomes() {
			if refusal := outcome.GetError(); refusal != nil {
				refused, reason = refused+1, refusal.GetError()
			}
		}
		s.answered(len(answer.GetOutcomes())-refused, refused, reason, time.Since(begin))
		<-room
	}
	return nil
}

// openSubmissions opens -submitters streams over -connections connections. Each has an equal share of -rate. The meter
// counts refusals. The streams do not run yet.
func openSubmissions(w *work, meter *Meter, o *Options) ([]*submission, error) {
	connections, err := w.dial(o, o.Connections)
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
		pace, err := newOpenPace(o.Rate/float64(o.Submitters*o.Batch), float64(number)/float64(o.Submitters))
		if err != nil {
			return nil, err
		}
		submissions = append(submissions, &submission{
			stream: stream, tasks: tasks, batch: o.Batch, window: o.Inflight,
			before: func(ctx context.Context, _ int) error { return pace.wait(ctx) },
			answered: func(_, refused int, reason string, _ time.Duration) {
				meter.Failed(refused, reason)
			},
		})
	}
	return submissions, nil
}

// runStream submits tasks by SubmitTasks. The operations are accepted tasks.
func runStream(ctx context.Context, o *Options) (*Result, error) {
	return during(ctx, func(w *work) (*Result, error) {
		meter := &Meter{serverPID: o.ServerPID}
		submissions, err := openSubmissions(w, meter, o)
		if err != nil {
			return nil, err
		}
		for _, submission := range submissions {
			submission.answered = func(accepted, refused int, reason string, took time.Duration) {
				meter.Done(accepted, took)
				meter.Failed(refused, reason)
			}
			w.start(func(ctx context.Context) error { return submission.run(ctx, 0) })
		}
		return meter.Window(w.ctx, o)
	})
}
