package tables

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/expect"
)

func TestTables(t *testing.T) {
	for width, want := range map[int]string{0: `name       time  about
──────────────────────────────────
first   41.2 ns  one line; another
second  1.50 µs  -
`,
		24: `name       time
  about
───────────────
first   41.2 ns
  one line
  another
second  1.50 µs
`,
	} {
		var out strings.Builder
		table := New(&out, width)
		table.Head("name", "time", "about")
		table.Row("first", Duration(41.2), "one line\nanother")
		table.Row("second", Duration(1500.0), "-")
		table.Flush()
		expect.NoDiff(t, out.String(), want, "%d columns", width)
	}
}

// Nothing is lost, and no line is too long.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 100).Draw(t, "width")
		var out strings.Builder
		table, texts := New(&out, width), ""
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			row := rapid.SliceOfN(rapid.StringMatching(`[a-zé/]{1,9}( [0-9a-z/]{1,40}){0,5}`), 1, 8).Draw(t, "row")
			cells := make([]any, len(row))
			for i, c := range row {
				cells[i] = c
				texts += c
			}
			table.Row(cells...)
		}
		table.Flush()
		for line := range strings.SplitSeq(out.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > max(width, narrowest) {
				t.Errorf("%d of %d characters: %q", n, width, line)
			}
		}
		sorted := func(s string) string {
			r := []rune(strings.Join(strings.Fields(s), ""))
			slices.Sort(r)
			return string(r)
		}
		expect.Equal(t, sorted(out.String()), sorted(texts), "%q is printed as\n%s", texts, out.String())
	})
}

func TestDuration(t *testing.T) {
	for ns, want := range map[float64]string{0: "0 ns", 0.254: "0.254 ns", 41.2: "41.2 ns", 999.4: "999 ns", 999.6: "1.00 µs",
		198e9: "198 s"} {
		expect.Equal(t, Duration(ns), want, "%v ns", ns)
	}
}
