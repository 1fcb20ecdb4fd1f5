// Slots, beginnings, cancellations and drains of a session. The notation is explained in session_script_test.go.

package taskyard

import "testing"

func TestSessionLeases(t *testing.T) { runScripts(t, leaseCases) }

var leaseCases = map[string]string{
	"all slots are credited at first and only once": `
		send -> credit 2
		send ->`,
	"a slot is credited again after the report that freed it": `
		send -> credit 2
		assign a b
		send -> a:started b:started | begin a b
		ended a
		send -> a:done | credit 1`,
	"a slot stays taken while the handler of a lost lease runs on": `
		send -> credit 2
		assign a
		send -> a:started | begin a
		cancel a -> stop a
		send ->
		ended a stopped
		send -> a:released | credit 1`,
	"a new stream begins without credit": `
		send -> credit 2
		break
		welcome
		send -> credit 2`,
	"a handler without a target begins only when its start report was written": `
		send -> credit 2
		assign a
		take -> a:started
		write -> begin a`,
	"a task that was cancelled while its start report was written never begins": `
		send -> credit 2
		assign a
		take -> a:started
		cancel a
		write ->
		send -> a:released | credit 1`,
	"a task that was cancelled before its start report was taken is only released": `
		send -> credit 2
		assign a
		cancel a
		send -> a:released | credit 1`,
	"a task whose handler had not begun when the stream broke is forgotten": `
		send -> credit 2
		assign a
		break
		held ->
		welcome
		send -> credit 2`,
	"a task that is handed out twice begins once": `
		send -> credit 2
		assign a a
		send -> a:started | credit 1 | begin a`,
	"a cancellation of a task that does not run is answered at once": `
		cancel a
		send -> a:released | credit 2
		answer ok
		finished -> true`,
	"a cancellation that crosses the outcome is answered too": `
		running a
		ended a
		send -> a:done | credit 1
		cancel a
		send -> a:released
		answer lease_lost
		finished -> false
		answer ok
		finished -> true`,
	"the outcome of a cancelled task is a release, whatever its handler returns": `
		running a
		cancel a -> stop a
		ended a
		send -> a:released | credit 1`,
	"a release of a lease that the server does not know is not sent again": `
		running a
		cancel a -> stop a
		ended a stopped
		send -> a:released | credit 1
		answer lease_lost
		finished -> true`,
	"a release of a lost lease that is refused for now is sent again with the next heartbeat": `
		running a
		cancel a -> stop a
		ended a stopped
		send -> a:released | credit 1
		answer unavailable
		send ->
		heartbeat ->
		send -> a:released
		answer ok
		finished -> true`,
	"a release of a lost lease that the server refuses is dropped": `
		running a
		cancel a -> stop a
		ended a stopped
		send -> a:released | credit 1
		answer internal
		finished -> true`,
	"a later lease of the same task is a lease of its own": `
		running a
		cancel a -> stop a
		running a/2
		ended a stopped
		send -> a:released | credit 1
		held -> a/2`,
	"a draining host gives no credit and finishes running tasks": `
		running a
		drain
		ended a
		send -> a:done
		finished -> false
		answer ok
		finished -> true`,
	"a draining host gives back tasks whose handlers have not begun": `
		send -> credit 2
		assign a
		drain
		send -> a:released
		assign b
		send -> b:released
		heartbeat -> a b`,
	"a task that was interrupted because the host leaves is given back": `
		running a
		drain
		ended a stopped
		send -> a:released`,
}
