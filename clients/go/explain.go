// Errors that say what helps: which credentials a refused call showed, and what the transport says misleadingly.

package taskyard

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

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
		raw := found.Reason
		if hint := s.security.hint(raw); hint != "" {
			found.cause, found.Reason = errors.New(raw), hint
		} else if why := whyUnreachable(raw); why != "" {
			found.cause, found.Reason = errors.New(raw), "no server answers at "+s.servers+" ("+why+")"
			found.Details["transport"] = raw
		}
	}
	return found
}

// whyUnreachable returns in a few words why no connection was made, "" if the words are not those of a transport that
// made none.
func whyUnreachable(raw string) string {
	if !strings.Contains(raw, "Error while dialing") && !strings.HasPrefix(raw, "name resolver error") {
		return ""
	}
	for _, each := range []string{
		"connection refused", "no such host", "no such file", "permission denied", "no route to host",
		"network is unreachable", "i/o timeout", "deadline exceeded", "connection reset",
	} {
		if strings.Contains(raw, each) {
			return each
		}
	}
	return "it cannot be reached"
}

// outageLog tells once of each outage, when its first call fails, and once of its end: the calls of many goroutines fail
// at the same time.
type outageLog struct{ since atomic.Pointer[time.Time] }

// failed notes the error of an attempt. Those of hosts are logged by themselves.
func (s *settings) failed(ctx context.Context, err error) error {
	found, ok := errors.AsType[*Error](err)
	if !ok || found.Code != CodeUnavailable || found.isElsewhere() || ctx.Value(logsItself{}) != nil {
		return err
	}
	now := time.Now()
	if s.outages.since.CompareAndSwap(nil, &now) {
		s.log.Warn("taskyard: calls fail; those that may be repeated are", "server", s.servers, "for", s.patience.String(),
			"error", found.Reason)
	}
	return err
}

// worked notes that the server has answered.
func (s *settings) worked() {
	if since := s.outages.since.Load(); since != nil && s.outages.since.CompareAndSwap(since, nil) {
		s.log.Info("taskyard: the server answers again", "server", s.servers,
			"after", time.Since(*since).Round(time.Millisecond).String())
	}
}

// logsItself is the key of contexts whose streams log by themselves why they fail.
type logsItself struct{}

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
	if err == nil {
		e.settings.worked()
	}
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return e.settings.failed(e.Context(), e.settings.explained(err))
}
