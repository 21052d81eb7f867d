package pipeline_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onEmulators runs a test on a device of each emulator.
func onEmulators(t *testing.T, run func(*bench), opts ...reprise.Option) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) { run(open(t, card, opts...)) })
	}
}

// rounds is how often a test does the same with other data: less often in short, for the race detector.
func rounds(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

// bench is a device under test with what tests need of it.
type bench struct {
	*testing.T
	ctx context.Context
	dev *reprise.Device
}

// open opens a device that is closed when the test ends.
func open(t *testing.T, target reprise.Target, opts ...reprise.Option) *bench {
	t.Helper()
	b := &bench{T: t, ctx: t.Context()}
	var err error
	b.dev, err = reprise.Open(b.ctx, target, opts...)
	b.must(err)
	t.Cleanup(func() { b.must(b.dev.Close()) })
	return b
}

// with is the same device in a subtest.
func (b *bench) with(t *testing.T) *bench { return &bench{T: t, ctx: t.Context(), dev: b.dev} }

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// says fails the test unless the error's text is a line that has all parts in order.
func (b *bench) says(err error, parts ...string) {
	b.Helper()
	if err == nil {
		b.Errorf("no error, want one that says %q", parts)
		return
	}
	rest := err.Error()
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			b.Errorf("error %q doesn't say %q", err, p)
			return
		}
		rest = after
	}
	if strings.Contains(err.Error(), "\n") {
		b.Errorf("error has more than one line: %q", err)
	}
}

// pages is a DRAM buffer of n pages of 64 B.
func (b *bench) pages(name string, n int) *reprise.Buffer {
	b.Helper()
	buf, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: reprise.DRAM, Size: n * 64, PageSize: 64, Name: name})
	b.must(err)
	return buf
}

func (b *bench) load(p *reprise.Program) *reprise.Executable {
	b.Helper()
	x, err := b.dev.Load(b.ctx, p)
	b.must(err)
	return x
}

// mover is a program that copies all pages of a buffer of pages of 64 B to another, each in DRAM or L1.
func (b *bench) mover(name string, at reprise.Core, from, to *reprise.Buffer) *reprise.Program {
	b.Helper()
	image, err := kernels.Prebuilt(b.dev.Arch(), kernels.Move)
	b.must(err)
	return moveProgram(image, name, at, from, to)
}

func words(n int, first uint32) []byte {
	var p []byte
	for i := range uint32(n / 4) {
		p = binary.LittleEndian.AppendUint32(p, first+i)
	}
	return p
}

// allocated returns the bytes of each bank that are taken, by kind.
func (b *bench) allocated() map[reprise.Kind]uint64 {
	all := map[reprise.Kind]uint64{}
	for _, k := range []reprise.Kind{reprise.DRAM, reprise.L1, allocator.Trace} {
		all[k] = b.dev.Memory(k).Allocated
	}
	return all
}
