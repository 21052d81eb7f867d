package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/digits/convnet/reference"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
)

// A zero of the other sign is a difference.
func TestCheckerFindsCorruptedScores(t *testing.T) {
	images := expect.Value(digits.Images())(t)
	net, err := convnet.Trained()
	devtest.Must(t, err)
	expected := reference.Scores(chip.Blackhole, net, images[:20])
	got := slices.Clone(expected)
	var c mismatches
	c.scores(0, "replayed", got, expected)
	expect.Fails(t, c.err("result"), nil, "scores of the network itself")
	expected[11][0] = 0
	got[7][3]++
	got[11][0] = 0x8000 // -0
	c.scores(4, "replayed", got, expected)
	expect.Says(t, c.err("result"), nil, "2 results differ", "image 7 of batch 4, replayed", fmt.Sprint(got[7]), arithmetic,
		fmt.Sprint(expected[7]))
}

func TestProgress(t *testing.T) {
	empty, half, full := strings.Repeat("░", 40), strings.Repeat("█", 20)+strings.Repeat("░", 20), strings.Repeat("█", 40)
	for done, bar := range []string{empty, half, full} {
		if got, want := progress("eager", done, 2), fmt.Sprintf("eager   %s %d/2 batches", bar, done); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

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
	devtest.Must(t, cli.Print(&b, r.print))
	if !strings.Contains(b.String(), "  says 3            says 3            says 3            says 9, is 5    \n") {
		t.Errorf("verdicts are missing:\n%s", &b)
	}
}

func TestKnownWords(t *testing.T) {
	all := expect.Value(words.All())(t)
	training, heldBack := words.Split(all)
	const line = "known     1 of them are in the list the network learned from, 1 (25.0 %) in the part that was held back\n"
	r, none := &Generated{Words: []string{training[len(training)/2], "qzxqzx", heldBack[len(heldBack)-1], "zzzz"}}, &Generated{}
	var out strings.Builder
	devtest.Must(t, errors.Join(r.count(), none.count(), cli.Print(&out, r.print)))
	if !strings.Contains(out.String(), line) || none.HeldBackShare != 0 {
		t.Errorf("a share of %v without words, and:\n%s", none.HeldBackShare, out.String())
	}
}

type largest struct {
	hosts.Engine
	bytes int
}

func (l *largest) Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	l.bytes = max(l.bytes, len(mine))
	return l.Engine.Exchange(ctx, op, mine)
}

func TestCollect(t *testing.T) {
	for _, sizes := range [][]int{{0, 0, 0}, {0, 5, 1}, {pieceSize, 0, pieceSize}, {3*pieceSize + 1, pieceSize + 1, 0}} {
		engines, err := hosts.InProcess(len(sizes))
		devtest.Must(t, err)
		data := make([][]byte, len(sizes))
		for i, n := range sizes {
			data[i] = bytes.Repeat([]byte{byte('a' + i)}, n)
			if n > 1 {
				data[i][n-1] = 'z'
			}
		}
		for i, err := range hoststest.Each(engines, func(e *hosts.Local) error {
			l := &largest{Engine: e}
			all, err := (&job{Engine: l}).collect(t.Context(), "collect", data[e.Rank()])
			if err != nil {
				return err
			}
			for k := range data {
				if !bytes.Equal(all[k], data[k]) {
					return fmt.Errorf("%d B of process %d, want its %d", len(all[k]), k, len(data[k]))
				}
			}
			if l.bytes > pieceSize {
				return fmt.Errorf("an exchange of %d B", l.bytes)
			}
			return nil
		}) {
			expect.Fails(t, err, nil, "%v, process %d", sizes, i)
		}
	}
}

func TestCollectRefusesSizes(t *testing.T) {
	tooLong := slices.Repeat([][]byte{make([]byte, pieceSize)}, maxCollected/pieceSize+1)
	for _, wrong := range [][][]byte{{make([]byte, pieceSize+1)}, tooLong} {
		engines, err := hosts.InProcess(2)
		devtest.Must(t, err)
		for _, err := range hoststest.Each(engines, func(e *hosts.Local) (err error) {
			if e.Rank() == 1 {
				for _, piece := range wrong {
					_, failed := e.Exchange(t.Context(), "collect", piece)
					err = errors.Join(err, failed)
				}
				return err
			}
			if _, err := (&job{Engine: e}).collect(t.Context(), "collect", nil); err == nil {
				return errors.New("no error")
			}
			return nil
		}) {
			expect.Fails(t, err, nil, "%d pieces", len(wrong))
		}
	}
}

func TestPrintTogether(t *testing.T) {
	all := []Generated{
		{Device: "emu:blackhole", Seed: 7, Words: []string{"one", "two"}, generation: generation{Tokens: 8, PerSecond: 1.5}},
		{Device: "emu:wormhole", Seed: 8, Words: []string{"three"}, generation: generation{Tokens: 6, PerSecond: 2}, Mismatches: 1},
	}
	var b bytes.Buffer
	devtest.Must(t, cli.Print(&b, func(w cli.Text) { printTogether(w, all) }))
	want := "process 0, emu:blackhole, seed 7:\none two\nprocess 1, emu:wormhole, seed 8:\nthree\n\n" +
		"2 processes: 14 tokens, 3.5 a second; 1 mismatch against the arithmetic of the engines on the host\n"
	expect.NoDiff(t, b.String(), want, "b.String()")
}

func TestOwnAddress(t *testing.T) {
	for _, tc := range []struct{ network, want, fails string }{
		{network: "127.0.0.0/8", want: "127.0.0.1"},
		{network: "127.0.0.1/32", want: "127.0.0.1"},
		{network: "203.0.113.0/24", fails: "no address in it, only"}, // for documentation
		{network: "docker0", fails: "isn't a network"},
	} {
		got, err := ownAddress(tc.network)
		var flag *cli.FlagError
		switch {
		case tc.fails == "" && (err != nil || got.String() != tc.want):
			t.Errorf("%s: %v, want %s: %v", tc.network, got, tc.want, err)
		case tc.fails != "" && (!errors.As(err, &flag) || !strings.Contains(err.Error(), tc.fails)):
			t.Errorf("%s: %v, want that it has %q", tc.network, err, tc.fails)
		}
	}
	got, err := ownAddress("")
	devtest.Must(t, err)
	l := expect.Value(net.Listen("tcp", netip.AddrPortFrom(got, 0).String()))(t)
	devtest.Must(t, l.Close())
	if got.IsUnspecified() {
		t.Errorf("%v is not this machine's", got)
	}
}
