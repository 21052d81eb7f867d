package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updatePage = flag.Bool("update", false, "write the list of commands in docs/cli.md anew")

// The list of commands in docs/cli.md is that of `reprise --help`, and each has a section.
func TestCommandsPage(t *testing.T) {
	const path, begin, end = "../../docs/cli.md", "<!-- go test ./cmd/reprise -run TestCommandsPage -update -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(path)
	must(t, err)
	before, rest, ok1 := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the commands, between %q and %q", path, begin, end)
	}
	code, help, errs := runs(t.Context(), "--help")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	_, list, _ := strings.Cut(help, "Commands:\n")
	var want strings.Builder
	want.WriteString("| command | does |\n|---|---|\n")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)*).*\n((?:    .*\n)+)`).FindAllStringSubmatch(list, -1) {
		section := m[1]
		if !strings.Contains(after, "\n## reprise "+section+"\n") {
			section, _, _ = strings.Cut(section, " ")
		}
		if !strings.Contains(after, "\n## reprise "+section+"\n") {
			t.Errorf("no section about reprise %s", m[1])
		}
		does := strings.Join(strings.Fields(m[2]), " ")
		fmt.Fprintf(&want, "| [`reprise %s`](#reprise-%s) | %s |\n", m[1], strings.ReplaceAll(section, " ", "-"), does)
	}
	if *updatePage {
		must(t, os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644))
		return
	}
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("%s is stale: -update (-want +got):\n%s", path, diff)
	}
}
