// How a load is known to the server: a namespace, a token, TLS, a client certificate.

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// headers are sent with every call, also in the clear.
type headers map[string]string

func (h headers) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return h, nil
}

func (headers) RequireTransportSecurity() bool { return false }

// dialOptions are those of a connection with the credentials of the load.
func dialOptions(o *Options) ([]grpc.DialOption, error) {
	options := []grpc.DialOption{}
	sent := headers{}
	if o.Token != "" {
		sent["authorization"] = "Bearer " + o.Token
	}
	if o.Namespace != "" {
		sent["taskyard-namespace"] = o.Namespace
	}
	if len(sent) > 0 {
		options = append(options, grpc.WithPerRPCCredentials(sent))
	}
	if o.CA == "" {
		return append(options, grpc.WithTransportCredentials(insecure.NewCredentials())), nil
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12, ServerName: "localhost"}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + o.CA)
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return append(options, grpc.WithTransportCredentials(credentials.NewTLS(config))), nil
}
