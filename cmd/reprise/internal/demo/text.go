package demo

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
)

// maxSamples is how many digits are drawn side by side.
const maxSamples = 4

// sample keeps the first images to draw, the last one replaced by the network's first mistake.
func (r *Result) sample(m digits.Image, said uint8) {
	s := sample{m, said}
	switch {
	case len(r.samples) < maxSamples:
		r.samples = append(r.samples, s)
	case said != m.Label && r.samples[maxSamples-1].said == r.samples[maxSamples-1].image.Label:
		r.samples[maxSamples-1] = s
	}
}

func (r *Result) print(w cli.Text) {
	w.F("%s: %d programs on %d cores, %d handwritten digits in batches of %d\n\n", r.Device, r.Programs, r.Cores, r.Images, r.Batch)
	r.printSamples(w)
	which := "images the network never saw"
	if r.input != "" {
		which = "images of " + r.input
	}
	w.F("accuracy  %.2f %% of the %d %s\n", 100*r.Accuracy, r.Measured, which)
	w.F("checked   %d replays and as many eager runs, bit for bit against the %s: %s\n\n", r.Replays, r.network, mismatches(r.Mismatches))
	w.F("          %14s %14s\n", "eager", "replay")
	w.F("host time %14s %14s   to submit a batch, median\n", cli.Nanoseconds(r.EagerNs), cli.Nanoseconds(r.ReplayNs))
	w.F("commands  %14s %14s   sent per batch\n", cli.Bytes(r.EagerBytes), cli.Bytes(r.ReplayBytes))
	w.F("built     %14d %14d   programs' commands per batch\n", r.Programs, 0)
	w.F("allocated %14s %14d   times per batch\n\n", "", r.Allocs)
	w.F("trace: %s at the top of %d DRAM banks of %s\n", cli.Bytes(r.TraceBytes), len(r.TraceBanks), humanize.IBytes(r.bankSize))
	for _, e := range r.TraceBanks {
		w.F("  bank %2d  0 ├%s┤█ %#x..%#x  %s\n", e.Bank, strings.Repeat("─", 24), e.Start, e.End, cli.Bytes(e.End-e.Start))
	}
	w.F("\nreleased: the trace memory holds %d B\n", r.TraceAfter)
	for _, f := range [][2]string{{"saved: reprise trace run %s\n", r.TraceFile}, {"timeline: open %s in ui.perfetto.dev\n", r.TimelineFile},
		{"graph: reprise graph show %s\n", r.GraphFile}} {
		if f[1] != "" {
			w.F(f[0], f[1])
		}
	}
	w.F("took %.1f s, %.2f s of it to open the device\n", r.Seconds, r.OpenSeconds)
}

// printSamples draws digits beside each other, and below each the chip's answer.
func (r *Result) printSamples(w cli.Text) {
	var lines []string
	for _, s := range r.samples {
		for i, l := range strings.Split(strings.TrimSuffix(digits.Render(s.image), "\n"), "\n") {
			if len(lines) <= i {
				lines = append(lines, "")
			}
			lines[i] += "  " + l
		}
	}
	for _, l := range lines {
		w.F("%s\n", l)
	}
	for _, s := range r.samples {
		verdict := fmt.Sprintf("says %d", s.said)
		if s.said != s.image.Label {
			verdict += fmt.Sprintf(", is %d", s.image.Label)
		}
		w.F("  %-16s", verdict)
	}
	w.F("\n\n")
}

// differing says how many things differ.
func differing(n int, noun string) string {
	verb := " differ"
	if n == 1 {
		verb = " differs"
	}
	return cli.Count(n, noun) + verb
}

// mismatches counts results that differ from the host's.
func mismatches(n int) string {
	if n == 1 {
		return "1 mismatch"
	}
	return fmt.Sprintf("%d mismatches", n)
}
