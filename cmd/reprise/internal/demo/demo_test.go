package demo

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
)

// The checker names the first difference and counts all. A zero of the other sign is a difference.
func TestCheckerFindsCorruptedScores(t *testing.T) {
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bfloat16", "integer"} {
		net, err := trained(name)
		if err != nil {
			t.Fatal(err)
		}
		expected := net.forward(chip.Blackhole, images[:20])
		got := slices.Clone(expected)
		c := mismatchError{network: net.name()}
		c.compare(0, "replayed", got, expected)
		if err := c.err(); err != nil {
			t.Errorf("scores of the network itself: %v", err)
		}
		expected[11][0] = 0
		got[7][3]++
		got[11][0] = math.Copysign(0, -1)
		c.compare(4, "replayed", got, expected)
		want := &mismatchError{net.name(), 2, 4, 7, "replayed", got[7], expected[7]}
		if diff := cmp.Diff(error(want), c.err(), cmp.AllowUnexported(mismatchError{})); diff != "" {
			t.Fatalf("mismatch (-want +got):\n%s", diff)
		}
		for _, part := range []string{"2 results differ", "image 7 of batch 4, replayed", fmt.Sprint(got[7]), fmt.Sprint(expected[7]),
			net.name()} {
			if !strings.Contains(want.Error(), part) {
				t.Errorf("%q doesn't say %q", want, part)
			}
		}
	}
}

// Progress is drawn on terminals only, because in files and pipes it is noise.
func TestProgress(t *testing.T) {
	work := func(p *progress) {
		p.begin("eager", 2)
		p.step()
		p.step()
		p.end()
	}
	var b bytes.Buffer
	work(newProgress(&b, false))
	if b.Len() != 0 {
		t.Errorf("without a terminal: %q", &b)
	}
	if cli.IsTerminal(&b) {
		t.Error("a buffer is taken for a terminal")
	}
	work(newProgress(&b, true))
	empty, half, full := strings.Repeat("░", 40), strings.Repeat("█", 20)+strings.Repeat("░", 20), strings.Repeat("█", 40)
	want := "\reager   " + empty + " 0/2 batches" +
		"\reager   " + half + " 1/2 batches" +
		"\reager   " + full + " 2/2 batches" +
		"\r" + strings.Repeat(" ", len("eager   ")+40+len(" 2/2 batches")) + "\r"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("on a terminal (-want +got):\n%s", diff)
	}
	b.Reset()
	newProgress(&b, true).end()
	if b.Len() != 0 {
		t.Errorf("a bar that was never drawn is removed: %q", &b)
	}
}

// The picture shows the network's first mistake.
func TestSamples(t *testing.T) {
	var r Result
	right, wrong := digits.Image{Label: 3}, digits.Image{Label: 5}
	for range 10 {
		r.sample(right, 3)
	}
	r.sample(wrong, 9)
	r.sample(digits.Image{Label: 6}, 7)
	if len(r.samples) != maxSamples || r.samples[maxSamples-1].image.Label != 5 {
		t.Errorf("samples %+v, want %d with the first mistake last", r.samples, maxSamples)
	}
	var b bytes.Buffer
	r.Arch, r.bankSize = "blackhole", 1<<30
	if err := cli.Print(&b, r.print); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "  says 3            says 3            says 3            says 9, is 5    \n") {
		t.Errorf("verdicts are missing:\n%s", &b)
	}
}
