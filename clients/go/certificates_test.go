// Certificates that the tests make for themselves.

package taskyard

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// authority is a certificate authority of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// file has its certificate.
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	encoded := must(x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key))(t)
	a.certificate = must(x509.ParseCertificate(encoded))(t)
	a.file = filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, a.file, "CERTIFICATE", encoded)
	return a
}

// issue makes a certificate for this machine, and returns the files of it and of its key.
func (a *authority) issue(t *testing.T) (cert, key string) {
	t.Helper()
	return a.issueFor(t, []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
}

func (a *authority) issueFor(t *testing.T, names []string, addresses []net.IP) (cert, key string) {
	t.Helper()
	own := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "somebody"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IPAddresses: addresses,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	encoded := must(x509.CreateCertificate(rand.Reader, template, a.certificate, &own.PublicKey, a.key))(t)
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	writePEM(t, cert, "CERTIFICATE", encoded)
	writePEM(t, key, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(own))(t))
	return cert, key
}

// server returns the option of a server whose certificate the authority has signed. With clients it demands a client
// certificate of that authority.
func (a *authority) server(t *testing.T, clients *authority) grpc.ServerOption {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(a.issue(t)))(t)}}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(clients.certificate)
	}
	return grpc.Creds(credentials.NewTLS(config))
}

func writePEM(t *testing.T, path, kind string, encoded []byte) {
	t.Helper()
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: encoded})))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
