// What a client shows of itself, and whom it trusts: found in options, the environment and a profile.

package taskyard

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// given are the credentials of one place: the options, the environment, or a profile. The first place that has a token
// or a token file gives both; the same holds for certificate and key.
type given struct {
	token, tokenFile, ca, cert, key string
	// noToken means that no token is wanted, whatever other places say.
	noToken bool
	// named tells of each of them how people know it.
	named func(option string) string
}

// identity is what a client shows of itself, and whom it trusts.
type identity struct {
	token         *tokenSource // nil without a token
	ca, cert, key string
}

func environment() given {
	return given{
		token: os.Getenv("TASKYARD_TOKEN"), tokenFile: os.Getenv("TASKYARD_TOKEN_FILE"), ca: os.Getenv("TASKYARD_CA"),
		cert: os.Getenv("TASKYARD_CERT"), key: os.Getenv("TASKYARD_KEY"),
		named: func(option string) string { return "TASKYARD_" + strings.ToUpper(option) },
	}
}

func (p *profile) given() given {
	return given{
		token: p.texts["token"], tokenFile: p.texts["token_file"], ca: p.texts["ca"], cert: p.texts["cert"],
		key: p.texts["key"], named: func(option string) string { return option + " of profile " + p.name },
	}
}

// showsCaller reports whether a place says who calls.
func (g given) showsCaller() bool {
	return g.token != "" || g.tokenFile != "" || g.cert != "" || g.key != ""
}

// placesOf returns where to look for credentials, in this order: the options, a profile that they name, the environment,
// a profile that it names, and the default profile. No token reaches another server than its own: the default profile
// counts only where no address is given, and the environment does not say who calls beside a profile that the options
// name and that does. The profile is nil if none counts.
func placesOf(options given, name, address string) ([]given, *profile, error) {
	variables := environment()
	places := []given{options, variables}
	fromEnvironment := os.Getenv("TASKYARD_PROFILE")
	if name == "" && fromEnvironment == "" && address != "" {
		return places, nil, nil
	}
	found, err := findProfile(cmp.Or(name, fromEnvironment))
	if found == nil || err != nil {
		return places, nil, err
	}
	if name == "" {
		return append(places, found.given()), found, nil
	}
	if found.given().showsCaller() {
		variables = given{ca: variables.ca, named: variables.named}
	}
	return []given{options, found.given(), variables}, found, nil
}

// identityOf chooses among places, the first of which has precedence.
func identityOf(places ...given) (identity, error) {
	var chosen identity
	withoutToken := false
	for _, place := range places {
		for option, path := range map[string]string{"ca": place.ca, "cert": place.cert, "key": place.key} {
			// The path stands in errors, where a private key must not.
			if strings.Contains(path, "-----BEGIN") {
				return identity{}, badRequest(place.named(option) + ": must be the path of a file, is a text in PEM")
			}
		}
		chosen.ca = cmp.Or(chosen.ca, place.ca)
		if place.noToken && place.tokenFile == "" {
			withoutToken = true
		}
		if !withoutToken && chosen.token == nil && (place.token != "" || place.tokenFile != "") {
			token, err := newTokenSource(place)
			if err != nil {
				return identity{}, err
			}
			chosen.token = token
		}
		if chosen.cert != "" || place.cert == "" && place.key == "" {
			continue
		}
		if place.cert == "" || place.key == "" {
			return identity{}, badRequest(place.named("cert") + " and " + place.named("key") + ": one needs the other")
		}
		chosen.cert, chosen.key = place.cert, place.key
	}
	return chosen, nil
}

// tried names the credentials that a call showed, and nothing of what they hold.
func (i identity) tried() string {
	var shown []string
	if i.token != nil {
		shown = append(shown, i.token.tried)
	}
	if i.cert != "" {
		shown = append(shown, "the client certificate "+i.cert)
	}
	return cmp.Or(strings.Join(shown, " and "), "nothing: no token and no client certificate is set")
}

// targetOf returns what gRPC connects to, and whether the address asks for TLS.
func targetOf(address string) (target string, encrypted bool, err error) {
	refusal := badRequest("address: must be HOST:PORT or https://HOST:PORT, or a gRPC target such as unix:///PATH")
	rest, isURL := strings.CutPrefix(address, "https://")
	if isURL {
		parsed, err := url.Parse(address)
		if err != nil || parsed.Hostname() == "" || strings.TrimSuffix(rest, "/") != parsed.Host {
			return "", false, refusal
		}
		return net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "443")), true, nil
	}
	_, port, err := net.SplitHostPort(address)
	isTarget := strings.Contains(address, "/") && !strings.HasPrefix(address, "http")
	if !isTarget && (err != nil || port == "") {
		return "", false, refusal
	}
	return address, false, nil
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
	if scheme, endpoint, ok := strings.Cut(target, ":///"); ok && (scheme == "dns" || scheme == "passthrough") {
		target = endpoint
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
