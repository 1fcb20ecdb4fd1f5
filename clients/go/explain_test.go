// What an outage looks like: one line when it begins, with the address, and another when it is over.

package taskyard

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestFirstFailedCallOfAnOutageIsLoggedWithTheAddress(t *testing.T) {
	var log bytes.Buffer
	at := freeAddress()
	logger := slog.New(slog.NewTextHandler(&log, nil))
	client := connect(t, at, WithPatience(300*time.Millisecond), WithLogger(logger))
	var err error
	for range 2 {
		_, err = client.Get(testContext(t), "tsk_1")
	}
	found := errorFrom(err)
	if raw, _ := found.Details["transport"].(string); !strings.Contains(raw, "Error while dialing") ||
		!strings.HasPrefix(found.Reason, "no server answers at "+at+" (connection refused); tried for 300ms") {
		t.Errorf("%s %q %q", found, found.Reason, found.Details)
	}
	(&fakeServer{}).listen(t, "tcp", at)
	eventually(t, func() bool { _, err := client.Get(testContext(t), "tsk_1"); return err == nil })
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "server="+at) ||
		!strings.Contains(lines[0], "for=300ms") || !strings.Contains(lines[1], "answers again") {
		t.Error(log.String())
	}
}
