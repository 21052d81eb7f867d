package digits

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestRenderDrawsADigit(t *testing.T) {
	images, err := Images()
	if err != nil {
		t.Fatal(err)
	}
	const one = "" +
		"      ▓▓▓▓░░    \n" +
		"      ▓▓██▒▒    \n" +
		"    ░░████▒▒    \n" +
		"  ▒▒██████░░    \n" +
		"      ████░░    \n" +
		"      ████▒▒    \n" +
		"      ████▒▒    \n" +
		"      ▓▓██▓▓    \n"
	if diff := cmp.Diff(one, Render(images[1])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRenderLinesHaveOneWidth(t *testing.T) {
	wild := Image{}
	for i := range wild.Pixels {
		wild.Pixels[i] = uint8(4 * i) // beyond full ink too
	}
	for name, s := range map[string]string{"blocks": Render(wild), "ascii": RenderASCII(wild)} {
		lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		if len(lines) != Height {
			t.Errorf("%s: %d lines", name, len(lines))
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n != 2*Width {
				t.Errorf("%s: line %q has %d characters", name, l, n)
			}
		}
	}
	if s := RenderASCII(wild); len(s) != utf8.RuneCountInString(s) {
		t.Errorf("not ASCII: %q", s)
	}
}
