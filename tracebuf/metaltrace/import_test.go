package metaltrace_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

func cards() []*sim.Card { return []*sim.Card{sim.Wormhole(), sim.Blackhole()} }

type cardMemory struct {
	dev *kmd.Device
	ch  *chip.Chip
}

func (m cardMemory) ReadDRAM(bank int, addr uint64, b []byte) error {
	k := &m.ch.DRAMBanks()[bank]
	return m.dev.Read(k.HostEndpoint, k.Offset+addr, b)
}

func openMemory(t *testing.T, target kmd.Target) cardMemory {
	t.Helper()
	dev, err := kmd.Open(t.Context(), target, kmd.WithoutPower(), kmd.WithoutWaiting())
	devtest.Must(t, err)
	t.Cleanup(func() { devtest.Must(t, dev.Close()) })
	h, err := dev.Harvesting(t.Context())
	devtest.Must(t, err)
	ch, err := chip.New(dev.Arch(), h)
	devtest.Must(t, err)
	return cardMemory{dev, ch}
}

func imported(t *testing.T, m cardMemory, trace *reprise.Trace, saved *tracebuf.File,
	find func(*metaltrace.Trace) error) (*metaltrace.Trace, []byte) {
	t.Helper()
	im := &saved.Image
	b := make([]byte, len(im.Bytes))
	devtest.Must(t, metaltrace.ReadInterleaved(m, len(m.ch.DRAMBanks()), trace.Parts()[0].Extents[0].Start, im.PageSize, 0, b))
	read, err := metaltrace.Read(m, len(m.ch.DRAMBanks()), im.Layout, b, cq.Pinned)
	devtest.Must(t, err)
	devtest.Must(t, find(read))
	f, err := read.File(metaltrace.FileOptions{Name: "imported", Target: saved.Target, Buffers: im.Buffers})
	devtest.Must(t, err)
	file, err := metaltrace.Write(f)
	devtest.Must(t, err)
	return read, file
}

func save(b *devtest.Bench, trace *reprise.Trace) *tracebuf.File {
	var file bytes.Buffer
	b.Must(trace.Save(b.Ctx, &file))
	f, err := tracebuf.Decode(&file)
	b.Must(err)
	return f
}

// chain is a trace that adds 12 in two programs.
type chain struct {
	*devtest.Bench
	memory       cardMemory
	in, mid, out *reprise.Buffer
	one, two     *reprise.Executable
	trace        *reprise.Trace
	saved        *tracebuf.File
}

// newChain's programs are on the last of the sub-devices, if there are any.
func newChain(t *testing.T, card *sim.Card, sets ...[]chip.Range) *chain {
	b := devtest.Open(t, card, reprise.WithStockWireFormat())
	c := &chain{Bench: b, memory: openMemory(t, card), in: b.Pages("in", 4), mid: b.Pages("mid", 4), out: b.Pages("out", 4)}
	c.one = b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, c.in, c.mid, 5))
	c.two = b.Load(b.Adder("two", chip.Core{X: 3, Y: 1}, c.mid, c.out, 7))
	runs := []*reprise.Executable{c.one, c.two}
	if sets != nil {
		s, err := b.Dev.NewSubDevices(0, sets...)
		b.Must(err)
		b.Must(s.Load(b.Ctx))
		runs = append(runs, b.Load(b.Adder("aside", chip.Core{}, c.in, c.in, 0)))
	}
	var err error
	c.trace, err = b.Queue.Capture(b.Ctx, "chain", func(_ context.Context, r *reprise.Recorder) error {
		var errs []error
		for range 5 { // more runs than there are launch messages
			for _, x := range runs {
				errs = append(errs, r.Run(x))
			}
		}
		return errors.Join(errs...)
	})
	b.Must(err)
	b.Must(b.Queue.Wait(b.Ctx)) // the commands are in DRAM
	c.saved = save(b, c.trace)
	return c
}

func (c *chain) replays(t *testing.T, file []byte) {
	c.Must(errors.Join(c.trace.Release(c.Ctx), c.one.Release(c.Ctx), c.two.Release(c.Ctx)))
	loaded, err := c.Dev.LoadTrace(c.Ctx, bytes.NewReader(file), reprise.WithBuffers(c.in, c.mid, c.out))
	c.Must(err)
	for i := range uint32(3) {
		c.Must(c.Queue.Write(c.Ctx, c.in, 0, devtest.Words(c.in.Size(), 100*i)))
		c.Must(loaded.Replay(c.Ctx))
		got := make([]byte, c.out.Size())
		c.Must(c.Queue.Read(c.Ctx, c.out, 0, got))
		if want := devtest.Words(c.out.Size(), 100*i+12); !bytes.Equal(got, want) {
			t.Errorf("replay %d: % x..., want % x...", i, got[:8], want[:8])
		}
	}
	c.Must(loaded.Release(c.Ctx))
}

func TestImportComputesTheSame(t *testing.T) {
	for _, card := range cards() {
		t.Run(card.String(), func(t *testing.T) {
			for _, sets := range [][][]chip.Range{nil, {{chip.Single(0, 0)}, {{Start: chip.Core{Y: 1}, End: chip.Core{X: 3, Y: 2}}}}} {
				c := newChain(t, card, sets...)
				own := abi.Own(c.Dev.Arch())
				read, file := imported(t, c.memory, c.trace, c.saved, func(t *metaltrace.Trace) error { return t.FindLaunches(own) })
				if want := 10 + 5*min(len(sets), 1); len(read.Steps) != want || read.Steps[0].SubDevice != len(sets)/2 {
					t.Fatalf("%d steps, the first on sub-device %d", len(read.Steps), read.Steps[0].SubDevice)
				}
				c.replays(t, file)
				c.Must(c.Dev.Close(c.Ctx))
			}
		})
	}
}

func TestImportedParametersAreSet(t *testing.T) {
	for _, card := range cards() {
		t.Run(card.String(), func(t *testing.T) {
			b := devtest.Open(t, card, reprise.WithStockWireFormat())
			m := openMemory(t, card)
			b.Pages("low", 1024) // so that no other argument looks like an address
			in, out := b.Pages("in", 4), b.Pages("out", 4)
			x := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, in, out, 5))
			trace, err := b.Queue.Capture(b.Ctx, "sum",
				func(_ context.Context, r *reprise.Recorder) error { return errors.Join(r.Run(x), r.Run(x)) })
			b.Must(err)
			b.Must(b.Queue.Wait(b.Ctx))
			saved := save(b, trace)
			im := &saved.Image
			commands := make([]byte, len(im.Bytes))
			b.Must(metaltrace.ReadInterleaved(m, len(m.ch.DRAMBanks()), trace.Parts()[0].Extents[0].Start, im.PageSize, 0, commands))
			read, err := metaltrace.Read(m, len(m.ch.DRAMBanks()), im.Layout, commands, cq.Pinned)
			b.Must(err)
			b.Must(read.FindLaunches(abi.Own(b.Dev.Arch())))
			var args []metaltrace.Argument
			for step := range read.Steps {
				for _, k := range read.Steps[step].Launches[0].Kernels {
					if k.Processor == chip.TRISC0 && (len(k.Args) < 4 || k.Args[3] != 5) {
						t.Errorf("program %d: %v has arguments %v, want 5 as the fourth", step, k.Processor, k.Args)
					}
				}
				args = append(args, metaltrace.Argument{Name: "addend", Step: step, Processor: chip.TRISC0, Index: 3},
					metaltrace.Argument{Name: "from", Step: step, Processor: chip.BRISC, Index: 0, Buffer: "in"},
					metaltrace.Argument{Name: "to", Step: step, Processor: chip.NCRISC, Index: 0, Buffer: "out"})
			}
			f, err := read.File(metaltrace.FileOptions{Name: "imported", Target: saved.Target, Buffers: im.Buffers, Arguments: args})
			b.Must(err)
			file, err := metaltrace.Write(f)
			b.Must(err)
			b.Must(trace.Release(b.Ctx))
			b.Must(x.Release(b.Ctx))
			loaded, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file))
			b.Must(err)
			buffers := map[string]*reprise.Buffer{}
			for _, buf := range loaded.Buffers() {
				buffers[buf.Name()] = buf
			}
			if buffers["in"].Addr() == in.Addr() || buffers["out"].Addr() == out.Addr() {
				t.Errorf("buffers at %#x and %#x, where others are", in.Addr(), out.Addr())
			}
			replay := func(addend uint32, to *reprise.Buffer) {
				t.Helper()
				b.Must(b.Queue.Write(b.Ctx, buffers["in"], 0, devtest.Words(in.Size(), 100)))
				b.Must(loaded.Replay(b.Ctx))
				got := make([]byte, to.Size())
				b.Must(b.Queue.Read(b.Ctx, to, 0, got))
				if want := devtest.Words(to.Size(), 100+addend); !bytes.Equal(got, want) {
					t.Errorf("with %d: % x..., want % x...", addend, got[:8], want[:8])
				}
			}
			replay(5, buffers["out"])
			b.Must(loaded.Set("addend", 77))
			replay(77, buffers["out"])
			b.Must(loaded.SetBuffer("to", out))
			replay(77, out)
			b.Must(loaded.Release(b.Ctx))
		})
	}
}
