package archcheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longPage is how many lines a page may have before it needs a table of contents: two screens.
const longPage = 110

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^(#{1,4}) (.+)$`)
	pageCode    = regexp.MustCompile("(?ms)^```.*?^```$")
	notOfAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// page is the text of a Markdown file without code blocks.
func page(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return pageCode.ReplaceAllString(string(b), "")
}

// anchors are the names by which GitHub lets others link to the headings of a page, and those of its sections alone.
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

// Links between pages lead somewhere, and long pages begin with a table of contents.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
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
