package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

// emulators are the cards that every test runs on.
var emulators = []func(...sim.Option) *sim.Card{sim.Wormhole, sim.Blackhole}

// onEmulators runs a test on a device of each emulator.
func onEmulators(t *testing.T, run func(*bench), opts ...reprise.Option) {
	for _, card := range emulators {
		target := card()
		t.Run(target.String(), func(t *testing.T) { run(open(t, target, opts...)) })
	}
}

// rounds is how often a test does the same with other data: less often in short, for the race detector.
func rounds(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

// onAll runs a test on the emulators, and on the vendor's simulator where a library is given.
func onAll(t *testing.T, run func(*bench), opts ...reprise.Option) {
	onEmulators(t, run, opts...)
	for _, v := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(v, func(t *testing.T) { run(open(t, ttsimtest.Card(t, v), opts...)) })
	}
}

var _ kmd.Target = (*ttsim.Card)(nil)

// bench is a device under test with what tests need of it.
type bench struct {
	*testing.T
	ctx   context.Context
	dev   *reprise.Device
	queue *reprise.Queue
}

// open opens a device that is closed when the test ends.
func open(t *testing.T, target kmd.Target, opts ...reprise.Option) *bench {
	t.Helper()
	b := &bench{T: t, ctx: t.Context()}
	var err error
	b.dev, err = reprise.Open(b.ctx, target, opts...)
	b.must(err)
	t.Cleanup(func() { b.must(b.dev.Close(context.Background())) })
	b.queue = b.dev.Queue(0)
	return b
}

// must ends the test on an error, with the state of the device's cores if it hangs.
func (b *bench) must(err error) {
	b.Helper()
	if err == nil {
		return
	}
	var h *dispatch.HangError
	if errors.As(err, &h) {
		b.Log(h.Detail())
	}
	b.Fatal(err)
}

// says fails the test unless the error's text has all parts in order.
func (b *bench) says(err error, parts ...string) {
	b.Helper()
	if err == nil {
		b.Errorf("no error, want one that says %q", parts)
		return
	}
	rest := err.Error()
	for _, p := range parts {
		_, after, ok := bytes.Cut([]byte(rest), []byte(p))
		if !ok {
			b.Errorf("error %q doesn't say %q", err, p)
			return
		}
		rest = string(after)
	}
	if bytes.ContainsRune([]byte(err.Error()), '\n') {
		b.Errorf("error has more than one line: %q", err)
	}
}

func (b *bench) buffer(c reprise.BufferConfig) *reprise.Buffer {
	b.Helper()
	buf, err := b.dev.NewBuffer(c)
	b.must(err)
	return buf
}

// pages is a DRAM buffer of n pages of 64 B.
func (b *bench) pages(name string, n int) *reprise.Buffer {
	b.Helper()
	return b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n * 64, PageSize: 64, Name: name})
}

func (b *bench) image(name string) *kernels.Image {
	b.Helper()
	im, err := kernels.Prebuilt(b.dev.Arch(), name)
	b.must(err)
	return im
}

func (b *bench) load(p *reprise.Program) *reprise.Executable {
	b.Helper()
	x, err := b.dev.Load(b.ctx, p)
	b.must(err)
	return x
}

func (b *bench) capture(name string, xs ...*reprise.Executable) *reprise.Trace {
	b.Helper()
	t, err := b.queue.Capture(b.ctx, name, record(xs...))
	b.must(err)
	return t
}

// captureQueues captures a trace over queues, and gives the Recorders in their order.
func captureQueues(ctx context.Context, name string, queues []*reprise.Queue, record func(rs []*reprise.Recorder) error) (*reprise.Trace, error) {
	return queues[0].Capture(ctx, name, func(_ context.Context, r *reprise.Recorder) error {
		var rs []*reprise.Recorder
		for _, q := range queues {
			rs = append(rs, r.On(q))
		}
		return record(rs)
	}, queues[1:]...)
}

// partOn is what a trace has on a queue.
func partOn(t *reprise.Trace, q *reprise.Queue) reprise.Part {
	for _, p := range t.Parts() {
		if p.Queue == q {
			return p
		}
	}
	return reprise.Part{}
}

func record(xs ...*reprise.Executable) func(context.Context, *reprise.Recorder) error {
	return func(_ context.Context, r *reprise.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// adder is a program that adds a number to every word of a buffer of pages of 64 B: three kernels on one core, joined
// by two circular buffers.
func (b *bench) adder(name string, at chip.Core, in, out *reprise.Buffer, addend uint32) *reprise.Program {
	b.Helper()
	const from, to = 0, 16
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	n := uint32(in.Size() / in.PageSize())
	args := func(a ...uint32) func(chip.Core) []uint32 { return func(chip.Core) []uint32 { return a } }
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{
			{Name: "reader", Image: b.image(kernels.CopyReader), Processor: chip.BRISC, Cores: cores, Args: args(in.Addr(), 0, n, 64, from)},
			{Name: "add", Image: b.image(kernels.Add), Processor: chip.TRISC0, Cores: cores, Args: args(from, to, n, addend)},
			{Name: "writer", Image: b.image(kernels.CopyWriter), Processor: chip.NCRISC, Cores: cores, Args: args(out.Addr(), 0, n, 64, to)},
		},
		CircularBuffers: []reprise.CircularBuffer{
			{Index: from, Cores: cores, PageSize: 64, Pages: 2},
			{Index: to, Cores: cores, PageSize: 64, Pages: 2},
		},
		Buffers: []*reprise.Buffer{in, out},
	}
}

// blank is a program that does nothing on some cores.
func (b *bench) blank(name string, cores ...chip.Range) *reprise.Program {
	b.Helper()
	return &reprise.Program{Name: name, Kernels: []reprise.Kernel{{
		Name: "nothing", Image: b.image(kernels.Blank), Processor: chip.BRISC, Cores: cores,
	}}}
}

// words writes a buffer full of words that count up from first.
func (b *bench) write(buf *reprise.Buffer, first uint32) {
	b.Helper()
	b.must(b.queue.Write(b.ctx, buf, 0, words(buf.Size(), first)))
}

func words(n int, first uint32) []byte {
	var p []byte
	for i := range uint32(n / 4) {
		p = binary.LittleEndian.AppendUint32(p, first+i)
	}
	return p
}

// holds checks that a buffer is full of words that count up from first.
func (b *bench) holds(buf *reprise.Buffer, first uint32) {
	b.Helper()
	got := make([]byte, buf.Size())
	b.must(b.queue.Read(b.ctx, buf, 0, got))
	if want := words(buf.Size(), first); !bytes.Equal(got, want) {
		for i := range got {
			if got[i] != want[i] {
				b.Errorf("buffer %q differs from byte %d on: word %#x, want %#x", buf.Name(), i, binary.LittleEndian.Uint32(got[i&^3:]), binary.LittleEndian.Uint32(want[i&^3:]))
				return
			}
		}
	}
}

// allocated returns the bytes of each bank that are taken, by kind.
func (b *bench) allocated() map[allocator.Kind]uint64 {
	all := map[allocator.Kind]uint64{}
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1, allocator.Trace} {
		all[k] = b.dev.Memory(k).Allocated
	}
	return all
}
