package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
)

// The share of held-back words is that of all words.
func TestKnownWords(t *testing.T) {
	all, err := words.All()
	if err != nil {
		t.Fatal(err)
	}
	training, heldBack := words.Split(all)
	const line = "known     1 of them are in the list the network learned from, 1 (25.0 %) in the part that was held back\n"
	r, none := &Generated{Words: []string{training[len(training)/2], "qzxqzx", heldBack[len(heldBack)-1], "zzzz"}}, &Generated{}
	var out strings.Builder
	if err := errors.Join(r.count(), none.count(), cli.Print(&out, r.print)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), line) || none.HeldBackShare != 0 {
		t.Errorf("a share of %v without words, and:\n%s", none.HeldBackShare, out.String())
	}
}

// largest is an engine that notes the largest exchange.
type largest struct {
	hosts.Engine
	bytes int
}

func (l *largest) Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	l.bytes = max(l.bytes, len(mine))
	return l.Engine.Exchange(ctx, op, mine)
}

// What is larger than an exchange arrives in pieces that fit.
func TestCollect(t *testing.T) {
	for _, sizes := range [][]int{{0, 0, 0}, {0, 5, 1}, {pieceSize, 0, pieceSize}, {3*pieceSize + 1, pieceSize + 1, 0}} {
		engines, err := hosts.InProcess(len(sizes))
		if err != nil {
			t.Fatal(err)
		}
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
			if err != nil {
				t.Errorf("%v, process %d: %v", sizes, i, err)
			}
		}
	}
}

// Another program's sizes are refused before memory is taken for them.
func TestCollectRefusesSizes(t *testing.T) {
	for _, wrong := range [][]byte{nil, {1}, {0, 0, 0, 0, 0, 0, 0, 0x80}, {1, 0, 0, 2, 0, 0, 0, 0}} {
		engines, err := hosts.InProcess(2)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range hoststest.Each(engines, func(e *hosts.Local) error {
			if e.Rank() == 1 {
				_, err := e.Exchange(t.Context(), "collect", wrong)
				return err
			}
			if _, err := (&job{Engine: e}).collect(t.Context(), "collect", nil); err == nil {
				return errors.New("no error")
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("sizes %v: %v", wrong, err)
			}
		}
	}
}

func TestPrintTogether(t *testing.T) {
	all := []Generated{
		{Device: "emu:blackhole", Seed: 7, Words: []string{"one", "two"}, generation: generation{Tokens: 8, PerSecond: 1.5}},
		{Device: "emu:wormhole", Seed: 8, Words: []string{"three"}, generation: generation{Tokens: 6, PerSecond: 2}, Mismatches: 1},
	}
	var b bytes.Buffer
	if err := cli.Print(&b, func(w cli.Text) { printTogether(w, all) }); err != nil {
		t.Fatal(err)
	}
	want := "process 0, emu:blackhole, seed 7:\none two\nprocess 1, emu:wormhole, seed 8:\nthree\n\n" +
		"2 processes: 14 tokens, 3.5 a second; 1 mismatch against the arithmetic of the engines on the host\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// Only an address of this machine is listened at.
func TestOwnAddress(t *testing.T) {
	for _, tc := range []struct{ network, want, fails string }{
		{network: "127.0.0.0/8", want: "127.0.0.1"},
		{network: "127.0.0.1/32", want: "127.0.0.1"},
		{network: "203.0.113.0/24", fails: "no address in it, only"}, // for documentation: no host's
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
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(got, 0).String())
	if err != nil || got.IsUnspecified() {
		t.Fatalf("%v is not this machine's: %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
