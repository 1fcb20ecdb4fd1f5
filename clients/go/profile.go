// The profiles of the file config.toml, which name servers and who calls them.

package taskyard

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

// profile is one table [profiles.NAME] of config.toml.
type profile struct {
	name      string
	Address   string `toml:"address"`
	Namespace string `toml:"namespace"`
	Token     string `toml:"token"`
	TokenFile string `toml:"token_file"`
	CA        string `toml:"ca"`
	Cert      string `toml:"cert"`
	Key       string `toml:"key"`
}

// findProfile returns the profile of a name. Without a name it returns the default profile, but only for its own
// address, or where none is given: its token is not for other servers, which a program names itself. It returns nil if
// no profile applies. A name without a profile is an error.
func findProfile(name, address string) (*profile, error) {
	path := configFile()
	if path == "" {
		return nil, missingProfile(name, "there is no home folder")
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingProfile(name, path+" does not exist")
	}
	if err != nil {
		return nil, badRequest("profile: " + err.Error())
	}
	var config struct {
		DefaultProfile string              `toml:"default_profile"`
		Profiles       map[string]*profile `toml:"profiles"`
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return nil, badRequest("profile: " + path + " is not as it should be" + lineOf(err))
	}
	wanted := cmp.Or(name, config.DefaultProfile)
	found := config.Profiles[wanted]
	switch {
	case wanted == "":
		return nil, nil
	case found == nil && (name != "" || address == ""):
		return nil, missingProfile(wanted, path+" has no table [profiles."+wanted+"]")
	case found == nil || name == "" && address != "" && address != found.Address:
		return nil, nil
	}
	found.name = wanted
	for _, each := range []*string{&found.TokenFile, &found.CA, &found.Cert, &found.Key} {
		*each = besideConfig(path, *each)
	}
	return found, nil
}

func missingProfile(name, why string) error {
	if name == "" {
		return nil
	}
	return badRequest(fmt.Sprintf("profile: %q is unknown: %s", name, why))
}

// configFile returns the path of config.toml, "" where there is no home folder. The rules of XDG have a relative
// XDG_CONFIG_HOME ignored.
func configFile() string {
	folder := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(folder) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		folder = filepath.Join(home, ".config")
	}
	return filepath.Join(folder, "taskyard", "config.toml")
}

// besideConfig returns a path of config.toml: relative ones begin at the folder of the file, and ~/ is the home folder.
func besideConfig(config, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(config), path)
}

// lineOf returns where a file is broken, without the text of the parser, which may quote a token.
func lineOf(err error) string {
	if broken, ok := errors.AsType[toml.ParseError](err); ok && broken.Position.Line > 0 {
		return fmt.Sprintf(" in line %d", broken.Position.Line)
	}
	return ""
}
