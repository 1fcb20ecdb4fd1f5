// Errors that say what helps: which credentials a refused call showed, and what the transport says misleadingly.

package taskyard

import (
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
)

// explained converts the error of a call as ErrorFrom does, and says what helps where it can.
func (s *settings) explained(err error) error {
	if err == nil {
		return nil
	}
	if _, isExplained := errors.AsType[*Error](err); isExplained {
		return err
	}
	found := errorFrom(err)
	switch found.Code {
	case CodeUnauthenticated:
		found.Reason = s.identity.withoutToken(found.Reason) + " (tried: " + s.identity.tried() + ")"
	case CodeUnavailable:
		if hint := s.security.hint(found.Reason); hint != "" {
			found.cause = errors.New(found.Reason)
			found.Reason = hint
		}
	}
	return found
}

// withoutToken returns a text of the server without the token, which it may have quoted.
func (i identity) withoutToken(text string) string {
	if i.token == nil {
		return text
	}
	i.token.mu.Lock()
	defer i.token.mu.Unlock()
	// A token of a few letters is part of other words.
	if len(i.token.token) < 8 {
		return text
	}
	return strings.ReplaceAll(text, i.token.token, "...")
}

// explainedStream is a stream whose errors are explained.
type explainedStream struct {
	grpc.ClientStream
	settings *settings
}

// RecvMsg receives a message.
func (e *explainedStream) RecvMsg(message any) error {
	err := e.ClientStream.RecvMsg(message)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return e.settings.explained(err)
}
