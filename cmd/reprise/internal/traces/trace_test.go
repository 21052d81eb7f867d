package traces

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// Another process has the device open. With another page size pages are in another order, which is
// refused.
func TestReadTraceFromLiveDevice(t *testing.T) {
	for _, card := range []*sim.Card{sim.Blackhole(), sim.Wormhole()} {
		t.Run(card.String(), func(t *testing.T) {
			b := devtest.Open(t, card)
			ctx, pages := b.Ctx, [...]*reprise.Buffer{b.Pages("in", 16), b.Pages("between", 16), b.Pages("out", 16)}
			one := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, pages[0], pages[1], 5))
			two := b.Load(b.Adder("two", chip.Core{X: 2, Y: 1}, pages[1], pages[2], 6))
			trace, err := b.Queue.Capture(ctx, "sum",
				func(_ context.Context, r *reprise.Recorder) error {
					return errors.Join(r.Run(one), r.Run(two), r.Run(one))
				})
			b.Must(err)
			b.Must(b.Queue.Wait(ctx)) // the trace is in DRAM
			found := 0
			for _, size := range []int{1024, 2048, 4096} {
				b, ch, err := readDRAM(ctx, card, trace.Parts()[0].Extents[0].Start, size, trace.Size()/size)
				if err != nil {
					continue // it would end beyond a bank
				}
				f := sourceFlags{Revision: cq.Pinned}
				parts, err := f.inspect(cq.Layout(ch.Arch()), b)
				if err != nil {
					continue
				}
				found++
				c := parts[0]
				if got, want := len(c.Steps), len(trace.Parts()[0].Steps); got != want {
					t.Errorf("%d programs, want %d", got, want)
				}
				for i, s := range trace.Parts()[0].Steps {
					if c.Steps[i].Offset != s.Offset || c.Steps[i].Size != s.Size {
						t.Errorf("program %d: %+v, recorded as %+v", i, c.Steps[i], s)
					}
				}
				var own, read strings.Builder
				var file bytes.Buffer
				devtest.Must(t, errors.Join(trace.Debug().Verify(t.Context()), trace.Save(t.Context(), &file)))
				saved := expect.Value(tracebuf.Decode(&file))(t)
				recorded := expect.Value(tracebuf.Inspect(&saved.Image))(t)
				c.Steps, recorded.Steps = nil, nil // their names are lines of their own
				devtest.Must(t, errors.Join(c.Print(&read), recorded.Print(&own)))
				expect.NoDiff(t, read.String(), own.String(), "commands in DRAM")
			}
			expect.Equal(t, found, 1, "sizes of pages give a trace")
		})
	}
}

func TestTraceImport(t *testing.T) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) {
			b := devtest.Open(t, card, reprise.WithStockWireFormat())
			in, out := b.Pages("in", 4), b.Pages("out", 4)
			x := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, in, out, 5))
			trace, err := b.Queue.Capture(b.Ctx, "sum",
				func(_ context.Context, r *reprise.Recorder) error { return errors.Join(r.Run(x), r.Run(x)) })
			b.Must(err)
			b.Must(b.Queue.Write(b.Ctx, in, 0, devtest.Words(in.Size(), 7)))
			b.Must(b.Queue.Wait(b.Ctx))
			var file bytes.Buffer
			b.Must(trace.Save(b.Ctx, &file))
			saved, err := tracebuf.Decode(&file)
			b.Must(err)
			memory, err := openMemory(b.Ctx, card)
			b.Must(err)
			defer func() { b.Must(memory.close()) }()
			ch, dir := memory.ch, t.TempDir()
			found, _, err := memory.scan(1 << 20)
			b.Must(err)
			if len(found) != 1 || found[0].Addr != trace.Parts()[0].Extents[0].Start || found[0].Programs != 2 ||
				found[0].Size != saved.Image.Size {
				t.Errorf("the scan finds %+v, want 2 programs of %d B at %#x", found, saved.Image.Size, trace.Parts()[0].Extents[0].Start)
			}
			copyBank := func(bank int, addr uint64, n int) {
				data := make([]byte, n)
				b.Must(memory.ReadDRAM(bank, addr, data))
				f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(bank)+".bin"), os.O_RDWR|os.O_CREATE, 0o600)
				b.Must(err)
				_, err = f.WriteAt(data, int64(addr))
				b.Must(errors.Join(err, f.Close()))
			}
			for bank := range ch.DRAMBanks() {
				for _, p := range saved.Image.Programs {
					copyBank(bank, p.Addr, len(p.Binary))
				}
				for _, buf := range []*reprise.Buffer{in, out} {
					copyBank(bank, uint64(buf.Addr()), buf.Size())
				}
			}
			raw := filepath.Join(dir, "trace.bin")
			b.Must(os.WriteFile(raw, saved.Image.Bytes, 0o600))
			c := traceImportCmd{
				Source: raw, PageSize: 4096, Revision: saved.Target.Revision, Memory: dir, Like: "emu:" + ch.Arch().String(), Trust: true,
				Name: "sum", Data: true, Output: filepath.Join(dir, "sum.trace"),
				Param: []string{"addend=trisc0:3", "src=brisc:0,program=0,buffer=in"},
				Buffer: []string{fmt.Sprintf("in:dram:%#x:%d:%d", in.Addr(), in.Size(), in.PageSize()),
					fmt.Sprintf("out:dram:%d:%d:%d", out.Addr(), out.Size(), out.PageSize())},
			}
			b.Must(c.Validate())
			var text strings.Builder
			b.Must(c.Run(b.Ctx, cli.Streams{Out: &text}))
			for _, want := range []string{"protocol revision 2026-03", "2 programs", "a kernel that isn't in the cache on BRISC",
				fmt.Sprintf("    BRISC: arguments %#x 0x0 0x4 0x40 0x0", in.Addr()), "written to "} {
				if !strings.Contains(text.String(), want) {
					t.Errorf("no %q in\n%s", want, text.String())
				}
			}
			flags := loadFlags{File: c.Output}
			loaded, on, end, err := flags.load(b.Ctx)
			b.Must(err)
			defer func() { b.Must(end()) }()
			b.Must(loaded.Replay(b.Ctx))
			check := func(want []byte) {
				t.Helper()
				for _, buf := range loaded.Buffers() {
					if buf.Name() != "out" {
						continue
					}
					got := make([]byte, buf.Size())
					b.Must(on[0].Queue(0).Read(b.Ctx, buf, 0, got))
					if !bytes.Equal(got, want) {
						t.Errorf("the replay gives % x..., want % x...", got[:8], want[:8])
					}
				}
			}
			check(devtest.Words(out.Size(), 12))
			b.Must(loaded.Set("addend", 9))
			b.Must(loaded.Replay(b.Ctx))
			check(devtest.Words(out.Size(), 16))
			sum := sha256.Sum256(devtest.Words(out.Size(), 16))
			for _, step := range []bool{false, true} {
				text.Reset()
				run := &traceRunCmd{loadFlags: flags, Replays: 1, Step: step, Set: map[string]uint32{"addend": 9}}
				b.Must(run.Run(b.Ctx, cli.Streams{Out: &text}))
				if want := hex.EncodeToString(sum[:8]); !strings.Contains(text.String(), want) {
					t.Errorf("trace run --set addend=9, step %v: no buffer with hash %s in\n%s", step, want, text.String())
				}
			}
			expect.Fails(t, (&traceRunCmd{loadFlags: flags, Replays: 1, Set: map[string]uint32{"scale": 9}}).Run(b.Ctx,
				cli.Streams{Out: &text}), tracebuf.ErrNoParam, "trace run --set of no parameter")
			imported, err := flags.read(b.Ctx)
			b.Must(err)
			expect.NoDiff(t, imported.Target, saved.Target, "target")
			c.DryRun = true
			b.Must(os.Remove(filepath.Join(dir, "0.bin")))
			expect.Says(t, c.Run(b.Ctx, cli.Streams{Out: &text}), os.ErrNotExist, "0.bin")
		})
	}
}

func TestTensorFlag(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"x=2x32:bfloat16:row_major@in0", "x; [2 32] BFLOAT16, input, 2 pages of 64 B, data 128 B, half 64"},
		{"in0=1x1x2x25:bfloat16:row_major", "in0; [1 1 2 25] BFLOAT16, input, 2 pages of 50 B, data 100 B, half 64"},
		{"x=2x13:uint32:row_major@0x20000", "x; [2 13] UINT32, input, 2 pages of 52 B, data 104 B, half 64"},
		{"y=64x32:Float32:tile@out0", "y; [64 32] FLOAT32 in tiles, 2 pages of 4,096 B, data 128 B, half 64"},
		{"x=2x16:bfloat16:row_major@in0", "the tensor is 2 pages of 32 B in DRAM, the buffer 2 pages of 64 B"},
		{"x=3x32:bfloat16:row_major@in0", "the tensor is 3 pages of 64 B in DRAM, the buffer 2 pages of 64 B"},
		{"x=2x33:bfloat16:row_major@in0", "the tensor is 2 pages of 66 B in DRAM, the buffer 2 pages of 64 B"},
		{"x=0x32:bfloat16:row_major@in0", "the tensor is 1 page of 64 B"},
		{"x=2x32:bfloat16:row_major@l", "the trace has no buffer l in interleaved DRAM"},
		{"out0=2x32:bfloat16:row_major@in0", "another buffer has this name"},
		{"x=2x32:bfloat16:row_major", "the trace has no buffer x in interleaved DRAM; give one of in0 (at 0x20000), out0"},
		{"x=2x32:bfloat16:row_major@0x1", "the trace has no buffer 0x1"},
		{"=2x32:bfloat16", "it isn't name=shape:type"},
		{"x=2x:bfloat16", "it isn't name=shape:type"},
		{"x=2x32", "it isn't name=shape:type"},
		{"x=2x32:bfloat16:rows", "it isn't name=shape:type"},
		{"x=2x32:bfloat4", "data types don't fit"},
		{"x=2x99999999999999999999:bfloat16", "at most 2^40 elements"},
	} {
		o := metaltrace.FileOptions{Buffers: []tracebuf.Buffer{
			{Name: "in0", Kind: tracebuf.KindDRAM, Addr: 0x20000, Size: 128, PageSize: 64, Stride: 64},
			{Name: "out0", Kind: tracebuf.KindDRAM, Addr: 0x40000, Size: 8192, PageSize: 4096, Stride: 4096, Output: true},
			{Name: "l", Kind: tracebuf.KindL1, Addr: 0x60000, Size: 128, PageSize: 64, Stride: 64},
		}, Data: []tracebuf.Data{{Buffer: 0}}}
		for i := range 128 {
			o.Data[0].Bytes = append(o.Data[0].Bytes, byte(i))
		}
		f, err := parseTensor(c.flag)
		if err == nil {
			err = f.describe(&o, 32)
		}
		got := fmt.Sprint(err)
		for _, b := range o.Buffers {
			if data := o.Data[0].Bytes; b.Tensor != nil {
				got = fmt.Sprintf("%s%v, %s, data %d B, half %d", b.Name, toTensor(b.Tensor), pagesText(b.Size, b.PageSize), len(data),
					data[len(data)/2])
			}
		}
		if !strings.Contains(got, c.want) || (err == nil) != (got == c.want) {
			t.Errorf("%s: %s, want %s", c.flag, got, c.want)
		}
	}
}
