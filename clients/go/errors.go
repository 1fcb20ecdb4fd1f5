// The errors of calls: one type, with the codes of the API (docs/rules.md, Errors).

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// Code names a kind of error. A later server may have more codes.
type Code string

// The codes. The last four may also come from the client itself.
const (
	CodeBadRequest       Code = "bad_request"       // The request is invalid. The reason names the field.
	CodeBatchTooLarge    Code = "batch_too_large"   // The batch has too many tasks.
	CodeTooLarge         Code = "too_large"         // The params, the result or the message are too large.
	CodeUnauthenticated  Code = "unauthenticated"   // The credentials are missing or not valid.
	CodePermissionDenied Code = "permission_denied" // The credentials do not permit the call.
	CodeNotFound         Code = "not_found"         // The object does not exist, or is no longer retained.
	CodeConflict         Code = "conflict"          // The object is in the wrong state for the call.
	CodeLeaseLost        Code = "lease_lost"        // The lease has ended.
	CodeAlreadyExists    Code = "already_exists"    // The key or the id is in use for something else.
	CodeCursorExpired    Code = "cursor_expired"    // The cursor is older than the log of the server.
	CodeOutOfRange       Code = "out_of_range"      // The offset lies behind the end of the artifact.
	CodeQueueFull        Code = "queue_full"        // Too many tasks are queued. Retryable.
	CodeTooManyRequests  Code = "too_many_requests" // The caller has made too many calls. Retryable.
	CodeUnimplemented    Code = "unimplemented"     // The server does not have the call.
	CodeInternal         Code = "internal"          // A fault.
	CodeUnavailable      Code = "unavailable"       // The server cannot be reached, or drains. Retryable.
	// CodeDeadlineExceeded means that there was no answer in time. The server may have carried out the call.
	CodeDeadlineExceeded Code = "deadline_exceeded"
	// CodeCancelled means that the caller gave up. The server may have carried out the call.
	CodeCancelled Code = "cancelled"
)

const (
	errorDomain = "taskyard"
	// notOwner is the reason of a server that has done nothing, since another one serves the namespace. For users it is
	// one that is unavailable.
	notOwner = "NOT_OWNER"
)

// Error is the error of a call, or of one task of several, that was refused or did not reach the server. Find it with
// [errors.As], or use [CodeOf]. If the context ended the call, the error also is [context.Canceled] or
// [context.DeadlineExceeded] for [errors.Is].
type Error struct {
	// Code is the kind of error.
	Code Code
	// Reason is a text for people.
	Reason string
	// Retryable is true if the same request may succeed later.
	Retryable bool
	// RetryAfter is how long to wait before that, 0 if the server named no time.
	RetryAfter time.Duration
	// Details are figures for the code, such as those of a full queue. They are strings for the error of a call, and
	// JSON values for one task of a batch. Never nil.
	Details map[string]any
	// Status is the gRPC status of the call, codes.Unknown for one task of a batch.
	Status codes.Code

	cause     error
	elsewhere bool // Another server serves the namespace, and nothing was done.
}

// Error returns the code and the reason.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Reason }

// Unwrap returns the error of the context if the context ended the call, the words of the transport if the reason says
// better what helps, else nil.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus makes the status visible to status.FromError and status.Code.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Status, e.Reason) }

// CodeOf returns the code of an error of this package, "" for nil, and [CodeInternal] for any other error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if found, ok := errors.AsType[*Error](err); ok {
		return found.Code
	}
	return CodeInternal
}

// codeOfStatus has the codes of statuses without an ErrorInfo of the server: they come from gRPC itself or from a
// proxy.
var codeOfStatus = map[codes.Code]Code{
	codes.InvalidArgument: CodeBadRequest,
	// A message is over the size limit of gRPC itself.
	codes.ResourceExhausted:  CodeTooLarge,
	codes.Unauthenticated:    CodeUnauthenticated,
	codes.PermissionDenied:   CodePermissionDenied,
	codes.NotFound:           CodeNotFound,
	codes.FailedPrecondition: CodeConflict,
	codes.Aborted:            CodeLeaseLost,
	codes.AlreadyExists:      CodeAlreadyExists,
	codes.OutOfRange:         CodeCursorExpired,
	codes.Unavailable:        CodeUnavailable,
	codes.Unimplemented:      CodeUnimplemented,
	codes.DeadlineExceeded:   CodeDeadlineExceeded,
	codes.Canceled:           CodeCancelled,
}

// ErrorFrom converts the error of a stream over [Client.Conn] into an *[Error]. It returns nil for nil. The methods of
// [Client] and unary calls over [Client.Conn] return such errors already.
func ErrorFrom(err error) error {
	if err == nil {
		return nil
	}
	return errorFrom(err)
}

func errorFrom(err error) *Error {
	if found, ok := errors.AsType[*Error](err); ok {
		return found
	}
	if errors.Is(err, io.EOF) {
		return unavailable("the server ended the stream")
	}
	grpcStatus, ok := status.FromError(err)
	if !ok {
		grpcStatus = status.FromContextError(err)
	}
	found := &Error{
		Code: CodeInternal, Reason: grpcStatus.Message(), Details: map[string]any{}, Status: grpcStatus.Code(),
	}
	if code, ok := codeOfStatus[grpcStatus.Code()]; ok {
		found.Code = code
	}
	found.Retryable = isRetryable(found.Code)
	switch grpcStatus.Code() {
	case codes.DeadlineExceeded:
		found.cause = context.DeadlineExceeded
	case codes.Canceled:
		found.cause = context.Canceled
	}
	for _, detail := range grpcStatus.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == errorDomain {
				if found.elsewhere = detail.GetReason() == notOwner; !found.elsewhere {
					found.Code = Code(strings.ToLower(detail.GetReason()))
				}
				found.Retryable = found.Retryable || isRetryable(found.Code)
				for key, value := range detail.GetMetadata() {
					found.Details[key] = value
				}
			}
		case *errdetails.RetryInfo:
			found.Retryable = true
			found.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	return found
}

// itemError returns why one task of several was refused, nil if it was not (docs/rules.md, Refused items).
func itemError(message *taskyardv1.Error) error {
	if message == nil {
		return nil
	}
	code := Code(message.GetCode())
	details := message.GetDetails().AsMap()
	if details == nil {
		details = map[string]any{}
	}
	return &Error{
		Code: code, Reason: message.GetError(), Retryable: message.GetRetryable() || isRetryable(code),
		RetryAfter: fromMillis(message.GetRetryAfterMs()), Details: maps.Clone(details), Status: codes.Unknown,
	}
}

// streamItemError returns why a task on a submission stream was refused, nil if it was not. The error is equal to that
// of a unary call.
func streamItemError(message *taskyardv1.Error) error {
	if message == nil {
		return nil
	}
	found := errorFrom(itemError(message))
	found.Status = statusOf(found.Code)
	_, hasOwner := found.Details["owner"]
	found.elsewhere = hasOwner && found.Code == CodeUnavailable
	for key, value := range found.Details {
		if _, isText := value.(string); !isText {
			found.Details[key] = fmt.Sprint(value)
		}
	}
	return found
}

func statusOf(code Code) codes.Code {
	switch code {
	case CodeTooLarge, CodeBatchTooLarge:
		return codes.InvalidArgument
	case CodeQueueFull, CodeTooManyRequests:
		return codes.ResourceExhausted
	case CodeInternal:
		return codes.Internal
	case CodeOutOfRange:
		return codes.OutOfRange
	}
	for status, each := range codeOfStatus {
		if each == code {
			return status
		}
	}
	return codes.Unknown
}

func isRetryable(code Code) bool {
	return code == CodeQueueFull || code == CodeTooManyRequests || code == CodeUnavailable
}

// isElsewhere reports whether another server serves the namespace. Then nothing was done.
func (e *Error) isElsewhere() bool { return e.elsewhere }

// isTooMany reports whether the caller is to come again later. Then nothing was done.
func (e *Error) isTooMany() bool { return e.Code == CodeTooManyRequests }

// mayPass reports whether a call that is safe to repeat is repeated after the error.
func (e *Error) mayPass() bool {
	return e.Code == CodeUnavailable || e.Code == CodeTooManyRequests || e.Code == CodeCancelled
}

func badRequest(reason string) *Error {
	return &Error{Code: CodeBadRequest, Reason: reason, Details: map[string]any{}, Status: codes.InvalidArgument}
}

// encodingError returns why a message cannot be encoded, such as a text that is not UTF-8; nil if it can.
func encodingError(message proto.Message) error {
	if _, err := proto.Marshal(message); err != nil {
		return badRequest(err.Error())
	}
	return nil
}

func unavailable(reason string) *Error {
	return &Error{
		Code: CodeUnavailable, Reason: reason, Retryable: true, Details: map[string]any{}, Status: codes.Unavailable,
	}
}
