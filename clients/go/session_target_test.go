package taskyard

import "testing"

// a@page is a task whose target is page. The notation of the scripts is explained at sessionCases.
var targetCases = map[string]string{
	"a task with a target begins only when its start report was answered": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		answer ok -> begin a`,
	"a start report that was written but not answered is sent again on the next stream": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		break
		held -> a
		welcome a
		turn -> a:started | credit 1
		answer ok -> begin a`,
	"a lease stays held when the next stream breaks before the start report is sent again": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		break
		welcome a
		break
		held -> a
		welcome a
		turn -> a:started | credit 1
		answer ok -> begin a`,
	"a lease that the next stream does not keep is released and runs nothing": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		break
		welcome
		turn -> a:released | credit 2
		answer ok
		finished -> true`,
	"a lease whose start report was not taken for a message is forgotten when the stream breaks": `
		turn -> credit 2
		assign a@page
		break
		held ->`,
	"a lease whose start report was not written is forgotten when the stream breaks": `
		turn -> credit 2
		assign a@page
		say -> a:started
		break
		held ->
		welcome
		turn -> credit 2`,
	"a task that runs does not begin again after a break": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		answer ok -> begin a
		break
		held -> a
		welcome a
		turn -> credit 1`,
	"a task whose start report is answered as lease_lost never begins": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		answer lease_lost
		turn -> a:released | credit 1
		answer ok
		finished -> true`,
	"a task whose start report is answered as not_found never begins": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		answer not_found
		turn -> a:released | credit 1
		answer not_found
		finished -> true`,
	"a task whose start report is refused for another reason is given back": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		answer internal
		turn -> a:released | credit 1`,
	"a start report that is refused for now is sent again with the next heartbeat": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		answer unavailable
		turn ->
		beat -> a
		turn -> a:started
		answer ok -> begin a`,
	"a start report that was refused for now is not sent again once the task is given back": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		answer unavailable
		drain
		turn -> a:released
		beat -> a
		turn ->`,
	"a task that is cancelled while it waits for the answer is released": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		cancel a
		answer ok
		turn -> a:released | credit 1`,
	"a host that drains gives back a task that waits for the answer": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		drain
		answer ok
		turn -> a:released`,
	"a host that drains between two streams gives the task back without a start report": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		break
		drain
		held -> a
		welcome a
		turn -> a:released`,
	"a task that was given back is only released after a break": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		drain
		turn -> a:released
		break
		welcome a
		turn -> a:released`,
	"a lease that ends while its task waits for the answer runs nothing": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		at 60
		expire
		answer ok
		turn -> a:released | credit 1`,
	"a lease that ends between two streams is not listed and runs nothing": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		break
		at 5
		expire
		held ->
		welcome
		turn -> a:released | credit 2`,
	"a deregistered host runs no task that waits for the answer": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		deregister
		held ->
		answer ok
		turn -> a:released | credit 1`,
	"a task that waits for the answer takes a slot and is renewed": `
		turn -> credit 2
		assign a@page
		turn -> a:started
		at 20
		beat -> a
		ack 1
		at 79
		expire
		turn ->
		answer ok -> begin a`,
}

func TestTargetTasksOfASession(t *testing.T) { play(t, targetCases) }
