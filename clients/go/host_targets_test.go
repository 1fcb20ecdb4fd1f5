// Tasks with a target: they begin when their start report was answered, also after a break of the stream
// (docs/rules.md, Acknowledged starts).

package taskyard

import (
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func targetTask() *taskyardv1.Task {
	return &taskyardv1.Task{Action: proto.String("work"), Target: proto.String("page")}
}

// loseStartReport hands out a task and breaks the stream once its start report has arrived.
func loseStartReport(t *testing.T, host *fakeHostStream) error {
	if _, err := host.welcome(); err != nil {
		return err
	}
	if err := host.assign("a", targetTask()); err != nil {
		return err
	}
	reports, err := host.reports()
	if err != nil {
		return err
	}
	if reports[0].GetStarted() == nil {
		t.Errorf("the first report is %v", reports[0])
	}
	return status.Error(codes.Unavailable, "the stream breaks before the start report is read")
}

func TestTargetTaskWhoseStartReportWasLostBeginsWhenTheNextStreamAcceptsTheReport(t *testing.T) {
	reported := make(chan *taskyardv1.Report, 10)
	ready := make(chan *atomic.Int32, 1)
	f := &fakeServer{connectHost: func(number int, host *fakeHostStream) error {
		if number == 1 {
			return loseStartReport(t, host)
		}
		hello, err := host.welcome("a")
		if err != nil {
			return err
		}
		if held := heldNames(hello.GetLeases()); !slices.Equal(held, []string{"a"}) {
			t.Errorf("the second Hello lists %v", held)
		}
		reports, err := host.reports()
		if err != nil {
			return err
		}
		if reports[0].GetStarted() == nil {
			t.Errorf("the first report on the second stream is %v", reports[0])
		}
		if begun := (<-ready).Load(); begun != 0 {
			t.Errorf("%d handlers began before the start report was answered", begun)
		}
		if err := host.answer(reports, ""); err != nil {
			return err
		}
		return host.acceptAll(func(report *taskyardv1.Report) { reported <- report })
	}}
	begun := countHandlers(t, f)
	ready <- begun
	if report := receive(t, reported); report.GetCompleted() == nil {
		t.Errorf("the outcome is %v", report)
	}
	if begun.Load() != 1 {
		t.Errorf("%d handlers began", begun.Load())
	}
}

func TestTargetTaskWhoseStartReportWasLostNeverRunsWhenItsLeaseIsLostToo(t *testing.T) {
	reported := make(chan *taskyardv1.Report, 10)
	f := &fakeServer{connectHost: func(number int, host *fakeHostStream) error {
		if number == 1 {
			return loseStartReport(t, host)
		}
		if _, err := host.welcome(); err != nil {
			return err
		}
		return host.acceptAll(func(report *taskyardv1.Report) { reported <- report })
	}}
	begun := countHandlers(t, f)
	if report := receive(t, reported); report.GetReleased() == nil {
		t.Errorf("the report is %v", report)
	}
	if begun.Load() != 0 {
		t.Errorf("%d handlers began", begun.Load())
	}
}

func TestTargetTaskWhoseStartReportIsRefusedNeverRuns(t *testing.T) {
	for _, code := range []Code{CodeLeaseLost, CodeNotFound, CodeInternal} {
		t.Run(string(code), func(t *testing.T) {
			reported := make(chan *taskyardv1.Report, 10)
			f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
				if _, err := host.welcome(); err != nil {
					return err
				}
				if err := host.assign("a", targetTask()); err != nil {
					return err
				}
				reports, err := host.reports()
				if err != nil {
					return err
				}
				if err := host.answer(reports, code); err != nil {
					return err
				}
				return host.acceptAll(func(report *taskyardv1.Report) { reported <- report })
			}}
			begun := countHandlers(t, f)
			if report := receive(t, reported); report.GetReleased() == nil {
				t.Errorf("the report is %v", report)
			}
			if begun.Load() != 0 {
				t.Errorf("%d handlers began", begun.Load())
			}
		})
	}
}

func TestTaskWithoutATargetBeginsBeforeItsStartReportIsAnswered(t *testing.T) {
	begins := make(chan bool, 1)
	f := &fakeServer{connectHost: func(_ int, host *fakeHostStream) error {
		if _, err := host.welcome(); err != nil {
			return err
		}
		if err := host.assign("a", &taskyardv1.Task{Action: proto.String("work")}); err != nil {
			return err
		}
		start, err := host.reports()
		if err != nil {
			return err
		}
		// The outcome arrives while the start report has no answer.
		outcome, err := host.reports()
		if err != nil {
			return err
		}
		begins <- outcome[0].GetCompleted() != nil
		if err := host.answer(start, ""); err != nil {
			return err
		}
		if err := host.answer(outcome, ""); err != nil {
			return err
		}
		return host.acceptAll(func(*taskyardv1.Report) {})
	}}
	countHandlers(t, f)
	if !receive(t, begins) {
		t.Error("the task did not run")
	}
}
