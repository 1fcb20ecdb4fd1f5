// TLS of a connection by files of certificates, which are read anew for each connection, and what went wrong in it.

package taskyard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// handshake tells how far the last connection came: a server that refuses a client certificate, or misses one, ends the
// connection after the handshake, mostly without a word.
type handshake int32

const (
	handshakeAccepted  handshake = iota // The server has spoken, or did not ask for a certificate.
	certificateMissing                  // It asked for one, there was none, and it has not spoken since.
	certificateShown                    // It asked for one, got it, and has not spoken since.
)

// transportSecurity are the credentials of gRPC for a client's connections by TLS.
type transportSecurity struct {
	base *tls.Config
	identity
	state *atomic.Int32
}

func newTransportSecurity(base *tls.Config, who identity) (*transportSecurity, error) {
	if base == nil {
		base = &tls.Config{}
	}
	security := &transportSecurity{base, who, new(atomic.Int32)}
	_, err := security.config()
	return security, err
}

// config returns the configuration of the next connection.
func (t *transportSecurity) config() (*tls.Config, error) {
	config := t.base.Clone()
	if t.ca != "" && config.RootCAs == nil {
		text, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, badRequest("ca: " + err.Error())
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, badRequest("ca: " + t.ca + " has no certificate in PEM")
		}
	}
	if t.cert != "" && config.GetClientCertificate == nil && len(config.Certificates) == 0 {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, badRequest("cert " + t.cert + ", key " + t.key + ": " + err.Error())
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	own, pairs := config.GetClientCertificate, config.Certificates
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		shown, err := chosenCertificate(asked, own, pairs)
		if shown != nil && len(shown.Certificate) > 0 {
			t.state.Store(int32(certificateShown))
		} else {
			t.state.Store(int32(certificateMissing))
		}
		return shown, err
	}
	return config, nil
}

// chosenCertificate returns the certificate that crypto/tls would choose by itself, an empty one if there is none.
func chosenCertificate(
	asked *tls.CertificateRequestInfo, own func(*tls.CertificateRequestInfo) (*tls.Certificate, error),
	pairs []tls.Certificate,
) (*tls.Certificate, error) {
	if own != nil {
		return own(asked)
	}
	for i := range pairs {
		if asked.SupportsCertificate(&pairs[i]) == nil {
			return &pairs[i], nil
		}
	}
	return &tls.Certificate{}, nil
}

// ClientHandshake secures a connection.
func (t *transportSecurity) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	t.state.Store(int32(handshakeAccepted))
	config, err := t.config()
	if err != nil {
		return nil, nil, err
	}
	conn, info, err := credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return &heardConn{Conn: conn, state: t.state}, info, nil
}

// heardConn notes that the server has spoken after the handshake.
type heardConn struct {
	net.Conn
	state *atomic.Int32
}

func (c *heardConn) Read(into []byte) (int, error) {
	count, err := c.Conn.Read(into)
	if count > 0 && c.state.Load() != int32(handshakeAccepted) {
		c.state.Store(int32(handshakeAccepted))
	}
	return count, err
}

// ServerHandshake does not happen at a client.
func (t *transportSecurity) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("taskyard: a client accepts no connections")
}

// Info names the protocol.
func (t *transportSecurity) Info() credentials.ProtocolInfo { return credentials.NewTLS(t.base).Info() }

// Clone returns the same credentials, for another channel.
func (t *transportSecurity) Clone() credentials.TransportCredentials {
	return &transportSecurity{t.base.Clone(), t.identity, t.state}
}

// OverrideServerName sets the name that the server's certificate must have.
func (t *transportSecurity) OverrideServerName(name string) error {
	t.base.ServerName = name
	return nil
}

// hint returns what helps against an error of the transport, "" if it says enough by itself. The security is nil for a
// connection without TLS.
func (t *transportSecurity) hint(raw string) string {
	has := func(text string) bool { return strings.Contains(raw, text) }
	switch {
	case has("Error while dialing"), has("timeout"), has("deadline"):
	case t == nil && has("server preface"):
		return "the server closed the connection before its first word: if it demands TLS, set a CA or an https:// address"
	case t == nil:
	case has("first record does not look like a TLS handshake"):
		return "the server does not speak TLS at this address: leave out https://, the CA and the client certificate"
	case has("certificate signed by unknown authority") && t.ca != "":
		return "the server's certificate is not signed by the CA in " + t.ca
	case has("certificate signed by unknown authority"):
		return "the server's certificate is signed by no CA of this system: set the CA that signed it"
	case has("tls: certificate required"), t.state.Load() == int32(certificateMissing) && isEndOfConnection(raw):
		return "the server demands a client certificate, and none is set"
	case has("remote error: tls:"), t.state.Load() == int32(certificateShown) && isEndOfConnection(raw):
		if t.cert != "" {
			return "the server refused the connection after the client certificate " + t.cert + " was shown"
		}
	}
	return ""
}

func isEndOfConnection(raw string) bool {
	for _, each := range []string{"server preface", "broken pipe", "reset by peer", "EOF", "connection closed"} {
		if strings.Contains(raw, each) {
			return true
		}
	}
	return false
}
