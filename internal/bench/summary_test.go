package bench

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/writertest"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

func summarized() *report.Report {
	quoted := &report.Source{From: "its documentation", Date: "1 May 2026"}
	return &report.Report{
		Device: "emu:blackhole", Host: report.Host{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26"}, Rounds: 20, Warmup: 3,
		Summary: []*report.SummaryRow{
			{What: "submit", Now: new(report.InNs("", 66)), More: []report.Quantity{report.InNs("p99", 1300), report.InNs("max", 423e3)},
				Ratio: &report.Ratio{To: report.MemcpySame, Value: 2.4},
				Others: []report.Other{{Quantity: report.InNs("a peer", 1870), Source: quoted},
					{Quantity: report.InNs("a copy", 33), Limit: true}},
				Goals: []report.Quantity{report.InNs("", 40)}, Note: "how"},
			{What: "instructions", Now: new(report.InInstructions("", 1975.2)), More: []report.Quantity{report.InBytes("in the trace", 5120)},
				Others: []report.Other{{Quantity: report.InInstructions("a peer", 6128), Source: quoted}},
				Goals:  []report.Quantity{report.InInstructions("half of its", 3064)}},
			{What: "wait", Now: new(report.InNs("", 12e3)), More: []report.Quantity{report.InShare("processor", 0.085)},
				Goals: []report.Quantity{report.InNs("p50", 20e3), report.InShare("processor", 0.1)}},
			{What: "network", Now: new(report.InNs("", 2e9)), More: []report.Quantity{report.InNs(onProcessors, 1e9)},
				Others: []report.Other{{Quantity: report.InNs("a peer", 20e9)}, {Quantity: report.InNs(onProcessors, 15e9)}}},
			{What: "several processors", Now: new(report.InTimes("", 1.02)),
				Others: []report.Other{{Quantity: report.InTimes("processors", 2), Limit: true}}},
			{What: "chips", Missing: "no machine was named", Others: []report.Other{{Quantity: report.InNs("a peer", 2e9), Source: quoted}}},
		},
	}
}

func TestSummaryTable(t *testing.T) {
	const want = `emu:blackhole, linux/amd64, 2 processors, go1.26
20 rounds after 3 to warm up; reading the clock costs 0 ns, taken off

verdict:  faster than a peer: 28.3 × (one time; peer's figure quoted)
  fewer than a peer: 3.1 × (one count; peer's figure quoted)
  faster than a peer: 10 × (one time; peer's figure measured in this run)
  3 of 4 goals met

what  now  peer or limit  goal
─
submit  66.0 ns [1]; p99 1.30 µs; max 423 µs; 2.4 × memcpy_same_bytes  a peer 1.87 µs = 28.3 × now [2]; a copy 33.0 ns = 0.5 × now, measured  40.0 ns
instructions  1,975; in the trace 5,120 B  a peer 6,128 = 3.1 × now [2]  half of its 3,064
wait  12.0 µs; processor 8.5 %  -  p50 20.0 µs; processor 10 %
network  2.00 s; least processor time 1.00 s  a peer 20.0 s = 10 × now, measured; least processor time 15.0 s = 15 × now, measured  -
several processors  1.02 ×  processors 2 ×  -
chips  - [3]  a peer 2.00 s [2]  -
[1] how
[2] quoted: its documentation, 1 May 2026
[3] not measured: no machine was named
`
	tableOf(t, summarized(), want)
	writertest.EveryWrite(t, summarized().WriteTable)
}

func tableOf(t *testing.T, r *report.Report, want string) {
	t.Helper()
	var out strings.Builder
	must(t, r.WriteTable(&out))
	got := regexp.MustCompile("(─)+|(  ) +").ReplaceAllString(out.String(), "$1$2")
	noDiff(t, strings.Split(got, "\n"), strings.Split(want, "\n"), "table")
}

func TestSummaryRows(t *testing.T) {
	other := sim.Blackhole()
	s := &session{
		ctx:    t.Context(),
		config: Config{Target: sim.Wormhole(), Programs: []int{1}, Against: &Against{Target: other, Name: "other"}},
		runner: measure.Runner{Clock: measure.Calibrate(time.Millisecond), Rounds: 2}, report: &report.Report{},
	}
	var ran []kmd.Target
	s.config.Demo = func(ctx context.Context, target kmd.Target) error {
		ran = append(ran, target)
		return s.open(target, func() error { return nil })
	}
	for _, part := range []func(*session) error{
		summarizeSubmit, summarizeDemo, summarizeInstructions, summarizeEmulator, summarizeProcessors, summarizeChips,
	} {
		must(t, part(s))
	}
	rows := map[string]*report.SummaryRow{}
	for _, r := range s.report.Summary {
		if rows[r.What] = r; (r.Now == nil) != (r.Missing != "") {
			t.Errorf("%s: now %v, missing %q", r.What, r.Now, r.Missing)
		}
	}
	submit := rows["submit a replay, host"]
	if f, ok := s.report.Figure(submit.Figure); !ok || submit.Now == nil || submit.Now.Value != f.P50 ||
		submit.Ratio.To != report.MemcpySame ||
		submit.Others[0].Source == nil {
		t.Errorf("a replay: %+v of %+v", submit, f)
	}
	if r := rows["bytes of a replay"]; r.Now == nil || r.Now.Value != 128 {
		t.Errorf("bytes of a replay on Wormhole: %v, want 128", r.Now)
	}
	network := rows["reprise demo's network, from open to close"]
	f, ok := s.report.Figure("summary/demo/device=other")
	if !ok || network.Others[0].Name != "other" || network.Others[0].Value != f.P50 || network.Others[0].Source != nil ||
		network.Goals[0].Value != f.P50/25 {
		t.Errorf("the network beside another device: %+v, its figure %+v", network, f)
	}
	if turns := slices.Compact(ran); !slices.Equal(turns, []kmd.Target{s.config.Target, other, s.config.Target, other}) {
		t.Errorf("the network ran on %v, want the target and the other device in turn, twice", turns)
	}
	if r := rows["open several chips"]; r == nil || r.Missing == "" {
		t.Errorf("chips without a machine: %+v", r)
	}
}

func TestSummaryAlone(t *testing.T) {
	for _, families := range [][]string{{"open", Summarized}, {"replays"}} {
		if _, err := Run(t.Context(), Config{Families: families}); !errors.Is(err, ErrFamily) {
			t.Errorf("%q: %v", families, err)
		}
	}
	all, err := pick(nil)
	must(t, err)
	for _, f := range all {
		if f.name == Summarized {
			t.Error("it is among those that are measured if none is named")
		}
	}
}

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
	noDiff(t, captions, want, "pictures")
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
	return value(strconv.ParseFloat(s, 64))(t)
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
