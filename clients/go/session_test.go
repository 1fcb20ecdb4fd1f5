package taskyard

import (
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

// Each case is a script, a line a step: what is done to a session of two slots, and after -> all that comes of it. Leases
// are a, b, c; a/2 is a later lease of the same task. Leases last 60 s and outlive a break for 5 s. Time stands still but
// for `at SECONDS`.
var sessionCases = map[string]string{
	// Credit
	"all slots are credited at first and only once": `
		turn -> credit 2
		turn ->`,
	"a slot is credited again after the report that freed it": `
		turn -> credit 2
		assign a b
		turn -> a:started b:started | begin a b
		ended a
		turn -> a:done | credit 1`,
	"a slot stays taken while the handler of a lost lease runs on": `
		turn -> credit 2
		assign a
		turn -> a:started | begin a
		cancel a -> stop a
		turn ->
		ended a stopped
		turn -> a:released | credit 1`,
	"a new stream begins without credit": `
		turn -> credit 2
		break
		welcome
		turn -> credit 2`,
	// Beginning
	"a handler begins only when its started report was written": `
		turn -> credit 2
		assign a
		say -> a:started
		write -> begin a`,
	"a task that was cancelled while its start was written never begins": `
		turn -> credit 2
		assign a
		say -> a:started
		cancel a
		write ->
		turn -> a:released | credit 1`,
	"a task that was cancelled before its start was said is only released": `
		turn -> credit 2
		assign a
		cancel a
		turn -> a:released | credit 1`,
	"a task that had not begun when the stream broke is forgotten": `
		turn -> credit 2
		assign a
		break
		held ->
		welcome
		turn -> credit 2`,
	"a task that is handed out twice begins once": `
		turn -> credit 2
		assign a a
		turn -> a:started | credit 1 | begin a`,
	// Reports
	"a later progress takes the place of one that was not said": `
		running a
		progress a one
		progress a two
		turn -> a:two`,
	"the reports of a lease are said in their order": `
		running a b
		ended b
		progress a half
		ended a
		turn -> b:done a:half a:done | credit 2`,
	"a result that fits no message fails its task alone": `
		running a b
		ended a huge
		ended b
		turn -> a:failed(too_large) b:done | credit 2`,
	"a progress that fits no message is dropped": `
		running a
		progress a huge
		turn ->`,
	"a result that the server refuses becomes a failure": `
		running a
		ended a
		turn -> a:done | credit 1
		answer too_large
		turn -> a:failed(too_large)
		answer ok
		finished -> true`,
	"a failure that the server refuses becomes a release, and then nothing": `
		running a
		ended a failed
		turn -> a:failed | credit 1
		answer bad_request
		turn -> a:released
		answer bad_request
		finished -> true`,
	"an outcome that is refused for now is said again with the next heartbeat": `
		running a
		ended a
		turn -> a:done | credit 1
		answer unavailable
		turn ->
		beat -> a
		turn -> a:done`,
	"a refused progress changes nothing": `
		running a
		progress a half
		turn -> a:half
		answer bad_request
		held -> a
		turn ->`,
	"a report whose lease is lost stops the handler": `
		running a b
		progress a half
		progress b half
		turn -> a:half b:half
		answer lease_lost not_found -> stop a b`,
	"an outcome whose lease is lost is dropped": `
		running a
		ended a
		turn -> a:done | credit 1
		answer lease_lost
		finished -> true`,
	"an answer that nobody waits for is ignored": `
		answer ok
		turn -> credit 2`,
	// Heartbeats
	"heartbeats list every lease until its outcome was answered": `
		running a b
		ended a
		beat -> a b
		turn -> a:done | credit 1
		beat -> a b
		answer ok
		beat -> b`,
	"a heartbeat carries the tokens that each handler stated last": `
		running a b
		tokens a 5
		beat -> a:5 b
		tokens a 8
		tokens b 0
		beat -> a:8 b:0
		break
		held -> a b
		welcome a b
		beat -> a:8 b:0`,
	"a lease counts from the last answered heartbeat before it came": `
		at 30
		running a
		at 59
		expire ->
		at 60
		expire -> stop a`,
	"a renewal counts from when it was sent, not from its answer": `
		running a
		at 20
		beat -> a
		at 50
		ack 1
		at 79
		expire ->
		at 80
		expire -> stop a`,
	"an answer renews only what its heartbeat listed": `
		beat ->
		running a
		at 50
		ack 1
		at 60
		expire -> stop a`,
	"an unanswered heartbeat renews nothing": `
		running a
		at 20
		beat -> a
		at 60
		expire -> stop a`,
	"answers are told apart by their sequence": `
		running a
		at 10
		beat -> a
		at 20
		beat -> a
		ack 2
		ack 1
		at 79
		expire ->
		at 80
		expire -> stop a`,
	"what a heartbeat's answer names as lost is stopped, and then released": `
		running a b
		beat -> a b
		ack 1 a -> stop a
		beat -> b
		ended a stopped
		turn -> a:released | credit 1`,
	"a lost lease is stopped only once": `
		running a
		cancel a -> stop a
		cancel a
		beat ->
		ack 1 a
		at 100
		expire ->`,
	// Cancellations
	"a cancellation of what does not run is answered at once": `
		cancel a
		turn -> a:released | credit 2
		answer ok
		finished -> true`,
	"a cancellation that crosses the outcome is answered too": `
		running a
		ended a
		turn -> a:done | credit 1
		cancel a
		turn -> a:released
		answer lease_lost
		finished -> false
		answer ok
		finished -> true`,
	"the outcome of a cancelled task is a release, whatever its handler says": `
		running a
		cancel a -> stop a
		ended a
		turn -> a:released | credit 1`,
	"a release that the server no longer knows of is not waited for": `
		running a
		cancel a -> stop a
		ended a stopped
		turn -> a:released | credit 1
		answer lease_lost
		finished -> true`,
	"a release of a lost lease that is refused for now is said again with the next heartbeat": `
		running a
		cancel a -> stop a
		ended a stopped
		turn -> a:released | credit 1
		answer unavailable
		turn ->
		beat ->
		turn -> a:released
		answer ok
		finished -> true`,
	"a release of a lost lease that the server refuses is dropped": `
		running a
		cancel a -> stop a
		ended a stopped
		turn -> a:released | credit 1
		answer internal
		finished -> true`,
	"a later lease of the same task is another one": `
		running a
		cancel a -> stop a
		running a/2
		ended a stopped
		turn -> a:released | credit 1
		held -> a/2`,
	// Breaks
	"after a break the outcomes of kept leases are said again and those of lost ones dropped": `
		running a b
		ended a
		ended b
		turn -> a:done b:done | credit 2
		break
		held -> a b
		welcome a
		turn -> a:done | credit 2
		held -> a`,
	"an answered outcome is not said again": `
		running a
		ended a
		turn -> a:done | credit 1
		answer ok
		break
		welcome
		turn -> credit 2`,
	"what was said since the break follows what had no answer": `
		running a
		progress a half
		turn -> a:half
		break
		ended a
		welcome a
		turn -> a:half a:done | credit 2`,
	"what was said since the break replaces what had no answer": `
		running a
		progress a old
		turn -> a:old
		break
		progress a new
		welcome a
		turn -> a:new | credit 1`,
	"leases outlive a break for the grace": `
		running a
		at 10
		break
		at 14.9
		expire ->
		at 15
		expire -> stop a`,
	"a try that fails does not prolong the grace": `
		running a
		break
		at 4
		break
		at 5
		expire -> stop a`,
	"the grace never outlasts the lease": `
		running a
		at 58
		break
		at 60
		expire -> stop a`,
	"a kept lease counts from when the hello was sent, with the length that the server names": `
		running a
		at 40
		break
		welcome a
		at 99
		expire ->
		at 100
		expire -> stop a`,
	"the answer to a heartbeat of an earlier stream renews nothing": `
		running a
		at 20
		beat -> a
		break
		at 21
		welcome a
		at 30
		ack 1
		at 81
		expire -> stop a`,
	"handlers of leases that a welcome does not keep are stopped": `
		running a b
		break
		welcome b -> stop a
		held -> b`,
	"a lease that ended during a break is not listed, and is released after it": `
		running a
		break
		at 5
		expire -> stop a
		held ->
		ended a stopped
		welcome
		turn -> a:released | credit 2`,
	"a release that was not answered is said again": `
		running a
		cancel a -> stop a
		ended a stopped
		turn -> a:released | credit 1
		break
		welcome
		turn -> a:released | credit 2`,
	"a host that was deregistered stops all": `
		running a b
		deregister -> stop a b
		held ->`,
	// Draining
	"a draining host gives no credit and finishes what runs": `
		running a
		drain
		ended a
		turn -> a:done
		finished -> false
		answer ok
		finished -> true`,
	"a draining host gives back what has not begun": `
		turn -> credit 2
		assign a
		drain
		turn -> a:released
		assign b
		turn -> b:released
		beat -> a b`,
	"a task that was interrupted for leaving is given back": `
		running a
		drain
		ended a stopped
		turn -> a:released`,
}

func TestSession(t *testing.T) { play(t, sessionCases) }

func play(t *testing.T, cases map[string]string) {
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			p := &played{t: t, start: time.Now(), tokens: map[leaseKey]*uint32{}, session: newSession(2, slog.New(slog.DiscardHandler))}
			p.do("welcome")
			for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
				command, want, _ := strings.Cut(strings.TrimSpace(line), "->")
				if got := p.do(strings.TrimSpace(command)); got != strings.TrimSpace(want) {
					t.Fatalf("%s: got %q", strings.TrimSpace(line), got)
				}
			}
		})
	}
}

func TestSessionNeverExceedsTheMostBytesOfAMessage(t *testing.T) {
	p := &played{t: t, start: time.Now(), tokens: map[leaseKey]*uint32{}, session: newSession(100, slog.New(slog.DiscardHandler))}
	p.do("welcome")
	for i := range 100 {
		p.do("running t" + strconv.Itoa(i))
	}
	for i := range 100 {
		p.do("ended t" + strconv.Itoa(i))
	}
	reports := 0
	for p.do("say") != "" {
		for _, message := range p.unwritten {
			if size := proto.Size(message); size > testMessageBytes {
				t.Errorf("a message of %d bytes", size)
			}
			reports += len(message.GetReports().GetReports())
		}
		p.do("write")
	}
	if reports != 100 {
		t.Errorf("%d reports", reports)
	}
}

const testMessageBytes = 500

// played is a session, and what the scripts do to it.
type played struct {
	t         *testing.T
	session   *session
	start     time.Time
	now       time.Duration
	unwritten []*taskyardv1.ConnectRequest
	tokens    map[leaseKey]*uint32
}

func (p *played) do(command string) string {
	words := strings.Fields(command)
	now := p.start.Add(p.now)
	switch args := words[1:]; words[0] {
	case "at":
		secs, err := strconv.ParseFloat(args[0], 64)
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = time.Duration(secs * float64(time.Second))
	case "welcome":
		welcome := &taskyardv1.Welcome{ReconnectGraceMs: 5000, MaxMessageBytes: testMessageBytes}
		for _, name := range args {
			welcome.Kept = append(welcome.Kept, leaseNamed(name))
		}
		return stopped(p.session.streamOpened(welcome, now))
	case "assign":
		for _, name := range args {
			name, target, _ := strings.Cut(name, "@")
			p.session.taskAssigned(&taskyardv1.Assignment{
				Lease: leaseNamed(name), Task: &taskyardv1.Task{Target: optional(target)},
			})
		}
	case "running":
		// Handed out and begun, whatever else is said meanwhile.
		p.do("assign " + strings.Join(args, " "))
		p.do("say")
		p.do("write")
		p.session.unanswered, p.session.credit = nil, p.session.slots-len(p.session.busy)
	case "turn":
		return strings.Trim(p.do("say")+" | "+p.do("write"), " |")
	case "say":
		p.unwritten = p.session.nextMessages()
		var said []string
		for _, message := range p.unwritten {
			if credit := message.GetCredit(); credit != nil {
				said = append(said, fmt.Sprintf("credit %d", credit.GetCount()))
				continue
			}
			var reports []string
			for _, report := range message.GetReports().GetReports() {
				reports = append(reports, nameOf(keyOf(report))+":"+eventOf(report))
			}
			said = append(said, strings.Join(reports, " "))
		}
		return strings.Join(said, " | ")
	case "write":
		var begin []*taskyardv1.Assignment
		for _, message := range p.unwritten {
			begin = append(begin, p.session.messageWritten(message)...)
		}
		return begun(begin)
	case "ended":
		key := keyNamed(args[0])
		final := &taskyardv1.Report{TaskId: key.taskID, FencingToken: key.token}
		switch strings.Join(args[1:], "") {
		case "stopped":
			final = nil
		case "failed":
			final.Event = &taskyardv1.Report_Failed{Failed: &taskyardv1.TaskFailed{Error: "no"}}
		case "huge":
			final.Event = &taskyardv1.Report_Completed{Completed: &taskyardv1.TaskCompleted{
				Result: structpb.NewStringValue(strings.Repeat("x", testMessageBytes)),
			}}
		default:
			final.Event = &taskyardv1.Report_Completed{Completed: &taskyardv1.TaskCompleted{}}
		}
		p.session.handlerReturned(key, final)
	case "progress":
		key, message := keyNamed(args[0]), args[1]
		if message == "huge" {
			message = strings.Repeat("x", testMessageBytes)
		}
		p.session.progressReported(&taskyardv1.Report{
			TaskId: key.taskID, FencingToken: key.token,
			Event: &taskyardv1.Report_Progress{Progress: &taskyardv1.Progress{Message: &message}},
		})
	case "answer":
		results := &taskyardv1.ReportResults{}
		for _, code := range args {
			result := &taskyardv1.ReportResult{}
			if code != "ok" {
				result.Error = &taskyardv1.Error{Code: &code, Error: proto.String("no")}
				if code == "unavailable" {
					result.Error.Retryable = proto.Bool(true)
				}
			}
			results.Results = append(results.Results, result)
		}
		begin, stop := p.session.reportsAnswered(results)
		return strings.Trim(begun(begin)+" | "+stopped(stop), " |")
	case "beat":
		heartbeat := p.session.nextHeartbeat(now, nil, func(key leaseKey) *uint32 { return p.tokens[key] })
		return listed("", heldNames(heartbeat.GetHeartbeat().GetLeases()))
	case "tokens":
		count, err := strconv.Atoi(args[1])
		if err != nil {
			p.t.Fatal(err)
		}
		p.tokens[keyNamed(args[0])] = proto.Uint32(uint32(count))
	case "ack":
		sequence, err := strconv.Atoi(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		ack := &taskyardv1.HeartbeatAck{Sequence: uint32(sequence)}
		for _, name := range args[1:] {
			ack.Lost = append(ack.Lost, keyNamed(name).held())
		}
		return stopped(p.session.heartbeatAcknowledged(ack))
	case "cancel":
		key := keyNamed(args[0])
		return stopped(p.session.taskCancelled(&taskyardv1.Cancellation{TaskId: key.taskID, FencingToken: key.token}))
	case "break":
		p.session.streamClosed(now)
	case "expire":
		return stopped(p.session.expire(now))
	case "deregister":
		return stopped(p.session.hostDeregistered())
	case "drain":
		p.session.drain()
	case "held":
		return listed("", heldNames(p.session.held()))
	case "finished":
		return strconv.FormatBool(p.session.isFinished())
	default:
		p.t.Fatalf("no such step: %s", command)
	}
	return ""
}

func keyNamed(name string) leaseKey {
	id, token, _ := strings.Cut(name, "/")
	if token == "" {
		return leaseKey{id, 1}
	}
	number, _ := strconv.Atoi(token)
	return leaseKey{id, uint32(number)}
}

func nameOf(key leaseKey) string {
	if key.token == 1 {
		return key.taskID
	}
	return fmt.Sprintf("%s/%d", key.taskID, key.token)
}

func leaseNamed(name string) *taskyardv1.Lease {
	key := keyNamed(name)
	return &taskyardv1.Lease{TaskId: &key.taskID, FencingToken: &key.token, LeaseSecs: proto.Uint32(60)}
}

func heldNames(held []*taskyardv1.HeldLease) []string {
	var names []string
	for _, each := range held {
		name := nameOf(leaseKey{each.GetTaskId(), each.GetFencingToken()})
		if each.TokensUsed != nil {
			name += fmt.Sprintf(":%d", each.GetTokensUsed())
		}
		names = append(names, name)
	}
	return names
}

func begun(assignments []*taskyardv1.Assignment) string {
	var names []string
	for _, assignment := range assignments {
		names = append(names, nameOf(leaseKey{assignment.GetLease().GetTaskId(), assignment.GetLease().GetFencingToken()}))
	}
	return listed("begin", names)
}

func stopped(keys []leaseKey) string {
	var names []string
	for _, key := range keys {
		names = append(names, nameOf(key))
	}
	return listed("stop", names)
}

func listed(word string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return strings.TrimSpace(word + " " + strings.Join(names, " "))
}

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
	}
	return "released"
}
