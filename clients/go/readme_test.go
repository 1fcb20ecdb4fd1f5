// The snippets of the README.

package taskyard

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every snippet of the README is part of a file that is compiled, apart from the indentation.
func TestSnippetsOfTheReadmeAreCompiled(t *testing.T) {
	var compiled strings.Builder
	for _, file := range []string{"example/agent/main.go", "example/host/main.go", "example/program/main.go", "example_test.go"} {
		compiled.WriteString(flattened(string(must(os.ReadFile(file))(t))))
	}
	readme := string(must(os.ReadFile("README.md"))(t))
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(snippets) < 5 {
		t.Fatalf("%d snippets", len(snippets))
	}
	for _, snippet := range snippets {
		if !strings.Contains(compiled.String(), flattened(snippet[1])) {
			t.Errorf("not compiled:\n%s", snippet[1])
		}
	}
}

func flattened(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}
