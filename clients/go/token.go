// The token of a client: a fixed one, or that of a file, which is read anew when it changes.

package taskyard

import (
	"os"
	"strings"
	"sync"
	"time"
)

// tokenSource gives the token of each call.
type tokenSource struct {
	// tried names the token for people, and nothing of what it holds.
	tried string
	path  string // "" for a fixed token

	mu    sync.Mutex
	token string
	file  os.FileInfo
}

func newTokenSource(place given) (*tokenSource, error) {
	if place.token != "" && place.tokenFile != "" {
		return nil, badRequest(place.named("token") + " and " + place.named("token_file") + ": set only one of them")
	}
	if place.token != "" {
		if !isHeader(place.token) {
			return nil, badRequest(place.named("token") + ": must be printable ASCII; a line end may have come along")
		}
		where := "from " + place.named("token")
		if _, name, ok := strings.Cut(where, " of profile "); ok {
			where = "of profile " + name
		}
		return &tokenSource{tried: "the token " + where, token: place.token}, nil
	}
	if strings.HasPrefix(place.tokenFile, "tyd_") || strings.HasPrefix(place.tokenFile, "eyJ") {
		return nil, badRequest(place.named("token_file") + ": must be the path of a file, is a token")
	}
	source := &tokenSource{
		tried: "the token file " + place.tokenFile + " from " + place.named("token_file"), path: place.tokenFile,
	}
	if reason := source.readAnew(); reason != "" {
		return nil, badRequest(place.named("token_file") + ": " + reason)
	}
	return source, nil
}

// current returns the token to send now.
func (s *tokenSource) current() string {
	if s.path == "" {
		return s.token
	}
	file, err := os.Stat(s.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && !isSame(file, s.file) {
		s.readAnew()
	}
	return s.token
}

// isSame reports whether a file is as it was. Files are often replaced by others of the same size.
func isSame(file, before os.FileInfo) bool {
	// A file that was written to a moment ago may change again at the same time of the file system.
	isSettled := time.Since(file.ModTime()) > 50*time.Millisecond
	return isSettled && before != nil && os.SameFile(file, before) && file.ModTime().Equal(before.ModTime()) &&
		file.Size() == before.Size()
}

// readAnew reads the file. It returns why that does not work, and then the token stays: a file is replaced in steps. The
// lock is held.
func (s *tokenSource) readAnew() (reason string) {
	file, err := os.Stat(s.path)
	if err != nil {
		return err.Error()
	}
	if s.file != nil && !s.file.Mode().IsRegular() {
		// A pipe gives its token once.
		return ""
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return err.Error()
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return s.path + " is empty"
	}
	if !isHeader(token) {
		return s.path + " must hold one line of printable ASCII"
	}
	s.token, s.file = token, file
	return ""
}

// renew reads the token anew after a refusal. It returns whether there may be another one: that of a file.
func (s *tokenSource) renew() bool {
	if s == nil || s.path == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAnew()
	return true
}
