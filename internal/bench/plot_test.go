package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// What others have is drawn once, also if several figures name it.
func TestPlot(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	s := measure.NewSeries()
	for range 2000 {
		s.Add(30 + rnd.ExpFloat64()*10)
	}
	s.End()
	figure := func(programs int) *report.Figure {
		f := &report.Figure{
			Family: "replay", Name: "submit", Params: report.Params("programs", programs), Peers: replayPeers(),
			Ratios: []report.Ratio{{To: report.MemcpySame, Ns: 10, Value: 3.1}, {To: report.NonTemporal, Ns: 4, Value: 8}},
		}
		s.Fill(f)
		return f
	}
	same := measure.NewSeries() // a distribution of one value
	same.Add(5)
	same.End()
	g := &report.Figure{Family: "baseline", Name: "timer"}
	same.Fill(g)
	var out strings.Builder
	must(t, (&report.Report{Device: "<emu>", Baselines: []*report.Figure{g},
		Figures: []*report.Figure{figure(1), figure(10), figure(1000)}}).Plot(&out))
	page := out.String()
	var captions []string
	for _, m := range regexp.MustCompile(`<figcaption>(Times )?([^:,]*)`).FindAllStringSubmatch(page, -1) {
		captions = append(captions, m[2])
	}
	want := []string{report.MemcpySame, report.NonTemporal, "baseline/timer", "replay/submit/programs=1", "replay/submit/programs=10",
		"replay/submit/programs=1000"}
	if d := cmp.Diff(want, captions); d != "" {
		t.Errorf("pictures (-want +got):\n%s", d)
	}
	pictures := regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(page, -1)
	if len(pictures) != len(want) {
		t.Fatalf("%d pictures", len(pictures))
	}
	text := regexp.MustCompile(`(?s)<text x="([-0-9.]+)"[^>]*font-size:([0-9.]+)px">([^<]*)</text>`)
	for i, svg := range pictures {
		if n := elements(t, svg); n < 10 {
			t.Errorf("%s has %d elements", want[i], n)
		}
		box := regexp.MustCompile(`viewBox="0 0 ([0-9.]+) `).FindStringSubmatch(svg)
		labels := text.FindAllStringSubmatch(svg, -1)
		if len(labels) < 3 || box == nil {
			t.Errorf("%s has %d labels", want[i], len(labels))
		}
		for _, m := range labels {
			x, size := number(t, m[1]), number(t, m[2])
			if wide := size / 2 * float64(len(m[3])); x < 0 || x+wide > number(t, box[1]) && !strings.Contains(m[0], "rotate") {
				t.Errorf("%s: %q begins at %v of %s", want[i], m[3], x, box[1])
			}
		}
	}
	for who, n := range map[string]int{"commands alone: 42.3<": 1, "programs=1: 8<": 1, "programs=1000: 8<": 1, "programs=10: 3.1<": 1} {
		if got := strings.Count(page, who); got != n {
			t.Errorf("%q is drawn %d times, want %d", who, got, n)
		}
	}
	if regexp.MustCompile(`(?i)(src|href)="|@import|<emu>`).MatchString(page) {
		t.Error("the page needs something from elsewhere, or a name of the report is markup")
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	must(t, err)
	return v
}

func elements(t *testing.T, svg string) int {
	t.Helper()
	n := 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		must(t, err)
		if _, ok := tok.(xml.StartElement); ok {
			n++
		}
	}
}
