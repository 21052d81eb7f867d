package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
)

// maxSamples is how many digits are drawn side by side.
const maxSamples = 4

// sample keeps a few images to draw: the first ones, and one that the network gets wrong if there
// is any.
func (r *Result) sample(m digits.Image, said uint8) {
	s := sample{m, said}
	switch {
	case len(r.samples) < maxSamples:
		r.samples = append(r.samples, s)
	case said != m.Label && r.samples[maxSamples-1].said == r.samples[maxSamples-1].image.Label:
		r.samples[maxSamples-1] = s
	}
}

// print writes the result for people.
func (r *Result) print(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d programs on %d cores, %d handwritten digits in batches of %d\n\n", r.Device, r.Programs, r.Cores,
		r.Images, r.Batch)
	r.printSamples(&b)
	which := "images the network never saw"
	if r.input != "" {
		which = "images of " + r.input
	}
	fmt.Fprintf(&b, "accuracy  %.2f %% of the %d %s\n", 100*r.Accuracy, r.Measured, which)
	fmt.Fprintf(&b, "checked   %d replays and as many eager runs, bit for bit against the %s: %s\n\n", r.Replays, r.network,
		mismatches(r.Mismatches))
	fmt.Fprintf(&b, "          %14s %14s\n", "eager", "replay")
	fmt.Fprintf(&b, "host time %14s %14s   to submit a batch, median\n", cli.Nanoseconds(r.EagerNs), cli.Nanoseconds(r.ReplayNs))
	fmt.Fprintf(&b, "commands  %14s %14s   sent per batch\n", humanize.Comma(int64(r.EagerBytes))+" B",
		humanize.Comma(int64(r.ReplayBytes))+" B")
	fmt.Fprintf(&b, "built     %14d %14d   programs' commands per batch\n", r.Programs, 0)
	fmt.Fprintf(&b, "allocated %14s %14d   times per batch\n\n", "", r.Allocs)
	r.printBanks(&b)
	fmt.Fprintf(&b, "\nreleased: the trace memory holds %d B\n", r.TraceAfter)
	if r.TraceFile != "" {
		fmt.Fprintf(&b, "saved: reprise trace run %s\n", r.TraceFile)
	}
	if r.TimelineFile != "" {
		fmt.Fprintf(&b, "timeline: open %s in ui.perfetto.dev\n", r.TimelineFile)
	}
	if r.GraphFile != "" {
		fmt.Fprintf(&b, "graph: reprise graph show %s\n", r.GraphFile)
	}
	fmt.Fprintf(&b, "took %.1f s, %.2f s of it to open the device\n", r.Seconds, r.OpenSeconds)
	_, err := w.Write(b.Bytes())
	return err
}

// printSamples draws digits beside each other, and below each what the chip said.
func (r *Result) printSamples(b *bytes.Buffer) {
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
		fmt.Fprintln(b, l)
	}
	for _, s := range r.samples {
		verdict := fmt.Sprintf("says %d", s.said)
		if s.said != s.image.Label {
			verdict += fmt.Sprintf(", is %d", s.image.Label)
		}
		fmt.Fprintf(b, "  %-16s", verdict)
	}
	fmt.Fprint(b, "\n\n")
}

// printBanks draws where in the DRAM banks the trace lies.
func (r *Result) printBanks(b *bytes.Buffer) {
	fmt.Fprintf(b, "trace: %s at the top of %d DRAM banks of %s\n", humanize.Comma(int64(r.TraceBytes))+" B", len(r.TraceBanks),
		humanize.IBytes(r.bankSize))
	for _, e := range r.TraceBanks {
		fmt.Fprintf(b, "  bank %2d  0 ├%s┤█ %#x..%#x  %s\n", e.Bank, strings.Repeat("─", 24), e.Start, e.End,
			humanize.Comma(int64(e.End-e.Start))+" B")
	}
}
