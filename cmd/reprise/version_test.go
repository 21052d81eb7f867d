package main

import (
	"cmp"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/tracebuf"
)

// The version says what the Go command knows of the sources: of a clone a revision, of a release
// only its number.
func TestVersionOfBuild(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for name, c := range map[string]struct {
		info  *debug.BuildInfo
		first string
		rest  string
	}{
		"clone": {&debug.BuildInfo{Main: debug.Module{Version: "v0.3.1-0.20260301120000-0123456789ab+dirty"}, Settings: []debug.BuildSetting{
			setting("vcs", "git"), setting("vcs.revision", "0123456789abcdef"), setting("vcs.time", "2026-03-01T12:00:00Z"),
			setting("vcs.modified", "true")}},
			"reprise v0.3.1-0.20260301120000-0123456789ab+dirty", "revision 0123456789abcdef of 2026-03-01T12:00:00Z, with changes"},
		"clean": {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
			setting("vcs.revision", "0123456789abcdef"), setting("vcs.modified", "false")}},
			"reprise (devel)", "revision 0123456789abcdef\n"},
		"release": {&debug.BuildInfo{Main: debug.Module{Version: "v0.3.0"}}, "reprise v0.3.0", "go go"},
		"nothing": {nil, "reprise unknown", "go go"},
	} {
		v, err := version()
		must(t, err)
		v.Revision, v.Time, v.Modified = "", "", nil
		v.built(c.info)
		var out strings.Builder
		must(t, cli.Print(&out, v.print))
		first, rest, _ := strings.Cut(squeeze(out.String()), "\n")
		if first != c.first || !strings.HasPrefix(rest, c.rest) {
			t.Errorf("%s: %q, then %q; want %q, then %q", name, first, rest, c.first, c.rest)
		}
	}
}

// squeeze writes one space for several.
func squeeze(s string) string {
	for strings.Contains(s, "  ") {
		s = strings.ReplaceAll(s, "  ", " ")
	}
	return s
}

// What is written can be read, and FileVersion is the newest of both.
func TestVersionsOfTraceFiles(t *testing.T) {
	v, err := version()
	must(t, err)
	read, written := v.Traces.Read, v.Traces.Written
	if read[0] != 1 || read[len(read)-1] != tracebuf.FileVersion || written[len(written)-1] != tracebuf.FileVersion {
		t.Errorf("reads %v, writes %v; the newest is %d", read, written, tracebuf.FileVersion)
	}
}

// The list of changes names every command that --help shows.
func TestChangelogNamesCommands(t *testing.T) {
	b, err := os.ReadFile("../../CHANGELOG.md")
	must(t, err)
	_, item, ok := strings.Cut(string(b), "\n- **Command** (`reprise`):")
	if !ok {
		t.Fatal("CHANGELOG.md has no item about the command")
	}
	item, _, _ = strings.Cut(item, "\n- ")
	count := 0
	for f := range reflect.TypeFor[commands]().Fields() {
		_, isCommand := f.Tag.Lookup("cmd")
		if _, hidden := f.Tag.Lookup("hidden"); !isCommand || hidden {
			continue
		}
		count++
		name := cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name))
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(item) {
			t.Errorf("CHANGELOG.md doesn't name reprise %s among the commands", name)
		}
	}
	if count == 0 {
		t.Error("no commands found")
	}
}
