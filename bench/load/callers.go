package main

import (
	"context"
	"time"
)

// call makes one call and answers how many operations the server took and refused.
type call func(ctx context.Context) (taken, refused int, err error)

// callers has -inflight callers call one after another, the i-th by each(i), over the window. With -rate each of them
// keeps to its share.
func callers(w *work, o *Options, each func(caller int) call) (*Result, error) {
	meter := &Meter{serverPID: o.ServerPID}
	for number := range o.Inflight {
		one, pace := each(number), newPace(o.Rate/float64(o.Inflight), float64(number)/float64(o.Inflight))
		w.start(func(ctx context.Context) error {
			for pace.wait(ctx) == nil {
				begin := time.Now()
				taken, refused, err := one(ctx)
				if ctx.Err() != nil {
					break
				}
				if err != nil {
					meter.Failed(1, err.Error())
					continue
				}
				meter.Done(taken, time.Since(begin))
				meter.Failed(refused, "refused by admission")
			}
			return nil
		})
	}
	return meter.Window(w.ctx, o)
}
