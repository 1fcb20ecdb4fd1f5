// The profiles of the file config.toml, which name servers and who calls them.

package taskyard

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// profile is one table [profiles.NAME] of config.toml. Its paths are absolute.
type profile struct {
	name  string
	texts map[string]string
}

var profileKeys = []string{"address", "namespace", "token", "token_file", "ca", "cert", "key"}

// findProfile returns the profile of a name, that of default_profile without a name, or nil if there is none. A name
// without a profile is an error, and so is a file that is not as it should be.
func findProfile(name string) (*profile, error) {
	path := configFile()
	if path == "" {
		return nil, missingProfile(name, "there is no home folder")
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingProfile(name, path+" does not exist")
	}
	if err != nil {
		// Services run without a readable home: they fail only if they ask for a profile.
		return nil, missingProfile(name, err.Error())
	}
	var config struct {
		DefaultProfile string                    `toml:"default_profile"`
		Profiles       map[string]map[string]any `toml:"profiles"`
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return nil, badRequest("profile: " + path + " is not as it should be" + lineOf(err))
	}
	if name = cmp.Or(name, config.DefaultProfile); name == "" {
		return nil, nil
	}
	table, ok := config.Profiles[name]
	if !ok {
		return nil, missingProfile(name, path+" has no table [profiles."+name+"]")
	}
	found := &profile{name, map[string]string{}}
	for key, value := range table {
		text, isText := value.(string)
		switch {
		case !slices.Contains(profileKeys, key):
			return nil, badRequest(fmt.Sprintf("profile: %s: profiles.%s.%s: unknown key", path, name, key))
		case !isText || text == "":
			return nil, badRequest(fmt.Sprintf("profile: %s: profiles.%s.%s: must be a text", path, name, key))
		case slices.Contains(profileKeys[3:], key):
			text = besideConfig(path, text)
		}
		found.texts[key] = text
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
	if filepath.IsAbs(path) {
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
