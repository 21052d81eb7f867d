package reprise_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The lines of Go in README.md are those of the example, which is compiled and run, without its
// checks of errors.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("README.md has no Go")
	}
	rest := strings.Split(string(example), "\n")
	for line := range strings.Lines(string(block[1])) {
		want := code(line)
		if want == "" {
			continue
		}
		i := 0
		for i < len(rest) && code(rest[i]) != want {
			i++
		}
		if i == len(rest) {
			t.Fatalf("README.md has a line that example_test.go doesn't have, or not in that order:\n%s", line)
		}
		rest = rest[i+1:]
	}
}

// code is a line without indentation and comment.
func code(line string) string {
	line, _, _ = strings.Cut(line, " // ")
	return strings.TrimSpace(line)
}
