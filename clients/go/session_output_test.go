// What a session says of its tasks, and what the answers mean. The notation is explained in session_script_test.go.

package taskyard

import (
	"strconv"
	"strings"
	"testing"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

func TestSessionOutput(t *testing.T) { runScripts(t, outputCases) }

var outputCases = map[string]string{
	"chunks are numbered within their lease, and a message has those of several": taking(`
		say a one
		say b two
		say a three
		send -> a says 1 one three b says 1 two
		say b four
		send -> b says 2 four
		kept a:2 b:1
		kept b:2
		send ->`),
	"what was said comes before the report of the end, which others do not wait for": taking(`
		say a one
		ended a
		ended b
		send -> b:done | credit 2 | a says 1 one
		send -> a:done`),
	"progress does not wait for output": taking(`
		say a one
		progress a half
		send -> a:half | a says 1 one`),
	"no more is held than the server allows, and what it keeps makes room": taking(`
		say a huge
		say b huge -> full
		send -> a says 1 huge
		say b huge -> full
		kept a:1
		say b huge
		send -> b says 1 huge`),
	"a chunk that is larger than the limit is said alone": taking(`
		limit 10
		break
		welcome a b
		say a huge
		say b one -> full
		send -> a says 1 huge`),
	"what is not kept after a break is said again with its number, and its report behind it": taking(`
		say a one
		send -> a says 1 one
		kept a:1
		say a two
		say a three
		ended a
		send -> credit 1 | a says 2 two three
		send -> a:done
		break
		welcome a b
		send -> credit 1 | a says 2 two three
		send -> a:done`),
	"what was said under a lease that is lost meanwhile is dropped": taking(`
		say a one
		break
		welcome b -> stop a
		send ->
		say a two -> over`),
	"what is refused for now is said again a second later, with what was behind it": taking(`
		say a one
		send -> a says 1 one
		say a two
		send -> a says 2 two
		kept a:unavailable
		say a three
		send ->
		at 0.9
		retry -> false
		kept a:bad_request
		send ->
		at 1
		retry -> true
		send -> a says 1 one two three
		kept a:3
		send ->`),
	"the report of the end waits until what was refused for now is kept": taking(`
		say a one
		send -> a says 1 one
		kept a:unavailable
		ended a
		say b two
		send -> credit 1 | b says 1 two
		at 1
		retry -> true
		send -> a says 1 one
		send ->
		kept b:1
		kept a:1
		send -> a:done`),
	"a lease that is over says nothing more": taking(`
		say a one
		say b two
		send -> a says 1 one b says 1 two
		kept a:lease_lost b:1 -> stop a
		say a three -> over
		say b four
		send -> b says 2 four`),
	"the end of a task ends its output": taking(`
		say a one
		ended a
		say a two -> over
		send -> credit 1 | a says 1 one`),
	"nothing is said to a server that takes no output": `
		running a
		say a one -> no output`,
	"what is not kept is dropped where the next server takes no output": taking(`
		say a one
		limit 0
		break
		welcome a b
		say a two -> no output
		ended a
		send -> a:done | credit 1`),
	"nothing more is said where it is not known how much is kept": taking(`
		say a one
		limit 0
		break
		welcome a b
		break
		welcome a b
		limit 100
		break
		welcome a b
		say a two -> no output
		say b one`),
	"what is said later does not count": taking(`
		flush a
		flushed a -> true
		say a one
		send -> a says 1 one
		say a two
		flush a
		say a three
		break
		welcome a b
		flushed a -> false
		send -> a says 1 one two three
		kept a:1
		flushed a -> false
		break
		welcome a b
		send -> a says 2 two three
		kept a:2
		flushed a -> true`),
	"what never will be kept is waited for no more": taking(`
		say a one
		flush a
		cancel a -> stop a
		flushed a -> true
		say b two
		flush b
		limit 0
		break
		welcome a b
		flushed b -> true`),
	"an answer to no message is ignored": taking(`
		kept a:1
		say a one
		send -> a says 1 one`),
}

// taking is a script on a stream that takes 100 bytes of output ahead, with the tasks a and b.
func taking(script string) string {
	return `
		limit 100
		break
		welcome
		running a b` + script
}

func TestChunksOfText(t *testing.T) {
	// The character of three bytes stands across the end of the first chunk.
	text := strings.Repeat("x", maxChunkBytes-1) + "€" + strings.Repeat("y", maxChunkBytes)
	chunks := must(chunksOf("log", text))(t)
	said := ""
	for _, chunk := range chunks {
		if size := len(chunk.GetText()); size > maxChunkBytes || chunk.GetChannel() != "log" {
			t.Error(size, chunk.GetChannel())
		}
		said += chunk.GetText()
	}
	if said != text || len(chunks) != 3 || len(chunks[0].GetText()) != maxChunkBytes-1 {
		t.Error(len(chunks), len(chunks[0].GetText()))
	}
	if chunks := must(chunksOf("", ""))(t); len(chunks) != 0 {
		t.Error(chunks)
	}
	if chunks := must(chunksOf("", "a\xffb"))(t); chunks[0].GetText() != "a\uFFFDb" {
		t.Error(chunks)
	}
}

func TestChunksOfBytesAndJSON(t *testing.T) {
	bytes := make([]byte, maxChunkBytes+1)
	if chunks := must(chunksOf("", bytes))(t); len(chunks) != 2 || len(chunks[1].GetBinary()) != 1 {
		t.Error(len(chunks))
	}
	chunks := must(chunksOf("", map[string]any{"n": 1}))(t)
	if value := anyOf(chunks[0].GetJson()); len(chunks) != 1 || value.(map[string]any)["n"] != 1.0 {
		t.Error(chunks)
	}
	if _, isJSON := must(chunksOf("", nil))(t)[0].GetData().(*taskyardv1.NewChunk_Json); !isJSON {
		t.Error("nil is not null")
	}
	for _, data := range []any{make(chan int), []string{strings.Repeat("x", maxChunkBytes)}, 1<<53 + 1} {
		if _, err := chunksOf("", data); err == nil {
			t.Errorf("%T", data)
		}
	}
}

func TestOneLeaseDoesNotKeepOthersFromSaying(t *testing.T) {
	script := newScript(t, 2)
	for _, step := range []string{"limit 10000", "break", "welcome", "running a b"} {
		script.step(step)
	}
	for i := range 20 {
		script.step("say a huge")
		script.step("say b b" + strconv.Itoa(i))
	}
	if first, second := script.step("send"), script.step("send"); strings.Contains(first, "b says") || !strings.Contains(second, "b says 1 b0") {
		t.Error(first, second)
	}
}
