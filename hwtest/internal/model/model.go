// Package model has the cases that compare a device with a model of it, or with another device.
package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/sim"
)

// Cases are the cases of layer model.
func Cases() (cs rig.Table) {
	cs.Add("buffers against a model", "any series of buffers' calls leaves what a model says", buffersModel)
	cs.Add("everything against a model", "any order of calls does what a model says", everythingModel)
	return cs
}

func steps(t *rig.T) int { return t.Size(t.More(12, 1000), t.More(2, 20)) }

func must(r rig.Draw, err error) {
	if err != nil {
		r.Fatalf("%v", err)
	}
}

// fresh opens a device for one try, since a try that fails may leave it hanging.
func fresh(t *rig.T, r rig.Draw) (*rig.T, func()) {
	opts := []reprise.Option{reprise.WithHangTimeout(t.Patience())}
	if r.IntRange(0, 3, "stock wire format") == 0 {
		opts = append(opts, reprise.WithStockWireFormat())
	}
	u := t.Unclosed(t.Device.Open(), opts...)
	return u, func() { must(r, u.Dev.Close(t.Context())) }
}

type modelBuffer struct {
	b    *reprise.Buffer
	data []byte
}

func drawBuffer(r rig.Draw, t *rig.T) *modelBuffer {
	size := rig.Sample(r, []int{1, 16, 32, 48, 64, 100, 1000, 2048, 4096, 5000, 65536}, "page")
	n := r.IntRange(1, max(1, min(300, 400_000/size)), "pages")
	kind := rig.Sample(r, []allocator.Kind{allocator.DRAM, allocator.L1}, "kind")
	b, err := t.Dev.NewBuffer(reprise.BufferConfig{Kind: kind, Size: size * n, PageSize: size, Name: "model"})
	must(r, err)
	m := &modelBuffer{b: b, data: make([]byte, size*n)}
	must(r, t.Queue.Write(t.Ctx, b, 0, m.data))
	return m
}

func (m *modelBuffer) part(r rig.Draw) (off, n int) {
	pages := m.b.Size() / m.b.PageSize()
	first := r.IntRange(0, pages-1, "first page")
	count := r.IntRange(1, pages-first, "pages")
	return first * m.b.PageSize(), count * m.b.PageSize()
}

func (m *modelBuffer) write(r rig.Draw, t *rig.T) {
	off, n := m.part(r)
	data := rig.Pattern(r.Uint32("data"), n)
	must(r, t.Queue.Write(t.Ctx, m.b, off, data))
	copy(m.data[off:], data)
}

func (m *modelBuffer) read(r rig.Draw, t *rig.T) {
	off, n := m.part(r)
	got := make([]byte, n)
	must(r, t.Queue.Read(t.Ctx, m.b, off, got))
	if d := rig.Difference(m.data[off:off+n], got); d != "" {
		r.Fatalf("%d B at %d of a buffer with pages of %d: %s", n, off, m.b.PageSize(), d)
	}
}

// with uses one of what there is by its index.
func with[V any](all *[]V, label string, use func(r rig.Draw, i int)) func(rig.Draw) {
	return func(r rig.Draw) {
		if len(*all) > 0 {
			use(r, r.IntRange(0, len(*all)-1, label))
		}
	}
}

func buffersModel(t *rig.T) {
	t.Config.Property(t, steps(t), func(r rig.Draw) {
		t, done := fresh(t, r)
		defer done()
		var live []*modelBuffer
		r.Repeat(map[string]func(rig.Draw){
			"new": func(r rig.Draw) {
				if len(live) < 12 {
					live = append(live, drawBuffer(r, t))
				}
			},
			"free": with(&live, "buffer", func(r rig.Draw, i int) {
				must(r, live[i].b.Release())
				live = slices.Delete(live, i, i+1)
			}),
			"write": with(&live, "buffer", func(r rig.Draw, i int) { live[i].write(r, t) }),
			"read":  with(&live, "buffer", func(r rig.Draw, i int) { live[i].read(r, t) }),
		})
	})
}

func everythingModel(t *rig.T) {
	if t.Config.Firmware.Workers != "" {
		t.Skip(t.Config.Firmware.Skip(metal.ErrNotMetal))
	}
	t.Config.Property(t, steps(t), func(r rig.Draw) {
		t, done := fresh(t, r)
		defer done()
		words, err := t.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16 * t.Grid().Size(), PageSize: 16, Name: "words"})
		must(r, err)
		must(r, t.Queue.Write(t.Ctx, words, 0, make([]byte, words.Size())))
		f := rig.NewMix(t)
		side := drawBuffer(r, t)

		type program struct {
			x      *reprise.Executable
			number uint32
			on     chip.Range
		}
		var programs []program
		g := t.Grid()
		for i := range 4 {
			at := chip.Core{X: r.IntRange(0, g.End.X, "x"), Y: r.IntRange(0, g.End.Y, "y")}
			on := chip.Range{Start: at, End: chip.Core{X: r.IntRange(at.X, g.End.X, "to x"), Y: r.IntRange(at.Y, g.End.Y, "to y")}}
			size := rig.Sample(r, []int{0, 4096, 20_000, 60_000}, "text") &^ 15
			x, err := t.Dev.Load(t.Ctx, t.MixProgram(fmt.Sprint(i), on, words, uint32(i+1), size))
			must(r, err)
			programs = append(programs, program{x, uint32(i + 1), on})
		}
		type trace struct {
			tr  *reprise.Trace
			seq []program
		}
		var traces []trace
		mix := func(seq ...program) {
			for _, p := range seq {
				f.Run(p.number, p.on)
			}
		}
		drawProgram := func(r rig.Draw) program { return rig.Sample(r, programs, "program") }
		before := t.Allocated()
		r.Repeat(map[string]func(rig.Draw){
			"run": func(r rig.Draw) {
				p := drawProgram(r)
				must(r, t.Queue.Run(t.Ctx, p.x))
				mix(p)
			},
			"capture": func(r rig.Draw) {
				if len(traces) >= 5 {
					return
				}
				var seq []program
				for range r.IntRange(1, 12, "length") {
					seq = append(seq, drawProgram(r))
				}
				tr, err := t.Queue.Capture(t.Ctx, "model", func(_ context.Context, rec *reprise.Recorder) error {
					for i, p := range seq {
						if err := errors.Join(rec.Run(p.x), rec.Param(fmt.Sprint(i), rig.MixNumber)); err != nil {
							return err
						}
					}
					return nil
				})
				must(r, err)
				traces = append(traces, trace{tr, seq})
			},
			"replay": with(&traces, "trace", func(r rig.Draw, i int) {
				for range r.IntRange(1, 4, "times") {
					must(r, traces[i].tr.Replay(t.Ctx))
					mix(traces[i].seq...)
				}
			}),
			"set": with(&traces, "trace", func(r rig.Draw, i int) {
				tr := traces[i]
				for range r.IntRange(1, 5, "parameters") {
					i := r.IntRange(0, len(tr.seq)-1, "step")
					tr.seq[i].number = uint32(r.IntRange(0, 1000, "number"))
					must(r, tr.tr.Set(fmt.Sprint(i), tr.seq[i].number))
				}
			}),
			"pieces": with(&traces, "trace", func(r rig.Draw, i int) {
				tr := traces[i]
				if n := r.IntRange(0, len(tr.seq), "number of pieces"); n == 0 {
					must(r, tr.tr.Debug().Step(t.Ctx, nil))
				} else {
					must(r, tr.tr.Debug().Split(t.Ctx, n, nil))
				}
				mix(tr.seq...)
			}),
			"check": with(&traces, "trace", func(r rig.Draw, i int) { must(r, traces[i].tr.Debug().Check(t.Ctx)) }),
			"release": with(&traces, "trace", func(r rig.Draw, i int) {
				must(r, traces[i].tr.Release(t.Ctx))
				traces = slices.Delete(traces, i, i+1)
			}),
			"write":  func(r rig.Draw) { side.write(r, t) },
			"read":   func(r rig.Draw) { side.read(r, t) },
			"finish": func(r rig.Draw) { must(r, t.Queue.Wait(t.Ctx)) },
			"words": func(r rig.Draw) {
				got := make([]byte, words.Size())
				must(r, t.Queue.Read(t.Ctx, words, 0, got))
				all := rig.MakeWords(len(got), func(i int) uint32 {
					if i%4 != 0 {
						return 0
					}
					return f.Words[i/4]
				})
				if d := rig.Difference(all, got); d != "" {
					r.Fatalf("words of the workers: %s", d)
				}
			},
		})
		for _, tr := range traces {
			must(r, tr.tr.Release(t.Ctx))
		}
		if after := t.Allocated(); after != before {
			r.Fatalf("allocated before %v, after %v", before, after)
		}
	})
}

// Differential are the cases of layer differential.
func Differential() (cs rig.Table) {
	const same = "two devices of one architecture do the same with the same commands, to the last byte of memory, records and counters"
	for seed := range uint64(12) {
		rig.Each(&cs, "random commands %d", same, randomCommands, seed)
	}
	long := cs.Add("hundreds of random streams", same, func(t *rig.T) {
		for seed := range uint64(t.Size(300, 40)) {
			t.Sub(fmt.Sprint(seed), func(t *rig.T) { randomCommands(t, 1000+seed) })
		}
	})
	long.Long, long.Limit = true, 2*time.Minute
	return cs
}

// other is the device that was asked for, or the emulator with slow networks and another order.
func other(t *rig.T) *target.Device {
	if d := t.Config.Compare(t.Device); d != nil {
		return d
	}
	if t.Device.Kind != target.Emulator {
		t.Skip("name a second device to compare with")
	}
	return t.Device.Emulated("_slow", sim.Seed(99), sim.Delay(40))
}

type outcome struct {
	what string
	data []byte
}

const (
	areaSize = 96 << 10
	areaDRAM = 16 << 20
)

func randomCommands(t *rig.T, seed uint64) {
	o := other(t)
	arch := chip.Arch(0)
	run := func(d *target.Device) []outcome {
		u := *t
		u.Device = d
		v := u.Queues(dispatch.Options{})
		if arch != 0 && v.Params.Arch != arch {
			t.Skipf("the other device is a %v", v.Params.Arch)
		}
		arch = v.Params.Arch
		return randomRun(v, rand.New(rand.NewPCG(seed, 1)))
	}
	a, b := run(t.Device), run(o)
	for i := range a {
		if d := rig.Difference(a[i].data, b[i].data); d != "" {
			t.Errorf("%s: %s has, against %s: %s", a[i].what, o.Name, t.Device.Name, d)
		}
	}
	if bytes.Equal(a[0].data, make([]byte, len(a[0].data))) {
		t.Error("the commands wrote nothing")
	}
}

// randomRun runs a random stream and returns its outcomes. No choice depends on the device.
func randomRun(t *rig.T, rng *rand.Rand) []outcome {
	g := t.Grid()
	watched := []chip.Core{g.Start, g.End, {X: 1, Y: 1}, {X: g.End.X, Y: 0}, {X: 3, Y: g.End.Y}, {X: 4, Y: 3}}
	for c := range g.Cores() {
		t.Poke(c, rig.Scratch, make([]byte, areaSize))
	}
	for b := range t.Chip.DRAMBanks() {
		t.PokeDRAM(b, areaDRAM, make([]byte, areaSize))
	}
	anyCore := func() chip.Core { return watched[rng.IntN(len(watched))] }
	anyRect := func() (uint32, int) {
		s := chip.Core{X: rng.IntN(g.End.X + 1), Y: rng.IntN(g.End.Y + 1)}
		return t.NOCRect(chip.Range{Start: s, End: chip.Core{X: s.X + rng.IntN(g.End.X-s.X+1), Y: s.Y + rng.IntN(g.End.Y-s.Y+1)}})
	}
	data := func(n int) []byte { return rig.Pattern(rng.Uint32(), n) }
	addr := func(n, align int) uint32 { return uint32(rng.IntN((areaSize-n)/align) * align) }
	length := func() int {
		switch rng.IntN(4) {
		case 0:
			return 1 + rng.IntN(64)
		case 1:
			return 4096 - 40 + rng.IntN(80)
		case 2:
			return 1 + rng.IntN(20_000)
		}
		return 16 * (1 + rng.IntN(2000))
	}
	align := t.Layout().DRAMAlign()
	var records []byte
	for range 60 {
		stall, reset := false, false
		var record []byte
		cmds := t.Commands(func(b *cq.Builder) {
			// Places overlap, so each command waits for those before.
			b.WaitStall(cq.Wait{})
			switch rng.IntN(13) {
			case 0, 1:
				d := data(length())
				t.WriteTile(b, anyCore(), int(rig.Scratch+addr(len(d), 16)), d)
			case 2:
				d := data(length())
				noc, n := anyRect()
				b.WriteLinear(cq.WriteLinear{McastDests: uint8(n), NOC: noc, Addr: uint64(rig.Scratch + addr(len(d), 16)), Data: d})
			case 3:
				size := align * (1 + rng.IntN(20))
				n := 1 + rng.IntN(12)
				b.WritePaged(cq.WritePaged{DRAM: true, StartPage: uint16(rng.IntN(7)), Base: areaDRAM + addr(4*size, align),
					PageSize: uint32(size),
					Pages:    uint32(n), Data: data(n * size)})
			case 4:
				w := cq.WritePacked{Type: cq.PackedRuntimeArgs, Size: uint16(4 * (1 + rng.IntN(300))), NoStride: rng.IntN(2) == 0}
				w.Addr = rig.Scratch + addr(int(w.Size), 16)
				for range 1 + rng.IntN(20) {
					w.Cores = append(w.Cores, t.NOCXY(anyCore()))
				}
				slots := len(w.Cores)
				if w.NoStride {
					slots = 1
				}
				w.Data = data(slots * cq.SlotStride(int(w.Size)))
				b.WritePacked(w)
			case 5:
				w := cq.WritePacked{Type: cq.PackedLaunch, Size: uint16(4 * (1 + rng.IntN(50)))}
				w.Addr = rig.Scratch + addr(int(w.Size), 16)
				for range 1 + rng.IntN(10) {
					noc, n := anyRect()
					w.Rects = append(w.Rects, cq.Rect{NOC: noc, Dests: uint32(n)})
				}
				w.Data = data(len(w.Rects) * cq.SlotStride(int(w.Size)))
				b.WritePacked(w)
			case 6:
				w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16}
				n := 1 + rng.IntN(12)
				for i := range n {
					noc, cores := anyRect()
					if i > 0 && !w.Subs[i-1].Unlink { // a linked run goes to the same rectangle
						noc, cores = w.Subs[i-1].NOC, int(w.Subs[i-1].Dests)
					}
					size := 1 + rng.IntN(3000)
					w.Subs = append(w.Subs, cq.LargeSub{NOC: noc, Addr: rig.Scratch + addr(size, 16), Length: uint32(size),
						Dests:  uint8(cores),
						Unlink: rng.IntN(2) == 0 || i == n-1})
					w.Data = append(w.Data, data((size+15)&^15)...)
				}
				b.WritePackedLarge(w)
			case 7:
				n := 16 * (1 + rng.IntN(4000))
				t.WriteTileHeader(b, anyCore(), int(rig.Scratch+addr(n, 16)), n)
				b.Append(cq.RelayLinear{NOC: t.NOCXY(anyCore()), Addr: uint64(rig.Scratch + addr(n, 16)), Length: uint64(n)})
			case 8:
				size, n := align*(1+rng.IntN(30)), 1+rng.IntN(20)
				t.WriteTileHeader(b, anyCore(), int(rig.Scratch+addr(n*size, 16)), n*size)
				b.RelayPaged(cq.RelayPaged{StartPage: uint8(rng.IntN(7)), DRAM: true, Base: areaDRAM + addr(8*size, align),
					PageSize: uint32(size),
					Pages:    uint32(n)})
			case 9:
				log := 6 + rng.IntN(7)
				d := data(length())
				c, at := anyCore(), rig.Scratch+addr(len(d), 16)
				x := t.CommandTrace(32<<20, log, rng.IntN(3), func(b *cq.Builder) {
					t.WriteTile(b, c, int(at), d)
					t.WriteTile(b, watched[0], int(at), d)
				})
				b.ExecBuf(x)
				stall = true
			case 10:
				d := data(length())
				b.WriteHost(cq.WriteHost{Data: d})
				record = make([]byte, len(d))
			case 11:
				record = make([]byte, 16*(1+rng.IntN(2000)))
				b.WriteHostHeader(cq.WriteHost{Length: uint64(16 + len(record))})
				b.Append(cq.RelayLinear{NOC: t.NOCXY(anyCore()), Addr: uint64(rig.Scratch + addr(len(record), 16)),
					Length: uint64(len(record))})
			case 12:
				to := cq.Master
				if rng.IntN(2) == 0 {
					to = cq.Subordinate
					b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
				}
				d := t.Virtual(t.DispatchCore())
				b.SendGoSignal(to, cq.SendGoSignal{
					Go: cq.NewGoWord(0, d.X, d.Y, cq.SignalResetReadPtr), WaitCount: uint32(t.CQ.State().Expected),
					WaitStream: uint32(t.Params.Stream.FirstDispatch),
				})
				reset = true
			}
		})
		if record != nil {
			t.OK(t.CQ.Receive(t.Ctx, cmds, record))
			records = append(records, record...)
			continue
		}
		t.OK(t.CQ.Send(t.Ctx, cmds, stall))
		if reset {
			t.Answered(t.Dispatch.L1Banks())
		}
		if stall {
			t.Finish()
		}
	}
	t.Finish()
	var out []outcome
	for _, c := range watched {
		out = append(out, outcome{fmt.Sprintf("core %v", c), t.Peek(c, rig.Scratch, areaSize)})
	}
	for b := range t.Chip.DRAMBanks() {
		out = append(out, outcome{fmt.Sprintf("DRAM bank %d", b), t.PeekDRAM(b, areaDRAM, areaSize)})
	}
	var counters []byte
	for s := range 8 {
		v := t.Load32(t.Virtual(t.DispatchCore()), uint64(t.Params.Stream.Reg(t.Params.Stream.FirstDispatch+s, chip.SpaceAvailable)))
		counters = rig.AppendWord(counters, v&cq.CountMask)
	}
	return append(out, outcome{"records", records}, outcome{"counters of completions", counters})
}
