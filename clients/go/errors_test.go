// Errors: where their code, their details and their retry delay come from.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func statusWith(t *testing.T, code codes.Code, message string, details ...protoadapt.MessageV1) error {
	t.Helper()
	found, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return found.Err()
}

func errorInfo(domain, reason string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Domain: domain, Reason: reason, Metadata: map[string]string{"queued": "7"}}
}

func TestErrorOfAnEndedStreamIsUnavailable(t *testing.T) {
	if err := ErrorFrom(io.EOF); CodeOf(err) != CodeUnavailable {
		t.Error(err)
	}
}

func TestErrorTakesItsCodeFromTheErrorInfo(t *testing.T) {
	err := errorFrom(statusWith(t, codes.ResourceExhausted, "rejected: agent queue full", errorInfo("taskyard", "QUEUE_FULL"),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)}))
	if err.Code != CodeQueueFull || !err.Retryable || err.RetryAfter != 2*time.Second ||
		err.Reason != "rejected: agent queue full" || err.Details["queued"] != "7" || err.Status != codes.ResourceExhausted {
		t.Errorf("%+v", err)
	}
}

func TestErrorWithoutAnErrorInfoOfTheServerTakesItsCodeFromTheStatus(t *testing.T) {
	for code, want := range map[codes.Code]Code{
		codes.InvalidArgument: CodeBadRequest, codes.ResourceExhausted: CodeTooLarge, codes.NotFound: CodeNotFound,
		codes.Unavailable: CodeUnavailable, codes.Unimplemented: CodeUnimplemented, codes.DataLoss: CodeInternal,
		codes.OutOfRange: CodeCursorExpired, codes.Aborted: CodeLeaseLost, codes.Unknown: CodeInternal,
	} {
		err := errorFrom(statusWith(t, code, "no", errorInfo("proxy.example", "WHATEVER")))
		if err.Code != want || err.Retryable != (want == CodeUnavailable) || len(err.Details) != 0 {
			t.Errorf("%v: %+v", code, err)
		}
	}
}

func TestErrorKeepsACodeThatTheClientDoesNotKnow(t *testing.T) {
	if code := CodeOf(errorFrom(statusWith(t, codes.Aborted, "no", errorInfo("taskyard", "BRAND_NEW")))); code != "brand_new" {
		t.Error(code)
	}
}

func TestErrorIsFoundByErrorsAsAndByTheStatusPackage(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", ErrorFrom(statusWith(t, codes.NotFound, "no such task")))
	var found *Error
	if !errors.As(err, &found) || found.Reason != "no such task" {
		t.Errorf("%v", err)
	}
	if status.Code(err) != codes.NotFound || CodeOf(err) != CodeNotFound {
		t.Errorf("%v %v", status.Code(err), CodeOf(err))
	}
}

func TestErrorOfAnEndedContextIsTheErrorOfTheContext(t *testing.T) {
	for _, err := range []error{statusWith(t, codes.DeadlineExceeded, "late"), context.DeadlineExceeded} {
		if err := ErrorFrom(err); !errors.Is(err, context.DeadlineExceeded) || CodeOf(err) != CodeDeadlineExceeded {
			t.Errorf("%v", err)
		}
	}
	if err := ErrorFrom(context.Canceled); !errors.Is(err, context.Canceled) || CodeOf(err) != CodeCancelled {
		t.Errorf("%v", err)
	}
}

func TestErrorOfNilIsNil(t *testing.T) {
	if err := ErrorFrom(nil); err != nil {
		t.Error(err)
	}
	if err := itemError(nil); err != nil {
		t.Error(err)
	}
	if CodeOf(nil) != "" || CodeOf(io.ErrShortWrite) != CodeInternal {
		t.Error("codes of nil and of a foreign error")
	}
}

func TestErrorOfAnItemHasItsDetailsAsJSONValuesAndItsRetryDelay(t *testing.T) {
	details, err := structpb.NewStruct(map[string]any{"queued": 7})
	if err != nil {
		t.Fatal(err)
	}
	found := errorFrom(itemError(&taskyardv1.Error{
		Code: proto.String("queue_full"), Error: proto.String("full"), Details: details, RetryAfterMs: proto.Uint32(1500),
	}))
	if found.Code != CodeQueueFull || !found.Retryable || found.RetryAfter != 1500*time.Millisecond ||
		found.Details["queued"] != 7.0 {
		t.Errorf("%+v", found)
	}
}
