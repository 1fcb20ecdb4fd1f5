// What handlers say while they run, cut into chunks.

package taskyard

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// maxChunkBytes is how much of a task's output one chunk has.
const maxChunkBytes = 64 << 10

var channelPattern = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,64}$`)

// Emit says something on the channel "output", see [RunningTask.EmitTo].
func (t *RunningTask) Emit(data any) error { return t.EmitTo("output", data) }

// EmitTo adds to the output of the task, which anybody that may read its result can follow: a string as text, a []byte as
// bytes, anything else as the JSON that encoding/json makes of it. Text and bytes of more than 64 KiB become several
// chunks. The channel is "output", "stdout", "stderr", "log", or a name of your own.
//
// It returns once the chunks are on their way. It waits while too much of this host is not kept by the server yet, and
// nothing that it has taken is lost while the lease lasts. The error is a *[StopError] if the handler is to stop, or has
// returned. Otherwise it tells what cannot be said: a malformed channel, no JSON or more than 64 KiB of it, or anything
// where the server takes no output, which is an *[Error] with [CodeUnimplemented].
func (t *RunningTask) EmitTo(channel string, data any) error {
	if !channelPattern.MatchString(channel) {
		return fmt.Errorf("channel: %q has other characters than letters, digits, - _ . / or not 1 to 64 of them", channel)
	}
	if channel == "output" {
		channel = ""
	}
	chunks, err := chunksOf(channel, data)
	if err != nil {
		return err
	}
	for _, chunk := range chunks {
		if err := t.emit(chunk); err != nil {
			return err
		}
	}
	return nil
}

func chunksOf(channel string, data any) (chunks []*taskyardv1.NewChunk, err error) {
	switch data := data.(type) {
	case string:
		for text := strings.ToValidUTF8(data, "\uFFFD"); text != ""; {
			part := text[:cutAt(text)]
			text = text[len(part):]
			chunks = append(chunks, &taskyardv1.NewChunk{Channel: channel, Data: &taskyardv1.NewChunk_Text{Text: part}})
		}
		return chunks, nil
	case []byte:
		// The caller may use its slice again.
		for data := append([]byte(nil), data...); len(data) > 0; {
			part := data[:min(len(data), maxChunkBytes)]
			data = data[len(part):]
			chunks = append(chunks, &taskyardv1.NewChunk{Channel: channel, Data: &taskyardv1.NewChunk_Binary{Binary: part}})
		}
		return chunks, nil
	}
	value, err := valueOf("data", data)
	if err != nil {
		return nil, err
	}
	if value == nil {
		value = structpb.NewNullValue()
	}
	if size := proto.Size(value); size > maxChunkBytes {
		return nil, fmt.Errorf("data: JSON of %d bytes does not fit a chunk of %d", size, maxChunkBytes)
	}
	return []*taskyardv1.NewChunk{{Channel: channel, Data: &taskyardv1.NewChunk_Json{Json: value}}}, nil
}

// cutAt returns where the first chunk of a text ends: never inside a character.
func cutAt(text string) int {
	if len(text) <= maxChunkBytes {
		return len(text)
	}
	end := maxChunkBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return end
}

// emit says a chunk under a lease. It waits for room, until the context of the handler ends.
func (r *hostRun) emit(ctx context.Context, key leaseKey, chunk *taskyardv1.NewChunk) error {
	for {
		r.mu.Lock()
		fits, err := r.session.chunkSaid(key, chunk)
		hasRoom := r.outputHasRoom
		if fits {
			r.wake()
		}
		r.mu.Unlock()
		switch {
		case fits || errors.Is(err, errNoOutput):
			return err
		case err != nil:
			return stopOf(ctx)
		}
		select {
		case <-hasRoom:
		case <-ctx.Done():
			return stopOf(ctx)
		}
	}
}

// flush waits until the server keeps what was said under a lease so far. The error tells that the lease is over, also where
// the server does not know it yet, or that the context of the handler or of the call has ended.
func (r *hostRun) flush(handler, call context.Context, key leaseKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for last := r.session.output.last(key); ; {
		switch {
		case r.session.isOver(key):
			return &Error{
				Code: CodeLeaseLost, Reason: leaseLost.Message, Details: map[string]any{}, Status: codes.Aborted,
			}
		case r.session.output.isKept(key, last):
			return nil
		case handler.Err() != nil:
			return stopOf(handler)
		case call.Err() != nil:
			return context.Cause(call)
		}
		hasRoom := r.outputHasRoom
		r.mu.Unlock()
		select {
		case <-hasRoom:
		case <-handler.Done():
		case <-call.Done():
		}
		r.mu.Lock()
	}
}

// stopOf returns why a handler stops, or has no lease any more.
func stopOf(ctx context.Context) error {
	if stop, ok := errors.AsType[*StopError](context.Cause(ctx)); ok {
		return stop
	}
	return leaseLost
}
