// What tasks say while they run, as callers read it (docs/rules.md, Output).

package taskyard

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// OutputChunk is a piece of what a task has said. One of Text, JSON and Binary holds it.
type OutputChunk struct {
	// Sequence numbers the chunks of a task from 1, without a gap, over all of its attempts.
	Sequence uint32
	// Channel is "output", "stdout", "stderr", "log", or a name of the host's.
	Channel string
	// Text is what was said as text.
	Text string
	// JSON is what was said as JSON: nil, bool, float64, string, []any or map[string]any.
	JSON any
	// Binary is what was said as bytes; nil for text and JSON.
	Binary []byte
	// IsJSON is true if it was said as JSON.
	IsJSON bool
	// Attempt is the number of the execution that said it, from 1.
	Attempt int
	// TakenAt is when the server took it.
	TakenAt time.Time
}

// OutputOptions selects what [Client.Output] reads. A zero field does not select.
type OutputOptions struct {
	// After begins behind the chunk with this sequence number.
	After uint32
	// Channels selects the chunks of these channels.
	Channels []string
	// Follow goes on until the task has ended and all is read. Default: false, which ends with what is there.
	Follow bool
	// OnDropped is called with the number of chunks that are missing at this point, since the server has dropped them to
	// make room. Default: a warning is logged.
	OnDropped func(chunks int)
}

// Output iterates over what a task has said, in order: the same whether the task runs, has ended, or comes from the
// history. Leave the loop, or end the context, to close it.
//
// It goes on across broken connections without gap or repeat. An error is the last item: a refusal of the server, such as
// [CodeNotFound], the end of the context, or [CodeUnavailable] after an outage longer than the patience of the client,
// see [WithPatience].
func (c *Client) Output(ctx context.Context, taskID string, options OutputOptions) iter.Seq2[*OutputChunk, error] {
	return func(yield func(*OutputChunk, error) bool) {
		request := &taskyardv1.ReadOutputRequest{
			TaskId: taskID, After: options.After, Channels: options.Channels, Follow: options.Follow,
		}
		if err := encodingError(request); err != nil {
			yield(nil, err)
			return
		}
		r := &outputReader{newStreams(c, "the reading of output"), request, yield, options.OnDropped}
		for {
			err := r.readStream(ctx)
			if errors.Is(err, errOutputEnded) {
				return
			}
			if err = r.waitForNext(ctx, err); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// errOutputEnded means that the loop was left, or that all is read.
var errOutputEnded = errors.New("the output is over")

// outputReader reads the output of one task, over all of its streams. Its request begins behind what was read.
type outputReader struct {
	*streams
	request *taskyardv1.ReadOutputRequest
	yield   func(*OutputChunk, error) bool
	dropped func(chunks int)
}

func (r *outputReader) readStream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.client.outputs.ReadOutput(ctx, r.request)
	if err != nil {
		return errorFrom(err)
	}
	for {
		message, err := receiveFrom(stream, cancel, r.silenceTimeout)
		if errors.Is(err, io.EOF) {
			return errOutputEnded
		}
		if err != nil {
			return errorFrom(err)
		}
		r.works()
		r.tellDropped(message)
		for _, chunk := range message.GetChunks() {
			if !r.yield(chunkOf(chunk), nil) {
				return errOutputEnded
			}
		}
		r.request.After = max(r.request.After, message.GetNextAfter())
	}
}

// tellDropped tells how many chunks are missing before a message.
func (r *outputReader) tellDropped(message *taskyardv1.ReadOutputResponse) {
	first := message.GetFirstSequence()
	if chunks := message.GetChunks(); len(chunks) > 0 {
		// The server may still have more than it promises.
		first = min(first, chunks[0].GetSequence())
	}
	missing := int(first) - 1 - int(r.request.After)
	if missing <= 0 {
		return
	}
	if r.request.After = first - 1; r.dropped != nil {
		r.dropped(missing)
	} else {
		r.client.log.Warn("taskyard: chunks of output were dropped to make room", "task", r.request.TaskId, "chunks", missing)
	}
}

func chunkOf(m *taskyardv1.OutputChunk) *OutputChunk {
	chunk := &OutputChunk{
		Sequence: m.GetSequence(), Channel: m.GetChannel(), Text: m.GetText(), JSON: anyOf(m.GetJson()), Binary: m.GetBinary(),
		Attempt: int(m.GetAttempt()), TakenAt: timeOf(m.GetTakenAt()),
	}
	_, chunk.IsJSON = m.GetData().(*taskyardv1.OutputChunk_Json)
	return chunk
}
