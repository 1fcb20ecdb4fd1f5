// The scripts that test the session.
//
// A script has one step a line. After -> stands everything that comes of the step; it is compared as text. Each script
// begins on an open stream, with two slots and no leases.
//
// Names: a, b and c are leases of tasks of the same names, a/2 is a later lease of the task a, a@page a lease of a task
// with the target page. Leases last 60 s and outlive a break by 5 s. The time is 0 until `at SECONDS`.
//
//	welcome a             the server answers a Hello, and keeps the lease a
//	counting              from the next welcome on the server counts accepted reports
//	break                 the stream breaks
//	assign a              the server hands out a task
//	running a             the task was handed out, and its handler has begun
//	take                  the next messages, as reports (LEASE:EVENT) and credit
//	write                 the messages taken before are written
//	send                  take and write
//	beat                  take with a heartbeat that is due, as the leases that it lists
//	answer ok CODE        the server answers the oldest reports: one word for each
//	accept 2              the server counts so many accepted reports
//	progress a TEXT       the handler reports progress; huge does not fit a message
//	ended a OUTCOME       the handler returns: done by default, or failed, huge or stopped
//	tokens a 5            the handler states its tokens
//	heartbeat             the next heartbeat, as the leases that it lists (LEASE:TOKENS)
//	ack 1 a               the server answers the heartbeat 1, and names the lease a as lost
//	cancel a              the server cancels the task
//	limit 100             from the next welcome on the server takes output, and so many bytes of it ahead
//	say a TEXT            the handler says a chunk; huge takes more than half of a limit of 100
//	flush a               from here on flushed says whether what the handler has said so far is kept, or never will be
//	kept a:2 b:CODE       the server answers the oldest message of output: how many chunks it keeps, or why it does not
//	retry                 chunks that were refused for now are due again, if they are
//	expire, drain, deregister
//	held                  the leases of the next Hello
//	finished              whether nothing is left to do

package taskyard

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const testMessageBytes = 500

// runScripts runs scripts by their names.
func runScripts(t *testing.T, scripts map[string]string) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, 2)
			for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
				step, want, _ := strings.Cut(strings.TrimSpace(line), "->")
				if got := s.step(strings.TrimSpace(step)); got != strings.TrimSpace(want) {
					t.Fatalf("%s: got %q", strings.TrimSpace(line), got)
				}
			}
		})
	}
}

// sessionScript runs the steps of a script on a session.
type sessionScript struct {
	t         *testing.T
	session   *session
	start     time.Time
	elapsed   time.Duration
	unwritten []*taskyardv1.ConnectRequest
	tokens    map[leaseKey]*uint32
	counting  bool
	limit     uint32
	flushing  int
}

func newScript(t *testing.T, slots int) *sessionScript {
	s := &sessionScript{
		t: t, session: newSession(slots, slog.New(slog.DiscardHandler)), start: time.Now(),
		tokens: map[leaseKey]*uint32{},
	}
	s.step("welcome")
	return s
}

// step runs one step and returns what comes of it.
func (s *sessionScript) step(step string) string {
	words := strings.Fields(step)
	now := s.start.Add(s.elapsed)
	switch args := words[1:]; words[0] {
	case "at":
		secs, err := strconv.ParseFloat(args[0], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		s.elapsed = time.Duration(secs * float64(time.Second))
	case "welcome":
		welcome := &taskyardv1.Welcome{
			ReconnectGraceMs: 5000, MaxMessageBytes: testMessageBytes, CountsAccepted: s.counting,
			OutputBytes: s.limit,
		}
		for _, name := range args {
			welcome.Kept = append(welcome.Kept, leaseNamed(name))
		}
		return showStop(s.session.streamOpened(welcome, now))
	case "counting":
		s.counting = true
	case "break":
		s.session.streamClosed(now)
	case "assign":
		for _, name := range args {
			name, target, _ := strings.Cut(name, "@")
			s.session.taskAssigned(&taskyardv1.Assignment{
				Lease: leaseNamed(name), Task: &taskyardv1.Task{Target: optional(target)},
			})
		}
	case "running":
		s.step("assign " + strings.Join(args, " "))
		s.step("send")
		s.session.unanswered, s.session.credit = nil, s.session.slots-len(s.session.busy)
	case "take":
		s.unwritten = s.session.nextMessages(nil)
		return showMessages(s.unwritten)
	case "beat":
		s.unwritten = s.session.nextMessages(s.session.nextHeartbeat(now, nil, func(leaseKey) *uint32 { return nil }))
		return showMessages(s.unwritten)
	case "write":
		var begin []*taskyardv1.Assignment
		for _, message := range s.unwritten {
			begin = append(begin, s.session.messageWritten(message)...)
		}
		return showBegin(begin)
	case "send":
		return joinParts(s.step("take"), s.step("write"))
	case "answer":
		begin, stop := s.session.reportsAnswered(answerOf(args))
		return joinParts(showBegin(begin), showStop(stop))
	case "accept":
		return showBegin(s.session.reportsAccepted(int(s.number(args[0]))))
	case "progress":
		message := args[1]
		if message == "huge" {
			message = strings.Repeat("x", testMessageBytes)
		}
		report := reportOf(keyNamed(args[0]))
		report.Event = &taskyardv1.Report_Progress{Progress: &taskyardv1.Progress{Message: &message}}
		s.session.progressReported(report)
	case "ended":
		s.session.handlerReturned(keyNamed(args[0]), outcomeOf(keyNamed(args[0]), strings.Join(args[1:], "")))
	case "tokens":
		s.tokens[keyNamed(args[0])] = proto.Uint32(s.number(args[1]))
	case "heartbeat":
		heartbeat := s.session.nextHeartbeat(now, nil, func(key leaseKey) *uint32 { return s.tokens[key] })
		return showHeld(heartbeat.GetHeartbeat().GetLeases())
	case "ack":
		ack := &taskyardv1.HeartbeatAck{Sequence: s.number(args[0])}
		for _, name := range args[1:] {
			ack.Lost = append(ack.Lost, keyNamed(name).held())
		}
		return showStop(s.session.heartbeatAcknowledged(ack))
	case "cancel":
		key := keyNamed(args[0])
		return showStop(s.session.taskCancelled(&taskyardv1.Cancellation{TaskId: key.taskID, FencingToken: float64(key.token)}))
	case "limit":
		s.limit = s.number(args[0])
	case "flush":
		s.flushing = s.session.output.last(keyNamed(args[0]))
	case "flushed":
		return strconv.FormatBool(s.session.output.isKept(keyNamed(args[0]), s.flushing))
	case "say":
		text := args[1]
		if text == "huge" {
			text = strings.Repeat("x", 60)
		}
		chunk := &taskyardv1.NewChunk{Data: &taskyardv1.NewChunk_Text{Text: text}}
		fits, err := s.session.chunkSaid(keyNamed(args[0]), chunk)
		switch {
		case errors.Is(err, errNoOutput):
			return "no output"
		case err != nil:
			return "over"
		case !fits:
			return "full"
		}
	case "kept":
		return showStop(s.session.outputAcknowledged(acksOf(args), now))
	case "retry":
		return strconv.FormatBool(s.session.output.retry(now))
	case "expire":
		return showStop(s.session.expire(now))
	case "drain":
		s.session.drain()
	case "deregister":
		return showStop(s.session.hostDeregistered())
	case "held":
		return showHeld(s.session.held())
	case "finished":
		return strconv.FormatBool(s.session.isFinished())
	default:
		s.t.Fatalf("no such step: %s", step)
	}
	return ""
}

func (s *sessionScript) number(text string) uint32 {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		s.t.Fatal(err)
	}
	return uint32(number)
}

// From names to messages

func keyNamed(name string) leaseKey {
	id, token, _ := strings.Cut(name, "/")
	if token == "" {
		return leaseKey{id, 1}
	}
	number, _ := strconv.Atoi(token)
	return leaseKey{id, int64(number)}
}

func leaseNamed(name string) *taskyardv1.Lease {
	key := keyNamed(name)
	return &taskyardv1.Lease{TaskId: &key.taskID, FencingToken: proto.Float64(float64(key.token)), LeaseSecs: proto.Uint32(60)}
}

func reportOf(key leaseKey) *taskyardv1.Report {
	return &taskyardv1.Report{TaskId: key.taskID, FencingToken: float64(key.token)}
}

func outcomeOf(key leaseKey, outcome string) *taskyardv1.Report {
	report := reportOf(key)
	switch outcome {
	case "stopped":
		return nil
	case "failed":
		report.Event = &taskyardv1.Report_Failed{Failed: &taskyardv1.TaskFailed{Error: "no"}}
	case "parked":
		report.Event = &taskyardv1.Report_Parked{Parked: &taskyardv1.TaskParked{}}
	case "huge":
		report.Event = &taskyardv1.Report_Completed{Completed: &taskyardv1.TaskCompleted{
			Result: structpb.NewStringValue(strings.Repeat("x", testMessageBytes)),
		}}
	default:
		report.Event = &taskyardv1.Report_Completed{Completed: &taskyardv1.TaskCompleted{}}
	}
	return report
}

func answerOf(codes []string) *taskyardv1.ReportResults {
	results := &taskyardv1.ReportResults{}
	for _, code := range codes {
		result := &taskyardv1.ReportResult{}
		if code != "ok" {
			result.Error = &taskyardv1.Error{Code: &code, Error: proto.String("no")}
			if code == "unavailable" {
				result.Error.Retryable = proto.Bool(true)
			}
		}
		results.Results = append(results.Results, result)
	}
	return results
}

func acksOf(answers []string) *taskyardv1.OutputAcks {
	acks := &taskyardv1.OutputAcks{}
	for _, each := range answers {
		name, answer, _ := strings.Cut(each, ":")
		ack := &taskyardv1.OutputAck{TaskId: keyNamed(name).taskID, FencingToken: float64(keyNamed(name).token)}
		if count, err := strconv.Atoi(answer); err == nil {
			ack.Taken = uint32(count)
		} else {
			ack.Error = &taskyardv1.Error{Code: &answer, Error: proto.String("no")}
		}
		acks.Acks = append(acks.Acks, ack)
	}
	return acks
}

// From messages to names

func nameOf(key leaseKey) string {
	if key.token == 1 {
		return key.taskID
	}
	return fmt.Sprintf("%s/%d", key.taskID, key.token)
}

func showMessages(messages []*taskyardv1.ConnectRequest) string {
	var parts []string
	for _, message := range messages {
		var items []string
		for _, report := range message.GetReports().GetReports() {
			items = append(items, nameOf(keyOf(report))+":"+eventOf(report))
		}
		if credit := message.GetCredit().GetCount() + message.GetReports().GetCredit(); credit > 0 {
			items = append(items, fmt.Sprintf("credit %d", credit))
		}
		for _, heartbeat := range []*taskyardv1.Heartbeat{message.GetHeartbeat(), message.GetReports().GetHeartbeat()} {
			if heartbeat != nil {
				items = append(items, strings.TrimSpace("heartbeat "+showHeld(heartbeat.GetLeases())))
			}
		}
		for _, output := range message.GetOutput().GetLeases() {
			item := fmt.Sprintf("%s says %d", nameOf(keyOf(output)), output.GetNumber())
			for _, chunk := range output.GetChunks() {
				item += " " + strings.ReplaceAll(chunk.GetText(), strings.Repeat("x", 60), "huge")
			}
			items = append(items, item)
		}
		parts = append(parts, strings.Join(items, " "))
	}
	return strings.Join(parts, " | ")
}

func showHeld(held []*taskyardv1.HeldLease) string { return strings.Join(heldNames(held), " ") }

func heldNames(held []*taskyardv1.HeldLease) []string {
	var names []string
	for _, each := range held {
		name := nameOf(keyOf(each))
		if each.TokensUsed != nil {
			name += fmt.Sprintf(":%d", each.GetTokensUsed())
		}
		names = append(names, name)
	}
	return names
}

func showBegin(assignments []*taskyardv1.Assignment) string {
	var names []string
	for _, assignment := range assignments {
		lease := assignment.GetLease()
		names = append(names, nameOf(keyOf(lease)))
	}
	return withVerb("begin", names)
}

func showStop(keys []leaseKey) string {
	var names []string
	for _, key := range keys {
		names = append(names, nameOf(key))
	}
	return withVerb("stop", names)
}

func withVerb(verb string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return verb + " " + strings.Join(names, " ")
}

func joinParts(first, second string) string { return strings.Trim(first+" | "+second, " |") }

func eventOf(report *taskyardv1.Report) string {
	switch event := report.GetEvent().(type) {
	case *taskyardv1.Report_Started:
		return "started"
	case *taskyardv1.Report_Progress:
		return event.Progress.GetMessage()
	case *taskyardv1.Report_Completed:
		return "done"
	case *taskyardv1.Report_Failed:
		if code := event.Failed.GetCode(); code != "" {
			return "failed(" + code + ")"
		}
		return "failed"
	case *taskyardv1.Report_Parked:
		return "parked"
	}
	return "released"
}
