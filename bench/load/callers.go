// Loads of unary calls: callers that call one after the other.

package main

import (
	"context"
	"time"
)

// call makes one call. It returns how many operations the server accepted and refused.
type call func(ctx context.Context) (accepted, refused int, err error)

// runCallers runs -inflight callers, of which each calls without a pause, and measures them. newCall returns the call
// of one caller. With -rate each caller has an equal share of the rate.
func runCallers(w *work, o *Options, newCall func(caller int) call) (*Result, error) {
	meter := &Meter{serverPID: o.ServerPID}
	for number := range o.Inflight {
		call, pace := newCall(number), newPace(o.Rate/float64(o.Inflight), float64(number)/float64(o.Inflight))
		w.start(func(ctx context.Context) error {
			for pace.wait(ctx) == nil {
				begin := time.Now()
				accepted, refused, err := call(ctx)
				if ctx.Err() != nil {
					break
				}
				if err != nil {
					meter.Failed(1, err.Error())
					continue
				}
				meter.Done(accepted, time.Since(begin))
				meter.Failed(refused, "refused by admission")
			}
			return nil
		})
	}
	return meter.Window(w.ctx, o)
}
