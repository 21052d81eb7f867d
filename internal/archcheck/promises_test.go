package archcheck

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/internal/devtest"
)

const promisesFile = "testdata/promises.txt"

type promise struct {
	line        int // of the file
	seed, lines string
	text        string
	tests, ttnn []string
	instead     string // what stands in the place of a form that Go doesn't have
}

func readPromises(t *testing.T) []promise {
	t.Helper()
	b, err := os.ReadFile(promisesFile)
	devtest.Must(t, err)
	list := func(s string) []string {
		var out []string
		for e := range strings.SplitSeq(s, ";") {
			if e = strings.TrimSpace(e); e != "" {
				out = append(out, e)
			}
		}
		return out
	}
	var out []promise
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := append(strings.Split(line, "|"), "", "")[:5]
		for k := range f {
			f[k] = strings.TrimSpace(f[k])
		}
		seed, lines, ok := strings.Cut(f[0], ":")
		if !ok || f[1] == "" {
			t.Fatalf("%s:%d: want SEED:LINES | promise | tests | programs | instead", promisesFile, i+1)
		}
		out = append(out, promise{i + 1, seed, lines, f[1], list(f[2]), list(f[3]), f[4]})
	}
	return out
}

func TestPromises(t *testing.T) {
	promises := readPromises(t)
	tests, programs := testsOfTree(t), programsOfTTNN(t)
	for _, c := range hwtest.Cases() {
		tests["hwtest "+c.Layer+"/"+c.Name] = true
	}
	for _, p := range promises {
		at := fmt.Sprintf("%s:%d: %s:%s", promisesFile, p.line, p.seed, p.lines)
		if len(p.tests) == 0 {
			t.Errorf("%s: no test shows that %s", at, p.text)
		}
		for _, name := range p.tests {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", at, name)
			}
		}
		for _, name := range p.ttnn {
			if !programs[name] {
				t.Errorf("%s: there is no program %s", at, name)
			}
		}
	}
	const file = "../../docs/seeds.md"
	want := promisesPage(promises)
	if *update {
		devtest.Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	devtest.Must(t, err)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s isn't what %s says, `go test ./internal/archcheck -update` writes it (-want +got):\n%s", file, promisesFile, diff)
	}
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)[A-Za-z0-9_]*)\(`)

func testsOfTree(t *testing.T) map[string]bool {
	t.Helper()
	const root = "../.."
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), root+"/")
		if dir == root {
			dir = "reprise"
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(b), -1) {
			out[dir+"."+m[1]] = true
		}
		return nil
	})
	devtest.Must(t, err)
	return out
}

func programsOfTTNN(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("../ttnn/testdata/programs/golden.json")
	devtest.Must(t, err)
	var golden struct {
		Wheels map[string]map[string]map[string]json.RawMessage
	}
	devtest.Must(t, json.Unmarshal(b, &golden))
	out := map[string]bool{}
	for _, chips := range golden.Wheels {
		for _, programs := range chips {
			for name := range programs {
				out[name] = true
			}
		}
	}
	return out
}

var seedTitles = map[string]string{
	"000": "tt-enable-tracing",
	"001": "Advanced Performance Optimizations for Models",
	"002": "Metal Trace Optimization",
	"003": "TT-NN Graph Tracing",
	"004": "Trace Buffers in TT-Metal",
}

func promisesPage(promises []promise) string {
	var b strings.Builder
	b.WriteString(`# What the documents of TT-NN and tt-metal promise

    go test ./internal/archcheck -run TestPromises          # each row has tests that exist
    go run ./cmd/reprise hwtest --run '^traces/'            # cases of the conformance suite, written LAYER/NAME here

Reprise replaces the behaviour that five public documents describe. Each row is a promise of one of them, by its lines; the
tests that show it here; and the program that shows the same with TT-NN on the emulated chip (internal/ttnn/testdata/programs).
Generated from internal/archcheck/testdata/promises.txt.

`)
	seeds := slices.Sorted(maps.Keys(seedTitles))
	for i, s := range seeds {
		anchor := strings.ReplaceAll(strings.ToLower(s+" "+seedTitles[s]), " ", "-")
		fmt.Fprintf(&b, "%s[%s](#%s)", map[bool]string{true: "- ", false: " · "}[i == 0], seedTitles[s], anchor)
	}
	b.WriteString("\n")
	for _, s := range seeds {
		fmt.Fprintf(&b, "\n## %s %s\n\n| lines | promise | tests | TT-NN | instead |\n|---|---|---|---|---|\n", s, seedTitles[s])
		for _, p := range promises {
			if p.seed == s {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.lines, p.text, code(p.tests), code(p.ttnn), p.instead)
			}
		}
	}
	return b.String()
}

func code(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + strings.TrimPrefix(n, "hwtest ") + "`"
	}
	return strings.Join(quoted, ", ")
}
