// What a session reports, and what the answers mean. The notation is explained in session_script_test.go.

package taskyard

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestSessionReports(t *testing.T) { runScripts(t, reportCases) }

var reportCases = map[string]string{
	"a later progress report replaces one that is not sent yet": `
		running a
		progress a one
		progress a two
		send -> a:two`,
	"the reports of a lease are sent in the order of their kinds": `
		running a b
		ended b
		progress a half
		ended a
		send -> b:done a:half a:done | credit 2`,
	"a result that does not fit a message fails only its own task": `
		running a b
		ended a huge
		ended b
		send -> a:failed(too_large) b:done | credit 2`,
	"a progress report that does not fit a message is dropped": `
		running a
		progress a huge
		send ->`,
	"a result that the server refuses becomes a failure": `
		running a
		ended a
		send -> a:done | credit 1
		answer too_large
		send -> a:failed(too_large)
		answer ok
		finished -> true`,
	"a park that the server refuses becomes a failure": `
		running a
		ended a parked
		send -> a:parked | credit 1
		answer bad_request
		send -> a:failed(bad_request)
		answer ok
		finished -> true`,
	"a failure that the server refuses becomes a release, and then nothing": `
		running a
		ended a failed
		send -> a:failed | credit 1
		answer bad_request
		send -> a:released
		answer bad_request
		finished -> true`,
	"an outcome that is refused for now is sent again with the next heartbeat": `
		running a
		ended a
		send -> a:done | credit 1
		answer unavailable
		send ->
		heartbeat -> a
		send -> a:done`,
	"an outcome that was refused for now does not replace the release of a cancelled task": `
		running a
		ended a
		send -> a:done | credit 1
		answer unavailable
		cancel a
		heartbeat ->
		send -> a:released`,
	"a refused progress report changes nothing": `
		running a
		progress a half
		send -> a:half
		answer bad_request
		held -> a
		send ->`,
	"a report whose lease is lost stops the handler": `
		running a b
		progress a half
		progress b half
		send -> a:half b:half
		answer lease_lost not_found -> stop a b`,
	"an outcome whose lease is lost is dropped": `
		running a
		ended a
		send -> a:done | credit 1
		answer lease_lost
		finished -> true`,
	"an answer to no message is ignored": `
		answer ok
		send -> credit 2`,
}

func TestSessionNeverExceedsTheSizeLimitOfAMessage(t *testing.T) {
	script := newScript(t, 100)
	for i := range 100 {
		script.step("running t" + strconv.Itoa(i))
	}
	for i := range 100 {
		script.step("ended t" + strconv.Itoa(i))
	}
	reports := 0
	for script.step("take") != "" {
		for _, message := range script.unwritten {
			if size := proto.Size(message); size > testMessageBytes {
				t.Errorf("a message of %d bytes", size)
			}
			reports += len(message.GetReports().GetReports())
		}
		script.step("write")
	}
	if reports != 100 {
		t.Errorf("%d reports", reports)
	}
}
