package archcheck

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
)

var update = flag.Bool("update", false, "write generated parts of pages anew")

const longPage = 110

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^(#{1,4}) (.+)$`)
	pageCode    = regexp.MustCompile("(?ms)^```.*?^```$")
	notOfAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

func page(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	devtest.Must(t, err)
	return pageCode.ReplaceAllString(string(b), "")
}

func anchors(text string) (all map[string]bool, sections []string) {
	all = map[string]bool{}
	for _, m := range pageHeading.FindAllStringSubmatch(text, -1) {
		anchor := strings.ReplaceAll(notOfAnchor.ReplaceAllString(strings.ToLower(m[2]), ""), " ", "-")
		all[anchor] = true
		if m[1] == "##" {
			sections = append(sections, anchor)
		}
	}
	return all, sections
}

func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	devtest.Must(t, err)
	for _, path := range append(pages, "../../README.md") {
		text := page(t, path)
		_, sections := anchors(text)
		links := map[string]bool{}
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			link := m[1]
			links[link] = true
			if strings.Contains(link, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(link, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which doesn't exist", path, link)
				continue
			}
			if anchor == "" {
				continue
			}
			if all, _ := anchors(page(t, target)); !all[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", path, link)
			}
		}
		if strings.Count(text, "\n") <= longPage || strings.HasSuffix(path, "README.md") {
			continue
		}
		for _, s := range sections {
			if !links["#"+s] {
				t.Errorf("%s is long, and its table of contents lacks #%s", path, s)
			}
		}
	}
}

func TestPackagesPage(t *testing.T) {
	const path, begin, end = "../../docs/architecture.md", "<!-- go test ./internal/archcheck -update -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(path)
	devtest.Must(t, err)
	before, rest, ok1 := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the packages, between %q and %q", path, begin, end)
	}
	docs := map[string]string{}
	for line := range strings.Lines(goList(t, []string{"GOOS=linux", "GOARCH=amd64"}, "-f", "{{.ImportPath}}\t{{.Doc}}", module+"/...")) {
		name, doc, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if _, said, ok := strings.Cut(doc, " "); ok { // Package NAME says ...
			_, doc, _ = strings.Cut(said, " ")
		}
		docs[strings.TrimPrefix(name, module+"/")] = strings.TrimSuffix(doc, ".")
	}
	var want strings.Builder
	want.WriteString("| package | documentation | may import of the module |\n|---|---|---|\n")
	for line := range strings.Lines(arrows) {
		arrow, about, _ := strings.Cut(strings.TrimSpace(line), "#")
		from, to, ok := strings.Cut(arrow, "->")
		if !ok {
			continue
		}
		name, doc := strings.TrimSpace(from), strings.TrimSpace(about)
		if name == "reprise" {
			doc = docs[module]
		} else if d := docs[name]; d != "" {
			doc = d
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", name, doc, strings.Join(strings.Fields(strings.ReplaceAll(to, "*", `\*`)), ", "))
	}
	if diff := cmp.Diff(want.String(), got); diff != "" && !*update {
		t.Errorf("%s isn't what the packages say, `go test ./internal/archcheck -update` writes it (-want +got):\n%s", path, diff)
	}
	if *update {
		devtest.Must(t, os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644))
	}
}
