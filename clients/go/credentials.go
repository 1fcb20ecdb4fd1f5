// Where a server is, what a client shows of itself, and whom it trusts: found in options, the environment and a profile.

package taskyard

import (
	"cmp"
	"os"
	"strings"
)

// given is what one place says: the options, the environment, or a profile. The first place that has a token or a token
// file gives both; the same holds for certificate and key.
type given struct {
	address, namespace              string
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
		address: os.Getenv("TASKYARD_ADDRESS"), namespace: os.Getenv("TASKYARD_NAMESPACE"),
		token: os.Getenv("TASKYARD_TOKEN"), tokenFile: os.Getenv("TASKYARD_TOKEN_FILE"), ca: os.Getenv("TASKYARD_CA"),
		cert: os.Getenv("TASKYARD_CERT"), key: os.Getenv("TASKYARD_KEY"),
		named: func(option string) string { return "TASKYARD_" + strings.ToUpper(option) },
	}
}

func (p *profile) given() given {
	return given{
		address: p.texts["address"], namespace: p.texts["namespace"],
		token: p.texts["token"], tokenFile: p.texts["token_file"], ca: p.texts["ca"], cert: p.texts["cert"],
		key: p.texts["key"], named: func(option string) string { return option + " of profile " + p.name },
	}
}

// showsCaller reports whether a place says who calls.
func (g given) showsCaller() bool {
	return g.token != "" || g.tokenFile != "" || g.cert != "" || g.key != ""
}

// placesOf returns where to look, in this order: the options, a profile that they name, the environment, a profile that it
// names, and the default profile. No token reaches another server than its own: the default profile counts only where
// neither options nor environment give an address, and the environment does not say who calls beside a profile that the
// options name and that does.
func placesOf(options given, name string) ([]given, error) {
	variables := environment()
	places := []given{options, variables}
	fromEnvironment := os.Getenv("TASKYARD_PROFILE")
	if name == "" && fromEnvironment == "" && cmp.Or(options.address, variables.address) != "" {
		return places, nil
	}
	found, err := findProfile(cmp.Or(name, fromEnvironment))
	if found == nil || err != nil {
		return places, err
	}
	if name == "" {
		return append(places, found.given()), nil
	}
	if found.given().showsCaller() {
		variables.token, variables.tokenFile, variables.cert, variables.key = "", "", "", ""
	}
	return []given{options, found.given(), variables}, nil
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
