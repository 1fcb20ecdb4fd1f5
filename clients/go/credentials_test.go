// Where credentials come from, and to whom they are not sent.

package taskyard

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// configure writes config.toml, and returns its folder.
func configure(t *testing.T, text string) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	write(t, filepath.Join(home, "taskyard", "config.toml"), text)
	return filepath.Join(home, "taskyard")
}

// settled returns the settings of a client with these options.
func settled(t *testing.T, address string, options ...Option) *settings {
	t.Helper()
	return connect(t, address, options...).settings
}

func TestOptionsComeBeforeTheEnvironmentAndThatBeforeItsProfile(t *testing.T) {
	configure(t, `[profiles.blue]
		address = "127.0.0.1:1"
		namespace = "blue"
		token = "of-profile"`)
	client := must(Connect("", WithProfile("blue")))(t)
	defer func() { _ = client.Close() }()
	if client.conn.Target() != "127.0.0.1:1" || client.namespace != "blue" || client.identity.token.token != "of-profile" {
		t.Errorf("%+v", client.identity)
	}
	t.Setenv("TASKYARD_PROFILE", "blue")
	if got := settled(t, "127.0.0.1:2"); got.identity.token.token != "of-profile" || got.conn.Target() != "127.0.0.1:2" {
		t.Errorf("%+v", got.identity)
	}
	t.Setenv("TASKYARD_TOKEN", "of-environment")
	if got := settled(t, "127.0.0.1:2"); got.identity.token.token != "of-environment" {
		t.Errorf("%+v", got.identity)
	}
	// The token of the environment is not for the server of a profile that was asked for.
	if got := settled(t, "", WithProfile("blue")); got.identity.token.token != "of-profile" {
		t.Errorf("%+v", got.identity)
	}
	if got := settled(t, "127.0.0.1:2", WithToken("")); got.identity.token != nil {
		t.Errorf("%+v", got.identity)
	}
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "of-file\n")
	if got := settled(t, "127.0.0.1:2", WithTokenFile(file)); got.identity.token.current() != "of-file" {
		t.Errorf("%+v", got.identity)
	}
}

func TestAddressAndNamespaceComeFromTheEnvironmentWhereNoOptionNamesThem(t *testing.T) {
	configure(t, `default_profile = "red"
		[profiles.red]
		token = "of-default"
		[profiles.blue]
		namespace = "blue"`)
	t.Setenv("TASKYARD_ADDRESS", "127.0.0.1:1")
	t.Setenv("TASKYARD_NAMESPACE", "green")
	for name, each := range map[string]struct {
		address           string
		options           []Option
		target, namespace string
	}{
		"no option":               {"", nil, "127.0.0.1:1", "green"},
		"an address":              {"127.0.0.1:2", nil, "127.0.0.1:2", "green"},
		"a namespace":             {"", []Option{WithNamespace("red")}, "127.0.0.1:1", "red"},
		"a profile with only one": {"", []Option{WithProfile("blue")}, "127.0.0.1:1", "blue"},
	} {
		client := must(Connect(each.address, each.options...))(t)
		_ = client.Close()
		// The default profile is for its own server.
		if client.conn.Target() != each.target || client.namespace != each.namespace || client.identity.token != nil {
			t.Errorf("%s: %s %s %+v", name, client.conn.Target(), client.namespace, client.identity)
		}
	}
}

func TestCertificateAndKeyComeFromOnePlace(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(t)
	t.Setenv("TASKYARD_CERT", cert)
	if _, err := Connect("127.0.0.1:1"); CodeOf(err) != CodeBadRequest || !strings.Contains(err.Error(), "TASKYARD_KEY") {
		t.Error(err)
	}
	t.Setenv("TASKYARD_KEY", key)
	if got := settled(t, "127.0.0.1:1"); got.security == nil || got.identity.cert != cert {
		t.Errorf("%+v", got.identity)
	}
	other, otherKey := ca.issue(t)
	if got := settled(t, "127.0.0.1:1", WithClientCertificate(other, otherKey)); got.identity.key != otherKey {
		t.Errorf("%+v", got.identity)
	}
}

func TestDefaultProfileCountsOnlyWhereNoAddressIsGiven(t *testing.T) {
	configure(t, `default_profile = "blue"
		[profiles.blue]
		address = "127.0.0.1:1"
		token = "of-profile"`)
	for address, want := range map[string]bool{"": true, "127.0.0.1:1": false} {
		if got := settled(t, address); (got.identity.token != nil) != want {
			t.Errorf("%q: %+v", address, got.identity)
		}
	}
}

func TestPathsOfAProfileBeginAtItsFolder(t *testing.T) {
	folder := configure(t, `[profiles.blue]
		address = "unix:///tmp/t.sock"
		token_file = "token"`)
	write(t, filepath.Join(folder, "token"), "of-file")
	if got := settled(t, "", WithProfile("blue")); got.identity.token.current() != "of-file" {
		t.Errorf("%+v", got.identity)
	}
}

func TestMistakesInCredentialsAreNamedWithoutTheSecret(t *testing.T) {
	const secret = "tyd_0123456789"
	folder := configure(t, `[profiles.both]
		address = "127.0.0.1:1"
		token = "tyd_0123456789"
		token_file = "token"
		[profiles.typo]
		tokens = "tyd_0123456789"`)
	empty := filepath.Join(t.TempDir(), "token")
	write(t, empty, "\n")
	lines := filepath.Join(t.TempDir(), "token")
	write(t, lines, secret+"\n"+secret+"\n")
	for want, options := range map[string][]Option{
		"[profiles.red]":                   {WithProfile("red")},
		"profiles.typo.tokens: unknown":    {WithProfile("typo")},
		"token_file of profile both":       {WithProfile("both")},
		"set only one of them":             {WithToken(secret), WithTokenFile(empty)},
		"is empty":                         {WithTokenFile(empty)},
		"one line":                         {WithTokenFile(lines)},
		"no such file":                     {WithTokenFile("/nowhere/token")},
		"is a token":                       {WithTokenFile(secret)},
		"printable ASCII":                  {WithToken(secret + "\n")},
		"ca: open /nowhere":                {WithCA("/nowhere")},
		"has no certificate":               {WithCA(empty)},
		"is a text in PEM":                 {WithClientCertificate("cert.pem", "-----BEGIN PRIVATE KEY-----\n"+secret)},
		"key of one needs the other, both": {WithClientCertificate("", "key.pem")},
	} {
		_, err := Connect("127.0.0.1:1", options...)
		if want == "key of one needs the other, both" {
			want = "one needs the other"
		}
		if CodeOf(err) != CodeBadRequest || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", want, err)
		}
	}
	list := "[profiles.red]\ntoken = [\"" + secret + "\"]"
	for _, broken := range []string{"token = " + secret, list, "[profiles.red]\n\"" + secret} {
		write(t, filepath.Join(folder, "config.toml"), broken)
		_, err := Connect("127.0.0.1:1", WithProfile("red"))
		if reason := err.Error(); !strings.Contains(reason, "config.toml") || strings.Contains(reason, secret) {
			t.Errorf("%s: %v", broken, err)
		}
	}
}

func TestTokenIsNotSentInTheClearToAnotherMachine(t *testing.T) {
	ca := newAuthority(t)
	for address, isSent := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "LOCALHOST:1": true,
		"unix:///tmp/t.sock": true, "dns:///localhost:1": true, "passthrough:///127.0.0.1:1": true,
		"taskyard.example:1": false, "10.0.0.1:1": false, "0.0.0.0:1": false, "localhost.example:1": false,
		"127.0.0.1.example:1": false, "dns:///taskyard.example:1": false, "dns://8.8.8.8/localhost:1": false,
		"https://taskyard.example:1": true, "https://taskyard.example": true, "https://10.0.0.1/": true,
	} {
		client, err := Connect(address, WithToken("secret"))
		isRefused := CodeOf(err) == CodeBadRequest && strings.Contains(err.Error(), "without encryption")
		if isSent == isRefused || isSent && err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			_ = client.Close()
		}
	}
	settled(t, "taskyard.example:1")
	settled(t, "taskyard.example:1", WithToken("secret"), WithInsecure())
	settled(t, "taskyard.example:1", WithToken("secret"), WithCA(ca.file))
	t.Setenv("TASKYARD_TOKEN", "secret")
	if _, err := Connect("taskyard.example:1"); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
}

func TestUnixSocketTakesNoTLSFromTheEnvironment(t *testing.T) {
	ca := newAuthority(t)
	t.Setenv("TASKYARD_CA", ca.file)
	if got := settled(t, "unix:///tmp/t.sock"); got.security != nil {
		t.Error("it is encrypted")
	}
	if _, err := Connect("unix:///tmp/t.sock", WithCA(ca.file)); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
}

func TestTokenFileIsReadAnewWhenItChanges(t *testing.T) {
	f, file := &fakeServer{}, filepath.Join(t.TempDir(), "token")
	write(t, file, "first\n")
	client := serve(t, f, WithTokenFile(file))
	// The last change leaves nothing to read: a file is replaced in steps.
	for _, change := range []func(){
		func() {},
		func() { write(t, file, "again\n") },
		func() { write(t, file+".new", "third"); _ = os.Rename(file+".new", file) },
		func() { _ = os.Remove(file) },
	} {
		change()
		must(client.Submit(testContext(t), NewTask{Action: "echo"}))(t)
	}
	var sent []string
	for _, each := range f.headers {
		sent = append(sent, each.Get("authorization")...)
	}
	if got := strings.Join(sent, ", "); got != "Bearer first, Bearer again, Bearer third, Bearer third" {
		t.Error(got)
	}
}

func TestPipeGivesItsTokenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("of-pipe\n"), 0o600) }()
	token := settled(t, "127.0.0.1:1", WithTokenFile(path)).identity.token
	if err := receive(t, written); err != nil || token.current() != "of-pipe" || !token.renew() || token.current() != "of-pipe" {
		t.Error(err, token.current())
	}
}

func TestSchedulesAndOtherStubsCarryTheTokenToo(t *testing.T) {
	f := &fakeServer{}
	stub := taskyardv1.NewBatchServiceClient(serve(t, f, WithToken("secret")).Conn())
	must(stub.SubmitBatch(testContext(t), &taskyardv1.SubmitBatchRequest{}))(t)
	if got := f.headers[0].Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		t.Error(got)
	}
}
