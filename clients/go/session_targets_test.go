// Tasks with a target: their handlers begin when the start report was answered. The notation is explained in
// session_script_test.go.

package taskyard

import "testing"

func TestSessionTargets(t *testing.T) { runScripts(t, targetCases) }

var targetCases = map[string]string{
	"a task with a target begins only when its start report was answered": `
		send -> credit 2
		assign a@page
		send -> a:started
		answer ok -> begin a`,
	"a start report that was written but not answered is sent again on the next stream": `
		send -> credit 2
		assign a@page
		send -> a:started
		break
		held -> a
		welcome a
		send -> a:started | credit 1
		answer ok -> begin a`,
	"a lease stays held when the next stream breaks before the start report is sent again": `
		send -> credit 2
		assign a@page
		send -> a:started
		break
		welcome a
		break
		held -> a
		welcome a
		send -> a:started | credit 1
		answer ok -> begin a`,
	"a lease that the next stream does not keep is released and runs nothing": `
		send -> credit 2
		assign a@page
		send -> a:started
		break
		welcome
		send -> a:released | credit 2
		answer ok
		finished -> true`,
	"a lease whose start report was not taken yet is forgotten when the stream breaks": `
		send -> credit 2
		assign a@page
		break
		held ->`,
	"a lease whose start report was not written is forgotten when the stream breaks": `
		send -> credit 2
		assign a@page
		take -> a:started
		break
		held ->
		welcome
		send -> credit 2`,
	"a task that runs does not begin again after a break": `
		send -> credit 2
		assign a@page
		send -> a:started
		answer ok -> begin a
		break
		held -> a
		welcome a
		send -> credit 1`,
	"a task whose start report is answered as lease_lost never begins": `
		send -> credit 2
		assign a@page
		send -> a:started
		answer lease_lost
		send -> a:released | credit 1
		answer ok
		finished -> true`,
	"a task whose start report is answered as not_found never begins": `
		send -> credit 2
		assign a@page
		send -> a:started
		answer not_found
		send -> a:released | credit 1
		answer not_found
		finished -> true`,
	"a task whose start report is refused for another reason is given back": `
		send -> credit 2
		assign a@page
		send -> a:started
		answer internal
		send -> a:released | credit 1`,
	"a start report that is refused for now is sent again with the next heartbeat": `
		send -> credit 2
		assign a@page
		send -> a:started
		answer unavailable
		send ->
		heartbeat -> a
		send -> a:started
		answer ok -> begin a`,
	"a start report that was refused for now is not sent again once the task is given back": `
		send -> credit 2
		assign a@page
		send -> a:started
		answer unavailable
		drain
		send -> a:released
		heartbeat -> a
		send ->`,
	"a task that is cancelled while it waits for the answer is released": `
		send -> credit 2
		assign a@page
		send -> a:started
		cancel a
		answer ok
		send -> a:released | credit 1`,
	"a host that drains gives back a task that waits for the answer": `
		send -> credit 2
		assign a@page
		send -> a:started
		drain
		answer ok
		send -> a:released`,
	"a host that drains between two streams gives the task back without a start report": `
		send -> credit 2
		assign a@page
		send -> a:started
		break
		drain
		held -> a
		welcome a
		send -> a:released`,
	"a task that was given back is only released after a break": `
		send -> credit 2
		assign a@page
		send -> a:started
		drain
		send -> a:released
		break
		welcome a
		send -> a:released`,
	"a lease that ends while its task waits for the answer runs nothing": `
		send -> credit 2
		assign a@page
		send -> a:started
		at 60
		expire
		answer ok
		send -> a:released | credit 1`,
	"a lease that ends between two streams is not listed and runs nothing": `
		send -> credit 2
		assign a@page
		send -> a:started
		break
		at 5
		expire
		held ->
		welcome
		send -> a:released | credit 2`,
	"a deregistered host runs no task that waits for the answer": `
		send -> credit 2
		assign a@page
		send -> a:started
		deregister
		held ->
		answer ok
		send -> a:released | credit 1`,
	"a task that waits for the answer takes a slot and is renewed": `
		send -> credit 2
		assign a@page
		send -> a:started
		at 20
		heartbeat -> a
		ack 1
		at 79
		expire
		send ->
		answer ok -> begin a`,
}
