package taskyard

import (
	"strings"
	"testing"
)

// Servers that count accepted reports. Those of all other scripts do not.
func TestSessionCounts(t *testing.T) {
	long := strings.Repeat("x", testMessageBytes-100)
	runScripts(t, map[string]string{
		"reports and the credit of the slots that they free are one message": `
			counting
			welcome
			running a b
			ended a
			ended b
			send -> a:done b:done credit 2`,
		"credit without reports is a message of its own": `
			counting
			welcome
			send -> credit 2`,
		"a server that does not count gets heartbeat, reports and credit as three messages": `
			running a
			ended a
			beat -> heartbeat a | a:done | credit 1`,
		"a heartbeat comes with reports, and lists the leases of before them": `
			counting
			welcome
			running a b
			ended a
			beat -> a:done credit 1 heartbeat a b`,
		"a heartbeat without reports is a message of its own": `
			counting
			welcome
			running a
			beat -> heartbeat a`,
		"a heartbeat that makes the message too large comes before the reports": `
			counting
			welcome
			running a b
			progress a ` + long + `
			beat -> heartbeat a b | a:` + long,
		"a count answers the oldest reports, whatever their messages": `
			counting
			welcome
			assign a b
			send -> a:started b:started | begin a b
			ended a
			send -> a:done credit 1
			accept 1
			held -> a b
			accept 2
			held -> b`,
		"a result is for the oldest report after those that are counted": `
			counting
			welcome
			assign a b
			send -> a:started b:started | begin a b
			accept 1
			answer lease_lost -> stop b
			held -> a`,
		"a task with a target begins when its start is counted": `
			counting
			welcome
			assign a b@page
			send -> a:started b:started | begin a
			accept 1
			accept 1 -> begin b`,
		"a count beyond what was reported changes nothing": `
			counting
			welcome
			assign a
			send -> a:started credit 1 | begin a
			accept 5
			held -> a`,
		"reports that were not counted before a break are sent again": `
			counting
			welcome
			running a b
			ended a
			ended b
			send -> a:done b:done credit 2
			accept 1
			break
			welcome b
			send -> b:done credit 2`,
	})
}
