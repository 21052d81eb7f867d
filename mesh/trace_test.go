package mesh_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func TestTraceOfAMesh(t *testing.T) {
	for _, make := range []func(...sim.Option) *sim.Machine{sim.QuietBox, sim.T3000} {
		machine := make()
		t.Cleanup(func() { _ = machine.Close() })
		t.Run(machine.String(), func(t *testing.T) {
			b := open(t, machine, mesh.Shape{2, 2})
			in, out := b.pages("in", 8), b.pages("out", 8)
			same := b.load("same", b.adder("same", in, out, always(7)))
			b.write(in, 1)
			calls := 0
			trace := b.record("once", func(r *mesh.Recorder) error {
				calls++
				return errors.Join(r.Run(same), r.Run(same))
			})
			if n, bytes := trace.Streams(); calls != 1 || n != 1 || bytes != trace.Parts()[0].Size {
				t.Errorf("recorded %d times, %d streams of %d B for a trace of %d B", calls, n, bytes, trace.Size())
			}
			for _, c := range b.mesh.Chips() {
				if got, want := b.part(trace, c).Extents[0], b.part(trace, b.mesh.Chip(0, 0)).Extents[0]; got != want {
					t.Errorf("chip %v has the trace at %+v, the first at %+v", c.Coord, got, want)
				}
			}
			for range 5 {
				b.replay(trace)
			}
			b.wait()
			b.allHold(out, 8)
			part := value(b.subset(trace, mesh.At(1, 0)))(b)
			b.write(in, 50)
			b.replay(part)
			b.wait()
			for i, want := range []uint32{8, 8, 57, 8} {
				b.holds(b.mesh.Chips()[i], out, want)
			}
			b.must(trace.Release(b.ctx))
			fails(t, trace.Release(b.ctx), reprise.ErrReleased, "second release")
			fails(t, trace.Replay(b.ctx), reprise.ErrReleased, "replay after release")
			b.must(errors.Join(same.Release(b.ctx), in.Release(), out.Release()))
			b.must(b.mesh.InStep(allocator.DRAM))
			if s := b.mesh.Chip(0, 0).Device.Memory(allocator.DRAM); s.Allocated != 0 {
				t.Errorf("%d B are left", s.Allocated)
			}
		})
	}
}

func TestCapturesRefuse(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	x := b.load("x", b.adder("x", in, out, always(1)))
	earlier := b.capture("earlier", x)
	e := b.mesh.NewEvent("e")
	for what, f := range map[string]func(ctx context.Context) error{
		"write":  func(ctx context.Context) error { return b.queue.Write(ctx, in, make([]byte, in.Size())) },
		"read":   func(ctx context.Context) error { return b.queue.Read(ctx, in, make([]byte, in.Size())) },
		"run":    func(ctx context.Context) error { return b.queue.Run(ctx, x) },
		"finish": func(ctx context.Context) error { return b.queue.Wait(ctx) },
		"record": func(ctx context.Context) error { return b.queue.Record(ctx, e) },
		"replay": func(ctx context.Context) error { return earlier.Replay(ctx) },
		"load": func(ctx context.Context) error {
			_, err := b.mesh.Load(ctx, "y", b.adder("y", in, out, always(1)))
			return err
		},
		"capture": func(ctx context.Context) error {
			_, err := b.queue.Capture(ctx, "z", func(context.Context, *mesh.Recorder) error { return nil })
			return err
		},
	} {
		var inside error
		_, err := b.queue.Capture(b.ctx, "t", func(ctx context.Context, r *mesh.Recorder) error {
			inside = f(ctx)
			return r.Run(x)
		})
		var ce *reprise.CaptureError
		if !errors.As(err, &ce) || !errors.Is(inside, reprise.ErrInCapture) || !strings.HasSuffix(ce.File, "trace_test.go") {
			t.Errorf("%s: %v, inside %v", what, err, inside)
		}
	}
	b.run(x)
	b.wait()
	b.must(earlier.Release(b.ctx))
}

func TestTraceParameters(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	b.write(in, 0)
	x := b.load("add", b.adder("add", in, out, always(3)))
	trace := b.record("with", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Run(x), r.Param(x, "addend", reprise.Arg{Kernel: "add", Index: 3}))
	})
	if n, _ := trace.Streams(); n != 2 {
		t.Errorf("%d streams, want one for each chip", n)
	}
	for i := range uint32(3) {
		b.must(trace.Set("addend", 40+i))
		b.replay(trace)
		b.allHold(out, 40+i)
	}
	other := b.pages("other", 8)
	moved := b.record("moved", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer(x, "out", out, reprise.Arg{Kernel: "writer", Index: 0}))
	})
	b.must(moved.SetBuffer("out", other.All()...))
	b.replay(moved)
	for _, c := range b.mesh.Chips() {
		b.holds(c, other, 3)
		b.holds(c, out, 42)
	}
	if err := moved.SetBuffer("out", nil); err == nil {
		t.Error("no buffer was set")
	}
	fails(t, trace.Set("other", 1), reprise.ErrNoParam, "no such parameter")
}

func TestReplayAllocatesNothing(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{4})
	in, out := b.pages("in", 1), b.pages("out", 1)
	trace := b.capture("t", b.load("add", b.adder("add", in, out, always(1))))
	b.replay(trace)
	n := math.Inf(1) // the emulator may allocate now and then
	for range 5 {
		b.wait()
		n = min(n, testing.AllocsPerRun(20, func() { b.replay(trace) }))
	}
	b.wait()
	if n != 0 {
		t.Errorf("a replay on 4 chips takes memory %v times", n)
	}
}

func TestReplayWithAChipGone(t *testing.T) {
	machine := sim.QuietBox()
	b := open(t, machine, mesh.Shape{2, 2})
	in, out := b.pages("in", 4), b.pages("out", 4)
	x := b.load("add", b.adder("add", in, out, always(9)))
	trace := b.capture("t", x)
	b.write(in, 1)
	b.wait()
	lost := b.mesh.Chip(1, 0)
	card := 0
	for i, c := range machine.Cards() {
		if c.String() == lost.Device.Name() {
			card = i
		}
	}
	drv := value(machine.Driver())(b)
	b.must(drv.Unplug(card))
	var failed error
	for range 1000 {
		if failed = trace.Replay(b.ctx); failed != nil {
			break
		}
	}
	if failed == nil {
		failed = b.queue.Wait(b.ctx)
	}
	var e *reprise.PartsError
	if !errors.As(failed, &e) || len(e.Parts) != 4 || len(e.Failed()) != 1 || e.Failed()[0].Queue.Device() != lost.Device ||
		!errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with a chip gone: %v", failed)
	}
	if err := trace.Replay(b.ctx); !errors.As(err, &e) || !errors.Is(err, reprise.ErrSkipped) {
		t.Errorf("the next replay: %v", err)
	}
	for _, r := range []mesh.Range{{Start: mesh.Coord{0, 0}, End: mesh.Coord{0, 1}}, mesh.At(1, 1)} {
		part := value(b.subset(trace, r))(b)
		b.replay(part)
	}
	for _, c := range []*mesh.Chip{b.mesh.Chip(0, 0), b.mesh.Chip(0, 1), b.mesh.Chip(1, 1)} {
		b.holds(c, out, 10)
	}
}

func TestTraceFileOfAMesh(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	part := b.adder("some", in, out, func(c *mesh.Chip) uint32 { return uint32(10 * (1 + c.Coord[1])) })
	part.Range = mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{0, 1}}
	x := b.load("some", part)
	trace := b.capture("some", x)
	b.write(in, 1)
	b.wait()
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData(in.All()[0], in.All()[1])))
	b.must(errors.Join(trace.Release(b.ctx), x.Release(b.ctx), in.Release(), out.Release()))

	loaded := value(b.mesh.LoadTrace(b.ctx, bytes.NewReader(file.Bytes())))(b)
	if n := len(loaded.Parts()); n != 2 {
		t.Fatalf("it has %d parts, want 2", n)
	}
	b.replay(loaded)
	b.wait()
	for i, c := range b.mesh.Chips()[:2] {
		for _, buf := range loaded.Buffers() {
			if buf.Name() != "out" || buf.Device() != c.Device {
				continue
			}
			got := make([]byte, buf.Size())
			b.must(b.queue.On(c).Read(b.ctx, buf, 0, got))
			if want := words(len(got), uint32(1+10*(1+i))); !bytes.Equal(got, want) {
				t.Errorf("chip %v has % x, want % x", c.Coord, got[:8], want[:8])
			}
		}
	}
	b.must(loaded.Debug().Verify(b.ctx))
	b.must(loaded.Release(b.ctx))
	fails(t, second(b.mesh.Chip(0, 0).Device.LoadTrace(b.ctx, bytes.NewReader(file.Bytes()))), reprise.ErrOtherTarget, "loaded on one chip")
	if s := b.mesh.Chip(0, 0).Device.Memory(allocator.DRAM); s.Allocated != 0 {
		t.Errorf("%d B are left", s.Allocated)
	}
}

// Arguments beside the kernels.
func TestParamOfEachChip(t *testing.T) {
	for _, runs := range []int{1, 3} {
		b := open(t, sim.P300(), mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithHangTimeout(2e9)))
		g := b.mesh.Chip(0, 0).Device.Grid()
		out, err := b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.L1, Size: 64 * g.Size(), PageSize: 64,
			Name: "out"}})
		b.must(err)
		load := func(value uint32) *mesh.Executable {
			return b.load("wide", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
				im, err := kernels.Prebuilt(c.Device.Arch(), kernels.Store)
				return &reprise.Program{Name: "wide", Buffers: []*reprise.Buffer{out.On(c)}, Kernels: []reprise.Kernel{{
					Name: "store", Image: im, Processor: chip.BRISC, Cores: []chip.Range{g}, Common: []uint32{0},
					Args: func(k chip.Core) []uint32 {
						a := []uint32{out.On(c).Addr(), 16}
						for len(a) < 64 {
							a = append(a, value)
						}
						return a
					},
				}}}, err
			}})
		}
		x, y := load(7), load(9)
		trace := b.record("with", func(r *mesh.Recorder) error {
			var errs []error
			for range runs {
				errs = append(errs, r.Run(x))
			}
			return errors.Join(append(errs, r.Run(y), r.Param(y, "n", reprise.Arg{Kernel: "store", Index: 1}))...)
		})
		b.replay(trace)
		for _, c := range b.mesh.Chips() {
			if err := c.Device.Queue(0).Wait(b.ctx); err != nil {
				t.Errorf("%d runs: chip %v: %v", runs, c.Coord, err)
				continue
			}
			got := make([]byte, 64*g.Size())
			b.must(c.Device.Queue(0).Read(b.ctx, out.On(c), 0, got))
			for i := 0; i < len(got); i += 64 {
				if v := binary.LittleEndian.Uint32(got[i:]); v != 9 {
					t.Errorf("%d runs: chip %v: core %d has %#x, want 9", runs, c.Coord, i/64, v)
					break
				}
			}
		}
	}
}

func TestControlFlow(t *testing.T) {
	for _, tt := range []struct {
		machine func(...sim.Option) *sim.Machine
		shape   mesh.Shape
	}{{sim.P300, mesh.Shape{1, 2}}, {sim.N300, mesh.Shape{1, 2}}, {sim.T3000, mesh.Shape{2, 4}}} {
		if tt.shape.Size() > effort.Of(2, 8, 8) {
			continue
		}
		m := tt.machine()
		t.Run(m.String(), func(t *testing.T) {
			b := open(t, m, tt.shape)
			eachDecides(b)
			oneDecides(b)
		})
	}
}

func (b *bench) page(buf *mesh.Buffer, first func(i int) uint32) {
	b.Helper()
	for i, c := range b.mesh.Chips() {
		b.must(b.queue.On(c).Write(b.ctx, buf.On(c), 0, words(64, first(i))))
	}
}

func (b *bench) first(buf *mesh.Buffer, c *mesh.Chip) uint32 {
	b.Helper()
	got := make([]byte, 64)
	b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
	return binary.LittleEndian.Uint32(got)
}

func eachDecides(b *bench) {
	b.Helper()
	n, m := b.pages("n", 1), b.pages("m", 1)
	one := b.load("one", b.adder("one", n, n, always(1)))
	ten := b.load("ten", b.adder("ten", m, m, always(10)))
	below := func(v uint32) func(*mesh.Chip) reprise.Cond {
		return func(c *mesh.Chip) reprise.Cond { return reprise.Cond{Buffer: n.On(c), Is: cq.Less, Value: v} }
	}
	trace := b.record("each", func(r *mesh.Recorder) error {
		return errors.Join(
			r.Switch(n, 0, func() error { return r.Run(ten) }, func() error { return r.Loop(2, func() error { return r.Run(ten) }) }),
			r.While(below(9), 20, func() error {
				return errors.Join(r.Run(one), r.If(below(5), func() error { return r.Run(ten) }, nil))
			}),
			r.If(below(10), func() error { return r.Run(one) }, func() error { return r.Run(ten) }),
		)
	})
	b.page(n, func(i int) uint32 { return uint32(i) * 5 % 12 })
	b.page(m, func(int) uint32 { return 0 })
	b.replay(trace)
	for i, c := range b.mesh.Chips() {
		v, w := uint32(i)*5%12, uint32(0)
		if v < 2 {
			w += 10 * (v + 1)
		}
		for v < 9 {
			if v++; v < 5 {
				w += 10
			}
		}
		if v < 10 {
			v++
		} else {
			w += 10
		}
		if gotN, gotM := b.first(n, c), b.first(m, c); gotN != v || gotM != w {
			b.Errorf("%s: %d and %d, want %d and %d", c.Name, gotN, gotM, v, w)
		}
	}
	b.must(trace.Release(b.ctx))
	failed := errors.New("the body has failed")
	fails(b, second(b.queue.Capture(b.ctx, "fails", func(_ context.Context, r *mesh.Recorder) error {
		return r.Loop(2, func() error { return failed })
	})), failed, "a body that fails")
	if _, err := b.queue.Capture(b.ctx, "nil", func(_ context.Context, r *mesh.Recorder) error { return r.Loop(2, nil) }); err == nil {
		b.Error("no body is no error")
	}
}

func oneDecides(b *bench) {
	b.Helper()
	links := value(b.mesh.NewLinks(b.ctx, chip.Core{}))(b)
	sum := b.pages("sum", 1)
	reduce := value(links.AllReduce(b.ctx, sum, mesh.SumInt32))(b)
	enough := uint32(1000)
	trace := b.record("one", func(r *mesh.Recorder) error {
		return r.While(func(c *mesh.Chip) reprise.Cond {
			return reprise.Cond{Buffer: sum.On(c), Is: cq.Less, Value: enough}
		}, 20, func() error { return r.Run(reduce) })
	})
	b.page(sum, func(i int) uint32 { return uint32(i) + 1 })
	b.replay(trace)
	chips := uint32(len(b.mesh.Chips()))
	want := chips * (chips + 1) / 2
	for want < enough {
		want *= chips
	}
	for _, c := range b.mesh.Chips() {
		if got := b.first(sum, c); got != want {
			b.Errorf("%s: the sum is %d, want %d", c.Name, got, want)
		}
	}
	b.must(trace.Release(b.ctx))
}

// The host's cost of a replay for each chip, which must stay flat: the quickest of many, because
// the emulated chips run on the same processors.
func BenchmarkReplay(b *testing.B) {
	machine := sim.GalaxyBlackhole()
	defer machine.Close()
	m, err := mesh.Open(b.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{8, 4})
	devtest.Must(b, err)
	defer m.Close(b.Context())
	im, err := kernels.Prebuilt(chip.Blackhole, kernels.Blank)
	devtest.Must(b, err)
	x, err := m.Load(b.Context(), "blank", mesh.Same(mesh.Range{}, &reprise.Program{Name: "blank", Kernels: []reprise.Kernel{{
		Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
	}}}))
	devtest.Must(b, err)
	trace, err := m.Queue(0).Capture(b.Context(), "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	devtest.Must(b, err)
	for _, shape := range []mesh.Shape{{1, 1}, {1, 2}, {1, 4}, {2, 4}, {4, 4}, {8, 4}} {
		queues, err := m.Queue(0).In(mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{shape[0] - 1, shape[1] - 1}})
		devtest.Must(b, err)
		part, err := trace.Subset(queues...)
		devtest.Must(b, err)
		b.Run(fmt.Sprint(shape.Size()), func(b *testing.B) {
			best := time.Hour
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				devtest.Must(b, part.Replay(b.Context()))
				best = min(best, time.Since(start))
				if i%16 == 15 {
					b.StopTimer()
					devtest.Must(b, m.Queue(0).Wait(b.Context()))
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(best)/float64(shape.Size()), "best-ns/chip")
		})
	}
}

func twoByFour(t *testing.T, opts ...reprise.Option) *bench {
	t.Helper()
	var cards []*sim.Card
	for range 8 {
		cards = append(cards, sim.Wormhole())
	}
	return openCards(t, mesh.Cards(cards...), mesh.Shape{2, 4}, mesh.Unlinked(), mesh.WithDevice(opts...))
}

func area(y0, x0, y1, x1 int) mesh.Range {
	return mesh.Range{Start: mesh.Coord{y0, x0}, End: mesh.Coord{y1, x1}}
}

func constant(n int, v uint32) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint32(nil, v), n/4)
}

func (b *bench) values(buf *mesh.Buffer, want []uint32) {
	b.Helper()
	b.wait()
	for i, c := range b.mesh.Chips() {
		got := make([]byte, buf.On(c).Size())
		b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
		if !bytes.Equal(got, constant(len(got), want[i])) {
			b.Errorf("chip %v: buffer %q starts with %d, want %d", c.Coord, buf.Name(), binary.LittleEndian.Uint32(got), want[i])
		}
	}
}

// MeshTraceSweepTest and NonConvexGridTrace, with one program on each part instead of ten.
func TestUpstreamTraceSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("several chips, too slow under the race detector; other tests take the same paths")
	}
	full, top, bottom := area(0, 0, 1, 3), area(0, 0, 0, 3), area(1, 0, 1, 3)
	column := func(x int) mesh.Range { return area(0, x, 1, x) }
	single := func(y, x int) mesh.Range { return area(y, x, y, x) }
	columns := []mesh.Range{column(0), column(1), column(2), column(3)}
	all := []mesh.Range{single(0, 0), single(0, 1), single(0, 2), single(0, 3), single(1, 0), single(1, 1), single(1, 2), single(1, 3)}
	b := twoByFour(t, reprise.WithTraceRegion(64<<20))
	buf := b.pages("words", 1)
	programs := map[string]mesh.Part{}
	for _, c := range []struct {
		name    string
		grids   [][]mesh.Range // by workload
		replays int
	}{
		{"parts", [][]mesh.Range{{full}, {column(1)}, {single(0, 2)}, {single(1, 3)}, {single(0, 0)}, {full}}, effort.Of(2, 10, 50)},
		{"columns and rows", [][]mesh.Range{{full}, columns, {top, bottom}}, effort.Of(2, 10, 50)},
		{"two, three and four columns", [][]mesh.Range{{full}, {top, bottom}, {area(0, 0, 1, 1), area(0, 2, 1, 3)}, {area(0, 0, 1, 1), column(2), column(3)}, columns}, effort.Of(2, 10, 50)},
		{"single chips", [][]mesh.Range{{full}, all, {area(0, 1, 1, 2)}, {column(2)}, {area(1, 1, 1, 2)}}, effort.Of(2, 10, 50)},
		{"non-convex grid", [][]mesh.Range{{area(0, 0, 0, 1), area(1, 2, 1, 3)}}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := make([]uint32, b.mesh.Size())
			var xs []*mesh.Executable
			for _, grid := range c.grids {
				var parts []mesh.Part
				for _, r := range grid {
					p, ok := programs[r.String()]
					if !ok {
						p = b.adder(r.String(), buf, buf, always(1))
						p.Range = r
						programs[r.String()] = p
					}
					parts = append(parts, p)
					for i, chip := range b.mesh.Chips() {
						if r.Contains(chip.Coord) {
							want[i] += uint32(c.replays)
						}
					}
				}
				xs = append(xs, b.load("workload", parts...))
			}
			b.must(b.queue.Write(b.ctx, buf, constant(buf.Size(), 0)))
			trace := b.capture(c.name, xs...)
			for range c.replays {
				b.replay(trace)
			}
			b.values(buf, want)
			b.must(trace.Release(b.ctx))
			for _, x := range xs {
				b.must(x.Release(b.ctx))
			}
		})
	}
}

// MeshEndToEnd2x4TraceTests.EltwiseAddTest: a region of 3072 B is rounded up to a page in each
// bank.
func TestUpstreamSmallRegionOnMesh(t *testing.T) {
	b := twoByFour(t, reprise.WithTraceRegion(3072))
	in, out := b.pages("in", 2), b.pages("out", 2)
	trace := b.capture("add", b.load("add", b.adder("add", in, out, always(3))))
	b.must(errors.Join(b.queue.Write(b.ctx, in, constant(in.Size(), 2)), trace.Replay(b.ctx)))
	b.values(out, []uint32{5, 5, 5, 5, 5, 5, 5, 5})
	b.must(trace.Release(b.ctx))
}

// MeshBufferTest2x4
func TestUpstreamMeshBuffers(t *testing.T) {
	b := twoByFour(t)
	conf := func(page int, tensor, split []int) mesh.BufferConfig {
		return mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: page, Name: "buffer"}, Tensor: tensor,
			Unit: 2, Split: split}
	}
	for _, c := range []struct {
		name          string
		tensor, split []int
		local, rounds int
	}{
		{"ShardedBufferInitialization", []int{64, 128}, []int{0, 1}, 2 << 10, 1},
		{"InterleavedShardsReadWrite", []int{64, 128}, []int{0, 1}, 2 << 10, 100},
		{"RowMajorShardingAndReplication", []int{64, 128}, []int{0, mesh.Replicate}, 8 << 10, 1},
		{"ColMajorShardingAndReplication", []int{64, 128}, []int{mesh.Replicate, 1}, 4 << 10, 1},
		{"columns along the mesh's rows", []int{64, 128}, []int{1, 0}, 2 << 10, 1},
		{"ReplicatedBufferInitialization", []int{64, 128}, []int{mesh.Replicate, mesh.Replicate}, 16 << 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			buf := value(b.mesh.NewBuffer(conf(32, c.tensor, c.split)))(b)
			if got := buf.On(b.mesh.Chip(1, 3)).Size(); buf.Size() != 16<<10 || got != c.local {
				t.Errorf("%d B, of which a chip has %d", buf.Size(), got)
			}
			got := make([]byte, buf.Size())
			for i := range c.rounds {
				want := words(buf.Size(), uint32(i))
				b.must(b.queue.Write(b.ctx, buf, want))
				b.must(b.queue.Read(b.ctx, buf, got))
				if !bytes.Equal(got, want) {
					t.Fatalf("round %d: it comes back changed", i)
				}
			}
			at := buf.Addr()
			b.must(buf.Release())
			again := value(b.mesh.NewBuffer(conf(32, c.tensor, c.split)))(b)
			if again.Addr() != at {
				t.Errorf("the next buffer is at %#x, the freed one was at %#x", again.Addr(), at)
			}
			b.must(again.Release())
		})
	}
}
