// How a handler fails its task: with a reason, a code and a time of its own, and where the work failed.

package taskyard

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// maxErrorBytes is how much of an error's text the server keeps.
	maxErrorBytes = 10_000
	// maxTracebackBytes is how much of a traceback the server keeps.
	maxTracebackBytes = 8_000
	// maxRetryAfter is the longest delay that the server takes.
	maxRetryAfter = 24 * time.Hour
	badInput      = "bad_input"
	badResult     = "bad_result"
)

// ActionFailed is an error of a handler that says how its task fails. With any other error the reason is the text of the
// error, and there is no code.
type ActionFailed struct {
	// Reason is the text for people. At most 10,000 bytes are sent. Default: the text of Err.
	Reason string
	// Code names the kind of failure. A retry policy may list it among the codes that are not retried. Default: none.
	Code string
	// Final prevents another attempt, whatever the retry policy allows. Default: false, the retry policy decides.
	Final bool
	// RetryAfter is the time until the next attempt, in the place of the delay of the retry policy: rounded up to
	// milliseconds, at most 24 h. A task without a policy then has as many attempts as the server hands it out,
	// maxDeliveries. Default: the retry policy decides.
	RetryAfter time.Duration
	// Err is the cause, which the traceback shows. Default: none.
	Err error
}

// TaskFailure is [ActionFailed] by its former name.
//
// Deprecated: use ActionFailed.
type TaskFailure = ActionFailed

// Error returns the reason.
func (f *ActionFailed) Error() string {
	if f.Reason == "" && f.Err != nil {
		return f.Err.Error()
	}
	return f.Reason
}

// Unwrap returns the cause, nil if there is none.
func (f *ActionFailed) Unwrap() error { return f.Err }

// Retry returns the error of a handler whose task is to be tried again after a time of its own: rounded up to
// milliseconds, at most 24 h; 0 leaves the delay to the retry policy. The cause may be nil.
func Retry(after time.Duration, cause error) error {
	failure := &ActionFailed{RetryAfter: after, Err: cause}
	if cause == nil {
		failure.Reason = "to be tried again"
	}
	return withCodeOf(failure, cause)
}

// NotRetryable returns the error of a handler whose task is not to be tried again. It returns nil for nil.
func NotRetryable(cause error) error {
	if cause == nil {
		return nil
	}
	return withCodeOf(&ActionFailed{Final: true, Err: cause}, cause)
}

// withCodeOf gives a failure the code of the failure that it wraps.
func withCodeOf(failure *ActionFailed, cause error) error {
	if within, ok := errors.AsType[*ActionFailed](cause); ok {
		failure.Code = within.Code
	}
	return failure
}

// tracebackOf returns the chain of an error, outermost first, with the type of each; and its stack, if it has one by the
// verb %+v. It returns "" for an ActionFailed without a cause, which says all by itself.
func tracebackOf(err error) string {
	if failure, ok := err.(*ActionFailed); ok {
		if err = failure.Err; err == nil {
			return ""
		}
	}
	var text strings.Builder
	appendChain(&text, err, "")
	// The innermost error says most: like the server, keep the end.
	found := text.String()
	return found[max(0, len(found)-maxTracebackBytes):]
}

func appendChain(text *strings.Builder, err error, indent string) {
	for err != nil {
		if _, hasStack := err.(fmt.Formatter); hasStack {
			fmt.Fprintf(text, "%s%T: %+v\n", indent, err, err)
			return
		}
		fmt.Fprintf(text, "%s%T: %s\n", indent, err, err.Error())
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			for _, each := range several.Unwrap() {
				appendChain(text, each, indent+"  ")
			}
			return
		}
		err = errors.Unwrap(err)
	}
}

// stackOfPanic returns the stack of a panic from where it was raised on, given that of the function that recovered. The
// first frames say most.
func stackOfPanic(stack []byte) string {
	if at := bytes.Index(stack, []byte("\npanic(")); at >= 0 {
		stack = stack[at+1:]
	}
	return string(stack[:min(len(stack), maxTracebackBytes)])
}
