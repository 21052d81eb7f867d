package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// cmdRecord makes the file of a trace on an emulated chip. Kind is span (over two queues), sharded
// (buffers of other layouts), apart (of a queue with workers of its own) or hidden (one program
// goes wrong in a replay).
func cmdRecord(ts *testscript.TestScript, args []string) {
	card := sim.Blackhole()
	if args[1] == "wormhole" {
		card = sim.Wormhole()
	}
	file, err := recordTrace(context.Background(), card, args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), file, 0o666))
}

type recorded struct {
	ctx context.Context
	dev *reprise.Device
	err error
}

func recordTrace(ctx context.Context, card *sim.Card, kind string) (file []byte, err error) {
	left, right := chip.Grid(3, 4), chip.Range{Start: chip.Core{X: 3}, End: chip.Core{X: 5, Y: 3}}
	options := []reprise.Option{reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right)}
	if kind == "sharded" || kind == "hidden" {
		options = nil
	}
	dev, err := reprise.Open(ctx, card, options...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	r := &recorded{ctx: ctx, dev: dev}
	var out bytes.Buffer
	record := map[string]func(*bytes.Buffer){"span": r.span, "sharded": r.sharded, "apart": r.apart, "hidden": r.hidden}[kind]
	if record == nil {
		return nil, fmt.Errorf("there is no trace %q", kind)
	}
	record(&out)
	return out.Bytes(), r.err
}

func (r *recorded) do(errs ...error) { r.err = errors.Join(append([]error{r.err}, errs...)...) }

func (r *recorded) buffer(c reprise.BufferConfig) *reprise.Buffer {
	b, err := r.dev.NewBuffer(c)
	r.do(err)
	return b
}

func (r *recorded) pages(name string, addr uint32) *reprise.Buffer {
	return r.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 128, PageSize: 64, Name: name, Addr: addr})
}

func (r *recorded) load(p *reprise.Program) *reprise.Executable {
	x, err := r.dev.Load(r.ctx, p)
	r.do(err)
	return x
}

func (r *recorded) image(name string) *kernels.Image {
	im, err := kernels.Prebuilt(r.dev.Arch(), name)
	r.do(err)
	return im
}

func (r *recorded) add(name string, at chip.Core, from, to *reprise.Buffer, n uint32, uses ...*reprise.Buffer) *reprise.Executable {
	p, err := devtest.Adder(r.dev, name, at, from, to, n)
	r.do(err)
	p.Buffers = uses
	return r.load(p)
}

func (r *recorded) fill(b *reprise.Buffer, v uint32) {
	var data []byte
	for range b.Size() / 4 {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	r.do(r.dev.Queue(0).Write(r.ctx, b, 0, data), r.dev.Queue(0).Wait(r.ctx))
}

func (r *recorded) span(out *bytes.Buffer) {
	x, y, z := r.pages("x", 0), r.pages("y", 0), r.pages("z", 0)
	there, back := r.add("there", chip.Core{X: 1}, x, y, 1, x, y), r.add("back", chip.Core{X: 3, Y: 1}, y, z, 2, y, z)
	e, second := r.dev.NewEvent("there"), r.dev.Queue(1)
	t, err := r.dev.Queue(0).Capture(r.ctx, "to and fro", func(_ context.Context, rec *reprise.Recorder) error {
		other := rec.On(second)
		return errors.Join(rec.Run(there), rec.Param("addend", reprise.Arg{Kernel: "add", Index: 3}), rec.Record(e), other.WaitEvent(e),
			other.Run(back))
	}, second)
	r.do(err)
	r.fill(x, 10)
	r.do(t.Replay(r.ctx), r.dev.Queue(1).Wait(r.ctx), t.Save(r.ctx, out, reprise.WithData(x), reprise.WithResults(y, z)))
}

func (r *recorded) apart(out *bytes.Buffer) {
	x, y := r.pages("x", 0), r.pages("y", 0)
	add, q := r.add("add", chip.Core{X: 4}, x, y, 3, x, y), r.dev.Queue(1)
	t, err := q.Capture(r.ctx, "apart", func(_ context.Context, rec *reprise.Recorder) error { return rec.Run(add) })
	r.do(err)
	r.fill(x, 10)
	r.do(t.Replay(r.ctx), t.Save(r.ctx, out, reprise.WithData(x), reprise.WithResults(y)))
}

func (r *recorded) sharded(out *bytes.Buffer) {
	b := r.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Name: "shards", Sharding: &allocator.ShardSpec{
		Layout: allocator.HeightSharded, Tensor: []int{6, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Grid(1, 3)},
		Orientation: allocator.ColMajor,
	}})
	part, err := b.Sub(0, 32)
	r.do(err)
	x := r.load(&reprise.Program{Name: "store", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "store", Image: r.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{chip.Grid(1, 3)}, Common: []uint32{0},
		Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), 8, uint32(c.Y), 7, 6, 5, 4, 3, 2, 1} },
	}}})
	t, err := r.dev.Queue(0).Capture(r.ctx, "shards", func(_ context.Context, rec *reprise.Recorder) error {
		return errors.Join(rec.Run(x), rec.ParamBuffer("to", part, reprise.Arg{Kernel: "store"}))
	})
	r.do(err)
	r.fill(b, 1)
	r.do(t.Replay(r.ctx), t.Save(r.ctx, out, reprise.WithResults(b)))
}

// hidden has the second program count in a buffer that none declares, and the third show it.
func (r *recorded) hidden(out *bytes.Buffer) {
	x, h := r.pages("seen", 0), r.pages("hidden", 1<<24)
	fine, count, show := r.add("fine", chip.Core{}, x, x, 1, x), r.add("count", chip.Core{X: 1}, h, h, 1),
		r.add("show", chip.Core{}, h, x, 0, x)
	t, err := r.dev.Queue(0).Capture(r.ctx, "hidden", func(_ context.Context, rec *reprise.Recorder) error {
		return errors.Join(rec.Run(fine), rec.Run(count), rec.Run(show), rec.Run(fine))
	})
	r.do(err)
	r.fill(x, 10)
	r.do(t.Save(r.ctx, out, reprise.WithData()))
}
