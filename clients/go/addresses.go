// Addresses of servers: how they are written, which ask for TLS, which stay on this machine, and how gRPC gets there.

package taskyard

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// oneAtRandom lets gRPC try the addresses of a server in random order, and keep the first connection that works. So the
// clients spread over replicas, and each passes over those that are dead.
const oneAtRandom = `{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}`

// addresses are the servers that a client may use, any of which does.
type addresses struct {
	targets   []string // Of gRPC.
	encrypted bool     // An address asks for TLS.
}

// addressesOf reads an address, or several with commas in between.
func addressesOf(text string) (addresses, error) {
	var found addresses
	parts := strings.Split(text, ",")
	for _, part := range parts {
		target, encrypted, err := targetOf(strings.TrimSpace(part))
		if err != nil {
			return addresses{}, err
		}
		if len(parts) > 1 {
			if rest, ok := cutDNS(target); ok {
				target = rest
			}
			_, port, err := net.SplitHostPort(target)
			number, notNumber := strconv.ParseUint(port, 10, 16)
			isPlain := err == nil && notNumber == nil && number > 0 && !strings.Contains(target, "/")
			if !isPlain && !strings.HasPrefix(target, "unix:") {
				return addresses{}, badRequest("address: several must each be HOST:PORT, https://HOST:PORT, " +
					"dns:///HOST:PORT or unix:PATH")
			}
		}
		found.targets = append(found.targets, target)
		found.encrypted = found.encrypted || encrypted
	}
	return found, nil
}

func (a addresses) areAllUnix() bool {
	return !slices.ContainsFunc(a.targets, func(target string) bool { return !isUnix(target) })
}

// dial returns the target for gRPC, and the options with which it finds all servers there.
func (a addresses) dial() (target string, options []grpc.DialOption) {
	options = []grpc.DialOption{grpc.WithDefaultServiceConfig(oneAtRandom)}
	if len(a.targets) == 1 {
		return a.targets[0], options
	}
	var state resolver.State
	for _, each := range a.targets {
		// The certificate of each server bears its own name.
		address := resolver.Address{Addr: each, ServerName: each}
		if isUnix(each) {
			address.ServerName = "localhost"
		}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
	}
	replicas := manual.NewBuilderWithScheme("taskyard")
	replicas.InitialState(state)
	return "taskyard:///" + a.targets[0], append(options, grpc.WithResolvers(replicas))
}

// targetOf returns what gRPC connects to, and whether the address asks for TLS.
func targetOf(address string) (target string, encrypted bool, err error) {
	refusal := badRequest("address: must be HOST:PORT or https://HOST:PORT, or a gRPC target such as unix:///PATH, " +
		"or several of them with commas in between")
	rest, isURL := strings.CutPrefix(address, "https://")
	if isURL {
		parsed, err := url.Parse(address)
		if err != nil || parsed.Hostname() == "" || strings.TrimSuffix(rest, "/") != parsed.Host {
			return "", false, refusal
		}
		return net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "443")), true, nil
	}
	_, port, err := net.SplitHostPort(address)
	_, isDNS := cutDNS(address)
	isTarget := strings.Contains(address, "/") && !strings.HasPrefix(address, "http") || isUnix(address) || isDNS
	if !isTarget && (err != nil || port == "") {
		return "", false, refusal
	}
	return address, false, nil
}

// cutDNS returns the HOST:PORT of a target that the resolver of this machine resolves.
func cutDNS(target string) (endpoint string, ok bool) {
	if endpoint, ok = strings.CutPrefix(target, "dns:///"); ok {
		return endpoint, true
	}
	endpoint, ok = strings.CutPrefix(target, "dns:")
	return endpoint, ok && !strings.HasPrefix(endpoint, "//")
}

// isUnix reports whether a target is a unix socket.
func isUnix(target string) bool {
	return strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:")
}

// staysHere reports whether what is sent to a target does not leave this machine.
func staysHere(target string) bool {
	if isUnix(target) {
		return true
	}
	// With a name server of its own, as in dns://SERVER/NAME, localhost may be anywhere.
	if endpoint, ok := cutDNS(target); ok {
		target = endpoint
	}
	target = strings.TrimPrefix(target, "passthrough:///")
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
