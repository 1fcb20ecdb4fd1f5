// Heartbeats of a session, and when its leases end. The notation is explained in session_script_test.go.

package taskyard

import "testing"

func TestSessionHeartbeats(t *testing.T) { runScripts(t, heartbeatCases) }

var heartbeatCases = map[string]string{
	"heartbeats list every lease until its outcome is answered": `
		running a b
		ended a
		heartbeat -> a b
		send -> a:done | credit 1
		heartbeat -> a b
		answer ok
		heartbeat -> b`,
	"a heartbeat carries the tokens that each handler stated last": `
		running a b
		tokens a 5
		heartbeat -> a:5 b
		tokens a 8
		tokens b 0
		heartbeat -> a:8 b:0
		break
		held -> a b
		welcome a b
		heartbeat -> a:8 b:0`,
	"a lease counts from the last answered heartbeat before its hand-out": `
		at 30
		running a
		at 59
		expire ->
		at 60
		expire -> stop a`,
	"a renewal counts from when its heartbeat was sent, not from the answer": `
		running a
		at 20
		heartbeat -> a
		at 50
		ack 1
		at 79
		expire ->
		at 80
		expire -> stop a`,
	"an answer renews only the leases that its heartbeat listed": `
		heartbeat ->
		running a
		at 50
		ack 1
		at 60
		expire -> stop a`,
	"an unanswered heartbeat renews nothing": `
		running a
		at 20
		heartbeat -> a
		at 60
		expire -> stop a`,
	"an answer belongs to the heartbeat with its sequence number": `
		running a
		at 10
		heartbeat -> a
		at 20
		heartbeat -> a
		ack 2
		ack 1
		at 79
		expire ->
		at 80
		expire -> stop a`,
	"a lease that an answer names as lost is stopped, and then released": `
		running a b
		heartbeat -> a b
		ack 1 a -> stop a
		heartbeat -> b
		ended a stopped
		send -> a:released | credit 1`,
	"a lost lease is stopped only once": `
		running a
		cancel a -> stop a
		cancel a
		heartbeat ->
		ack 1 a
		at 100
		expire ->`,
}
