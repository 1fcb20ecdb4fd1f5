// Connections by TLS, and what a client says when they fail.

package taskyard

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
)

const noPatience = time.Millisecond

func TestCAEncryptsTheConnection(t *testing.T) {
	ca := newAuthority(t)
	f := &fakeServer{options: []grpc.ServerOption{ca.server(t, nil)}}
	must(serve(t, f, WithCA(ca.file), WithToken("secret")).Get(testContext(t), "tsk_1"))(t)
	t.Setenv("TASKYARD_CA", ca.file)
	must(serve(t, f).Get(testContext(t), "tsk_1"))(t)
}

func TestClientCertificateIsShownToAServerThatDemandsOne(t *testing.T) {
	ca, clients := newAuthority(t), newAuthority(t)
	f := &fakeServer{options: []grpc.ServerOption{ca.server(t, clients)}}
	cert, key := clients.issue(t)
	must(serve(t, f, WithCA(ca.file), WithClientCertificate(cert, key)).Get(testContext(t), "tsk_1"))(t)
}

func TestErrorOfAConnectionSaysWhatToSet(t *testing.T) {
	ca, clients := newAuthority(t), newAuthority(t)
	encrypted := []grpc.ServerOption{ca.server(t, nil)}
	mutual := []grpc.ServerOption{ca.server(t, clients)}
	stranger := WithClientCertificate(newAuthority(t).issue(t))
	for name, each := range map[string]struct {
		server  []grpc.ServerOption
		options []Option
		want    string
	}{
		"a server with TLS, a client without":      {encrypted, nil, "if it demands TLS, set a CA"},
		"a client with TLS, a server without":      {nil, []Option{WithTLS(nil)}, "the server does not speak TLS"},
		"an authority that is not of the system":   {encrypted, []Option{WithTLS(nil)}, "set the CA that signed it"},
		"another authority than the server's":      {encrypted, []Option{WithCA(clients.file)}, "the CA in " + clients.file},
		"no client certificate":                    {mutual, []Option{WithCA(ca.file)}, "demands a client certificate"},
		"a client certificate of somebody unknown": {mutual, []Option{WithCA(ca.file), stranger}, "after the client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, &fakeServer{options: each.server}, append(each.options, WithPatience(noPatience))...)
			_, err := client.Get(testContext(t), "tsk_1")
			if CodeOf(err) != CodeUnavailable || !strings.Contains(err.Error(), each.want) {
				t.Error(err)
			}
			if raw := errors.Unwrap(err); raw == nil || raw.Error() == err.Error() {
				t.Errorf("the words of the transport are lost: %v", raw)
			}
		})
	}
}

func TestOutageOfAServerWithTLSIsNotBlamedOnCertificates(t *testing.T) {
	ca := newAuthority(t)
	client := connect(t, freeAddress(), WithCA(ca.file), WithPatience(noPatience))
	if _, err := client.Get(testContext(t), "tsk_1"); !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}

func TestReplacedCertificatesHoldForNewConnections(t *testing.T) {
	old, current, clients := newAuthority(t), newAuthority(t), newAuthority(t)
	f := &fakeServer{options: []grpc.ServerOption{current.server(t, clients)}}
	cert, key := newAuthority(t).issue(t)
	client := serve(t, f, WithCA(old.file), WithClientCertificate(cert, key), WithPatience(noPatience))
	if _, err := client.Get(testContext(t), "tsk_1"); CodeOf(err) != CodeUnavailable {
		t.Fatal(err)
	}
	newCert, newKey := clients.issue(t)
	for from, to := range map[string]string{current.file: old.file, newCert: cert, newKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	client.patience = 30 * time.Second
	must(client.Get(testContext(t), "tsk_1"))(t)
}
