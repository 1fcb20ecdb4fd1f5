// Breaks of the stream of a session. The notation is explained in session_script_test.go.

package taskyard

import "testing"

func TestSessionStreams(t *testing.T) { runScripts(t, streamCases) }

var streamCases = map[string]string{
	"after a break the outcomes of kept leases are sent again and those of lost leases are dropped": `
		running a b
		ended a
		ended b
		send -> a:done b:done | credit 2
		break
		held -> a b
		welcome a
		send -> a:done | credit 2
		held -> a`,
	"an answered outcome is not sent again": `
		running a
		ended a
		send -> a:done | credit 1
		answer ok
		break
		welcome
		send -> credit 2`,
	"a report made during the break follows one without an answer": `
		running a
		progress a half
		send -> a:half
		break
		ended a
		welcome a
		send -> a:half a:done | credit 2`,
	"a progress report made during the break replaces one without an answer": `
		running a
		progress a old
		send -> a:old
		break
		progress a new
		welcome a
		send -> a:new | credit 1`,
	"of two progress reports without an answer the newer is sent again": `
		running a
		progress a old
		send -> a:old
		progress a new
		send -> a:new
		break
		welcome a
		send -> a:new | credit 1`,
	"a release that crossed the outcome is sent again, and the outcome is not": `
		running a
		ended a
		send -> a:done | credit 1
		cancel a
		send -> a:released
		break
		welcome
		send -> a:released | credit 2
		answer ok
		finished -> true`,
	"a release is sent again although the outcome that crossed it was answered": `
		running a
		ended a
		send -> a:done | credit 1
		cancel a
		send -> a:released
		answer lease_lost
		break
		welcome
		send -> a:released | credit 2
		answer lease_lost
		finished -> true`,
	"a park without an answer is sent again until its lease is lost": `
		running a b
		ended a parked
		ended b parked
		send -> a:parked b:parked | credit 2
		break
		welcome a
		send -> a:parked | credit 2
		held -> a`,
	"the progress of a lost lease is not sent again": `
		running a
		progress a half
		send -> a:half
		cancel a -> stop a
		break
		welcome
		send -> credit 1`,
	"leases outlive a break by the grace period": `
		running a
		at 10
		break
		at 14.9
		expire ->
		at 15
		expire -> stop a`,
	"an attempt to connect that fails does not extend the grace period": `
		running a
		break
		at 4
		break
		at 5
		expire -> stop a`,
	"the grace period does not extend a lease": `
		running a
		at 58
		break
		at 60
		expire -> stop a`,
	"a kept lease counts from when the Hello was sent, with the length that the server names": `
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
		heartbeat -> a
		break
		at 21
		welcome a
		at 30
		ack 1
		at 81
		expire -> stop a`,
	"handlers of leases that the Welcome does not keep are stopped": `
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
		send -> a:released | credit 2`,
	"a release without an answer is sent again": `
		running a
		cancel a -> stop a
		ended a stopped
		send -> a:released | credit 1
		break
		welcome
		send -> a:released | credit 2`,
	"a deregistered host stops all handlers": `
		running a b
		deregister -> stop a b
		held ->`,
}
