// What a call can end with: one type, with the code words of the API (DESIGN, Errors).

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

// Code is the word that names a kind of error; a later server may know more of them.
type Code string

// The server's words. The last four also come from this side of the wire.
const (
	CodeBadRequest       Code = "bad_request"
	CodeBatchTooLarge    Code = "batch_too_large"
	CodeTooLarge         Code = "too_large"
	CodeUnauthenticated  Code = "unauthenticated"
	CodePermissionDenied Code = "permission_denied"
	CodeNotFound         Code = "not_found"
	CodeConflict         Code = "conflict"
	CodeLeaseLost        Code = "lease_lost"
	CodeAlreadyExists    Code = "already_exists"
	CodeCursorExpired    Code = "cursor_expired"
	CodeQueueFull        Code = "queue_full"
	CodeUnimplemented    Code = "unimplemented"
	CodeInternal         Code = "internal"
	CodeUnavailable      Code = "unavailable"
	// CodeDeadlineExceeded says that the answer did not come in time; the server may have done what was asked.
	CodeDeadlineExceeded Code = "deadline_exceeded"
	// CodeCancelled says that the call was given up; the server may have done what was asked.
	CodeCancelled Code = "cancelled"
)

const errorDomain = "taskyard"

// Error is what every call of this package ends with, or one task of a batch, that was refused or did not reach the
// server. Find it with errors.As, or ask CodeOf. A call whose context ended is also context.Canceled or
// context.DeadlineExceeded to errors.Is.
type Error struct {
	// Code is the kind of error.
	Code Code
	// Reason is the text for people.
	Reason string
	// Retryable tells whether the same request may work later.
	Retryable bool
	// RetryAfter is when, if the server said so.
	RetryAfter time.Duration
	// Details are figures for the code, such as those of a full queue: strings for a whole call, JSON values for one
	// task among several. Never nil.
	Details map[string]any
	// Status is the gRPC status of the call; codes.Unknown for one task among several.
	Status codes.Code

	cause error
}

// Error answers the code and the reason.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Reason }

// Unwrap answers the context's error if it was the context that ended the call.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus lets status.FromError and status.Code see the status.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Status, e.Reason) }

// CodeOf answers the code of an error of this package, "" for nil, and CodeInternal for any other error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if found, ok := errors.AsType[*Error](err); ok {
		return found.Code
	}
	return CodeInternal
}

// codeOfStatus is what a status means that comes without an ErrorInfo of ours: from gRPC itself, or a proxy.
var codeOfStatus = map[codes.Code]Code{
	codes.InvalidArgument: CodeBadRequest,
	// It is gRPC itself that speaks, of a message over its limit.
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

// ErrorFrom answers what a failed call means: an *Error, or nil for nil. The methods of Client and unary calls over
// Client.Conn answer such errors already; it is for streams over Client.Conn.
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
	what, ok := status.FromError(err)
	if !ok {
		what = status.FromContextError(err)
	}
	found := &Error{Code: CodeInternal, Reason: what.Message(), Details: map[string]any{}, Status: what.Code()}
	if code, ok := codeOfStatus[what.Code()]; ok {
		found.Code = code
	}
	found.Retryable = isRetryable(found.Code)
	switch what.Code() {
	case codes.DeadlineExceeded:
		found.cause = context.DeadlineExceeded
	case codes.Canceled:
		found.cause = context.Canceled
	}
	for _, detail := range what.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == errorDomain {
				found.Code = Code(strings.ToLower(detail.GetReason()))
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

// itemError answers why one task among several was refused, nil if it was not.
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
		RetryAfter: milliseconds(message.GetRetryAfterMs()), Details: maps.Clone(details), Status: codes.Unknown,
	}
}

// refusalOf answers why a task of a stream was refused, nil if it was not: as the call of its own would have answered.
func refusalOf(message *taskyardv1.Error) error {
	if message == nil {
		return nil
	}
	found := errorFrom(itemError(message))
	found.Status = statusOf(found.Code)
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
	case CodeQueueFull:
		return codes.ResourceExhausted
	case CodeInternal:
		return codes.Internal
	}
	for status, each := range codeOfStatus {
		if each == code {
			return status
		}
	}
	return codes.Unknown
}

func isRetryable(code Code) bool { return code == CodeQueueFull || code == CodeUnavailable }

func badRequest(reason string) *Error {
	return &Error{Code: CodeBadRequest, Reason: reason, Details: map[string]any{}, Status: codes.InvalidArgument}
}

// malformed answers why a message cannot be sent at all, such as text that is not UTF-8; nil if it can.
func malformed(message proto.Message) error {
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
