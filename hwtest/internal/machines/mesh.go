// Package machines has the cases of several chips as one.
package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/mesh"
)

// OnMesh passes a case the chips of its machine, which it shares with earlier cases.
func OnMesh(fn func(*T)) func(*rig.T) {
	return func(t *rig.T) {
		if t.Shared.Machine == nil {
			t.Shared.Machine = openMesh(t)
		}
		fn(onMachine(t, t.Shared.Machine.(*meshed)))
	}
}

// OnOwnMesh passes a case chips of its own, opened with options.
func OnOwnMesh(fn func(*T), opts ...reprise.Option) func(*rig.T) {
	return func(t *rig.T) {
		t.Shared.Only(t, rig.LevelMesh)
		m := openMesh(t, opts...)
		t.Cleanup(func() { _ = m.Close(context.WithoutCancel(t.Ctx)) })
		fn(onMachine(t, m))
	}
}

// Rows are cases on the chips of a machine: name, what it protects, what it does.
type Rows []struct {
	Name, Protects string
	Run            func(*T)
}

// Shared makes cases that share a mesh.
func (rs Rows) Shared() (cs rig.Table) {
	for _, r := range rs {
		cs.Add(r.Name, r.Protects, OnMesh(r.Run))
	}
	return cs
}

func (rs Rows) own(needs rig.Need, opts ...reprise.Option) (cs rig.Table) {
	for _, r := range rs {
		cs.Add(r.Name, r.Protects, OnOwnMesh(r.Run, opts...)).Needs = needs
	}
	return cs
}

// Cases are the cases of several chips as one.
func Cases() rig.Table {
	cs := slices.Concat(Rows{
		{"neighbours are linked", "places of a mesh next to each other are chips that a link joins", meshNeighbours},
		{"one address", "what is allocated on a mesh has one address on all chips, which stay in step", oneAddress},
		{"submeshes share memory", "a submesh and its parent are never given the same memory", submeshMemory},
		{"sharded tensor", "each chip has its part of a tensor, which comes back whole", func(t *T) {
			s := t.Mesh.Shape()
			b := t.tensor(t.Mesh, []int{2 * s[0], 16 * s[1]}, nil)
			t.comesBack(t.Queue, b, Counting(b.Size(), 0))
			for _, c := range t.Mesh.Chips() {
				row := uint32(16 * s[1])
				first := uint32(2*c.Coord[0])*row + uint32(16*c.Coord[1])
				t.Is("part", c, b, append(Counting(64, first), Counting(64, first+row)...))
			}
		}},
		{"reshaped", "the same chips in another shape are the same memory and queues", meshReshaped},
		{"out of memory", "what doesn't fit is refused on all chips, which stay in step", outOfMemory},
		{"replicated along an axis", "chips along an axis that a tensor isn't cut along have the same part of it", func(t *T) {
			s := t.Mesh.Shape()
			b := t.tensor(t.Mesh, []int{2 * s[1], 16}, []int{mesh.Replicate, 0})
			t.comesBack(t.Queue, b, Counting(2*s[1]*64, 5))
			for _, c := range t.Mesh.Chips() {
				t.Is("part", c, b, Counting(128, 5+32*uint32(c.Coord[1])))
			}
			t.Free(b)
		}},
		{"tensor on a submesh", "a tensor that is spread over a submesh leaves the other chips alone", submeshTensor},
		{"shapes that can't be", "parts and shapes that a mesh doesn't have are refused with what is possible", meshShapes},
		{"programs by range", "chips run the program of their range, and those outside of all ranges none", func(t *T) {
			in, out, _ := t.setUp()
			last := t.Mesh.Chips()[t.Mesh.Size()-1]
			part := t.adder(in, out, Add(5))
			part.Range = Only(last)
			t.Start(t.Loaded(part))
			t.onlyOn(last, out, 6)
		}},
		{"events", "an event of a mesh is done when it is done on every chip", meshEvents},
		{"trace", "one trace runs on all chips, which share one stream of commands", meshTrace},
		{"trace parameters", "a parameter of a mesh's trace changes on every chip", traceParam},
		{"submeshes at once", "submeshes that are apart run different traces at the same time", submeshTraces},
		{"traces in any order", "traces of a mesh are replayed and released in any order", manyTraces},
		{"skew", "chips report by their own clocks how far apart they were", meshSkew},
		{"replays in a row", "no replay of a trace is lost on any chip, however many are in flight", func(t *T) {
			b, tr := t.added()
			n := t.Size(50, 20)
			for range n {
				t.Replay(tr)
			}
			t.AllCount("sum", b, uint32(n))
			t.Release(tr)
		}},
		{"buffer parameter", "a buffer parameter of a mesh's trace changes on every chip", bufferParam},
		{"several callers", "goroutines that use a mesh at the same time don't disturb each other", meshCallers},
		{"parts in turn", "parts of a trace are replayed chip by chip, in any order", partsInTurn},
	}.Shared(), Rows{
		{"events between queues", "a queue of a mesh waits for another's event on every chip", twoQueues},
	}.own(0, rig.QueueOptions(false)...), Rows{
		{"traces on two queues", "traces of different queues run on every chip at the same time", twoTraces},
		{"trace over two queues", "one trace over two queues of each chip keeps its order between them", spanning},
	}.own(0, rig.QueueOptions(true)...), Rows{
		{"broadcast", "a broadcast from each chip reaches all others", func(t *T) {
			b := t.Linked()
			for i, root := range t.Links.Line() {
				t.Put(root, b, uint32(7000+i))
				t.carryOut(t.Links.Broadcast(t.Ctx, b, root))
				t.AllCount("broadcast", b, uint32(7000+i))
			}
		}},
		{"all pairs", "a buffer reaches each chip from each other one", allPairs},
		{"pages of every size", "collectives carry pages from 4 B to 4 KiB, whatever their alignment", func(t *T) {
			t.Linked()
			for _, page := range []int{4, 12, 16, 100, 1024, 4096} {
				b := t.ofPages(2, page)
				t.carryOut(t.Links.AllReduce(t.Ctx, b, mesh.SumInt32))
				t.All(fmt.Sprintf("sum of pages of %d B", page), b, t.sums(b.Size()))
			}
		}},
		{"uneven slices", "slices of unequal size are gathered and scattered too", meshUneven},
		{"collectives in a row", "collectives that follow one another in a queue keep their numbers", func(t *T) {
			b := t.Linked()
			x := t.AllReduce(b, mesh.MaxInt32)
			for range 5 {
				t.Start(x)
				t.Start(t.Links.Barrier())
			}
			t.Wait()
			t.AllCount("maximum", b, 1000*uint32(t.Mesh.Size()))
		}},
		{"scatter and gather", "a reduce_scatter and an all_gather after it are an all_reduce", func(t *T) {
			b := t.Linked()
			scatter, gather := t.halves(b)
			t.Replay(t.recorded(scatter, gather))
			t.Wait()
			t.All("sum", b, t.sums(b.Size()))
		}},
		{"float32 sum", "sums of float32 have the bits that IEEE 754 gives in the documented order",
			floats(mesh.SumFloat32, func(c, w int) uint32 { return bits(anyFloat(c, w)) }, func(a, b uint32) uint32 { return bits(float(a) + float(b)) })},
		{"bfloat16 sum", "sums of bfloat16 are rounded to nearest, ties to even, at each step", bFloats(mesh.SumBFloat16, func(a, b float32) float32 { return a + b })},
		{"layer with all_reduce", "partial results and their sum over the chips replay as one trace", meshLayer},
		{"links prepared anew", "links that are prepared again start from nothing", func(t *T) {
			for range 3 {
				b := t.Linked()
				t.addsUp(b)
				t.Release(t.Links)
			}
		}},
		{"float32 maximum", "the maximum of float32 is right: -0 is less than 0, and a NaN gives the quiet one", maximum()},
		{"bfloat16 maximum", "the largest bfloat16 comes out of each half of a word", bFloats(mesh.MaxBFloat16, func(a, b float32) float32 { return max(a, b) })},
		{"int32 wraps", "sums of int32 wrap around",
			floats(mesh.SumInt32, func(c, w int) uint32 { return math.MaxInt32 - uint32(c*w) }, func(a, b uint32) uint32 { return a + b })},
		{"many pages", "a buffer of more pages than links have room for is added up", func(t *T) {
			t.Linked()
			t.addsUp(t.ofPages(t.Size(24, 8)+1, 512))
		}},
		{"rows at once", "submeshes that are apart carry out collectives at the same time", meshRows},
		{"same bits again", "a sum of floats has the same bits every time, on every chip", sameBits},
		{"collectives replayed", "collectives in a trace begin anew at each replay", meshReplayed},
		{"work between collectives", "a program between two collectives works on its chip's slice", func(t *T) {
			b := t.Linked()
			scatter, gather := t.halves(b)
			tr := t.recorded(scatter, t.Loaded(t.adder(b, b, Add(7))), gather)
			t.Replay(tr)
			t.Wait()
			sums := t.sums(b.Size())
			t.All("sum and 7", b, rig.MakeWords(b.Size(), func(i int) uint32 { return rig.Word(sums[4*i:]) + 7 }))
			t.Release(tr)
		}},
		{"late chip", "chips that are ready wait for a late one, and the result is the same", meshLate},
		{"links of another core", "any worker can drive the links", otherCore},
		{"capture refuses", "a mesh refuses in a capture what a chip refuses", captureRefuses},
		{"empty trace", "a trace of nothing is refused", func(t *T) {
			_, err := t.Record("nothing", func(*mesh.Recorder) error { return nil })
			t.Fails("nothing was recorded", err, reprise.ErrEmptyTrace)
		}},
		{"foreign objects", "objects of one mesh are refused by another, also by its submesh", func(t *T) {
			in, _, x := t.setUp()
			sub, err := t.Mesh.Submesh(mesh.Range{})
			t.OK(err)
			t.AllFail(mesh.ErrWrongMesh, map[string]error{
				"write": sub.Queue(0).Write(t.Ctx, in, make([]byte, in.Size())),
				"run":   sub.Queue(0).Run(t.Ctx, x),
				"event": sub.Queue(0).Record(t.Ctx, t.Mesh.NewEvent("e")),
			})
		}},
	}.Shared(), Rows{
		{"closed", "a closed mesh refuses everything but Close", func(t *T) {
			in, _, x := t.setUp()
			t.OK(t.Mesh.Close(t.Context()))
			t.OK(t.Mesh.Close(t.Context()))
			t.AllFail(mesh.ErrClosed, map[string]error{
				"write": t.Queue.Write(t.Ctx, in, make([]byte, in.Size())), "run": t.Queue.Run(t.Ctx, x), "finish": t.Queue.Wait(t.Ctx),
			})
		}},
	}.own(0), Rows{
		{"lost packets", "packets that a link loses change no result", disturbed(anyChip, "link-drop=%s/3")},
		{"late and double packets", "packets that a link delays or repeats change no result", disturbed(anyChip, "link-delay=%s/3", "link-duplicate=%s/2")},
		{"link down", "a collective over a dead link hangs with all chips' state, and works after a recovery", linkDown},
		{"card lost", "the error of a lost card lists every chip, and the others still replay", cardLost},
		{"link down in the middle", "a link that goes down never makes a wrong result", downInTheMiddle},
		{"card lost in the middle", "a card that is lost during replays ends them with the state of every chip", lostInTheMiddle},
		{"slow links", "one chip whose packets all come late delays the others and changes nothing", disturbed(func(chip int) bool { return chip == 0 }, "link-delay=%s")},
	}.own(rig.NeedEmulator))
	cs.Add("one chip hangs", "a hang names its chip, and the others work on", OnOwnMesh(oneHangs)).Needs = rig.NeedSimulator
	return cs
}

// T is a mesh with what cases need of it.
type T struct {
	*rig.T
	machine *target.Linked
	Mesh    *mesh.Mesh
	Queue   *mesh.Queue
	Links   *mesh.Links // of those that ask for them
}

type meshed struct {
	machine *target.Linked
	mesh    *mesh.Mesh
}

func (m *meshed) Close(ctx context.Context) error {
	return errors.Join(m.mesh.Close(ctx), m.machine.Close())
}

func onMachine(t *rig.T, m *meshed) *T {
	return &T{T: t, machine: m.machine, Mesh: m.mesh, Queue: m.mesh.Queue(0)}
}

// openMesh opens a mesh of the device's machine, of four emulated chips, or of the library's
// cards.
func openMesh(t *rig.T, opts ...reprise.Option) *meshed {
	if t.Shared.Alone != "" {
		t.Skip(t.Shared.Alone)
	}
	spec := chip.QuietBox()
	if t.Device.Arch == chip.Wormhole {
		spec = chip.T3000() // whose chips with PCI interfaces are a square
	}
	m, err := t.Device.Linked(spec)
	t.OK(err)
	if m == nil {
		t.Skip("needs a machine of several chips: an emulator, or a build of the vendor's simulator with several")
	}
	var shapes []mesh.Shape
	if named := t.Device.Machine(); named != nil {
		shapes = append(shapes, named.Shape[:])
	}
	if len(m.Cards) == 1 { // of which a chip may be remote
		shapes = append(shapes, mesh.Shape{1, 2})
	}
	if len(m.Cards) == 4 {
		if m.Emulated == nil { // of which each may have a remote chip
			shapes = append(shapes, mesh.Shape{2, 4})
		}
		shapes = append(shapes, mesh.Shape{2, 2})
	}
	if len(m.Cards) == 8 || len(m.Cards) == 32 {
		shapes = append(shapes, mesh.Shape{len(m.Cards) / 8 * 2, 4}, mesh.Shape{len(m.Cards) / 4, 4})
	}
	shapes = append(shapes, mesh.Shape{1, len(m.Cards)}, mesh.Shape{1, min(2, len(m.Cards))})
	all := []mesh.Option{mesh.WithDevice(slices.Concat(t.Config.Firmware.Options(), []reprise.Option{reprise.WithHangTimeout(t.Patience())},
		opts)...)}
	for _, s := range shapes[1:] {
		all = append(all, mesh.OrShape(s))
	}
	open, err := mesh.Open(t.Ctx, mesh.Cards(m.Cards...), shapes[0], all...)
	if err != nil {
		_ = m.Close()
		t.OK(err)
	}
	if open.Size() < 2 {
		_ = errors.Join(open.Close(t.Context()), m.Close())
		t.Shared.Alone = "needs a machine of several chips, and this one has one that a mesh can have"
		t.Skip(t.Shared.Alone)
	}
	return &meshed{m, open}
}

// Start runs a program on the mesh without waiting for its end.
func (t *T) Start(x *mesh.Executable) {
	t.OK(t.Queue.Run(t.Ctx, x))
}

// by is the case on another queue.
func (t *T) by(q *mesh.Queue) *T {
	u := *t
	u.Queue = q
	return &u
}

// Write writes to a buffer of all chips.
func (t *T) Write(b *mesh.Buffer, data []byte) {
	t.OK(t.Queue.Write(t.Ctx, b, data))
}

// count writes words that count up from first to a buffer of all chips.
func (t *T) count(b *mesh.Buffer, first uint32) {
	t.Write(b, Counting(b.Size(), first))
}

// added allocates a buffer that counts up from 0, and records a program that adds 1 to its words.
func (t *T) added() (*mesh.Buffer, *reprise.Trace) {
	b := t.Pages("sum")
	t.count(b, 0)
	return b, t.recorded(t.Loaded(t.adder(b, b, Add(1))))
}

// Record records what a function does, without releasing the trace.
func (t *T) Record(name string, record func(*mesh.Recorder) error) (*reprise.Trace, error) {
	return t.Queue.Capture(t.Ctx, name, func(_ context.Context, r *mesh.Recorder) error { return record(r) })
}

// Trace records what a function does, and releases the trace with the case.
func (t *T) Trace(record func(*mesh.Recorder) error) *reprise.Trace {
	tr, err := t.Record("trace", record)
	t.OK(err)
	t.Later(tr.Release)
	return tr
}

// Wait waits for the queues of all chips.
func (t *T) Wait() {
	t.OK(t.Queue.Wait(t.Ctx))
}

// Later releases something at the end of a case that passes, as cases share memory.
func (t *T) Later(fn func(context.Context) error) {
	t.Cleanup(func() {
		if !t.Failed() {
			_ = fn(context.WithoutCancel(t.Ctx))
		}
	})
}

const meshPages = 4

// Pages is a buffer of a few pages of 64 B on every chip.
func (t *T) Pages(name string) *mesh.Buffer {
	return t.buffer(t.Mesh, allocator.DRAM, 64*meshPages, 64, name)
}

func (t *T) buffer(m *mesh.Mesh, k allocator.Kind, size, page int, name string) *mesh.Buffer {
	return t.bufferOf(m, mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: k, Size: size, PageSize: page, Name: name}})
}

func (t *T) bufferOf(m *mesh.Mesh, c mesh.BufferConfig) *mesh.Buffer {
	b, err := m.NewBuffer(c)
	t.OK(err)
	t.Later(func(context.Context) error { return b.Release() })
	return b
}

func (t *T) tensor(m *mesh.Mesh, dims, split []int) *mesh.Buffer {
	return t.bufferOf(m, mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64, Name: "tensor"},
		Tensor: dims, Unit: 4, Split: split})
}

func (t *T) comesBack(q *mesh.Queue, b *mesh.Buffer, data []byte) {
	got := make([]byte, len(data))
	t.OK(q.Write(t.Ctx, b, data), q.Read(t.Ctx, b, got))
	t.Same(data, got, "comes back")
}

// Put fills a chip's buffer with words that count up from first.
func (t *T) Put(c *mesh.Chip, b *mesh.Buffer, first uint32) {
	t.OK(t.Queue.On(c).Write(t.Ctx, b.On(c), 0, Counting(b.On(c).Size(), first)))
}

// Counting are words that count up from first.
func Counting(n int, first uint32) []byte {
	return rig.MakeWords(n, func(i uint32) uint32 { return first + i })
}

// ReadOn reads a chip's buffer.
func (t *T) ReadOn(c *mesh.Chip, b *mesh.Buffer) []byte {
	return t.T.ReadOn(t.Queue.On(c), b.On(c))
}

// Is checks what a buffer has on a chip.
func (t *T) Is(what string, c *mesh.Chip, b *mesh.Buffer, want []byte) {
	t.Same(want, t.ReadOn(c, b), "%s: chip %v", what, c.Coord)
}

// Are checks that buffers count up on each chip from a number of the chip's.
func (t *T) Are(what string, b *mesh.Buffer, first func(i uint32) uint32) {
	for _, c := range t.Mesh.Chips() {
		t.Is(what, c, b, Counting(b.Size(), first(t.Ordinal(c))))
	}
}

// All checks what a buffer has on every chip.
func (t *T) All(what string, b *mesh.Buffer, want []byte) {
	for _, c := range t.Mesh.Chips() {
		t.Is(what, c, b, want)
	}
}

// AllWords checks the words of a buffer on every chip.
func (t *T) AllWords(what string, b *mesh.Buffer, word func(i uint32) uint32) {
	t.All(what, b, rig.MakeWords(b.Size(), word))
}

// AllCount checks that a buffer counts up from first on every chip.
func (t *T) AllCount(what string, b *mesh.Buffer, first uint32) {
	t.All(what, b, Counting(b.Size(), first))
}

// adder adds a number of the chip's to what is in a buffer.
func (t *T) adder(in, out *mesh.Buffer, add func(*mesh.Chip) uint32) mesh.Part {
	return t.AdderAt(chip.Core{X: 1, Y: 1}, in, out, add)
}

// AdderAt is adder on one worker of each chip.
func (t *T) AdderAt(at chip.Core, in, out *mesh.Buffer, add func(*mesh.Chip) uint32) mesh.Part {
	return mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		return rig.Adding(c.Device.Arch(), "add", at, in.On(c), out.On(c), add(c))
	}}
}

// Ordinal is a number of a chip.
func (t *T) Ordinal(c *mesh.Chip) uint32 {
	i, _ := t.Mesh.Shape().Index(c.Coord)
	return uint32(i)
}

// Loaded loads parts and releases them with the case.
func (t *T) Loaded(parts ...mesh.Part) *mesh.Executable {
	return t.Prepared(t.Mesh.Load(t.Ctx, "add", parts...))
}

func (t *T) setUp() (in, out *mesh.Buffer, x *mesh.Executable) {
	in, out = t.Pages("in"), t.Pages("out")
	t.count(in, 1)
	t.Write(out, make([]byte, out.Size()))
	return in, out, t.Loaded(t.adder(in, out, func(c *mesh.Chip) uint32 { return 100 * (1 + t.Ordinal(c)) }))
}

// setUpSum is what the program of setUp writes on a chip, from the first word on.
func setUpSum(i uint32) uint32 { return 101 + 100*i }

// Running records programs.
func Running(r *mesh.Recorder, xs ...*mesh.Executable) func() error {
	return func() error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

func (t *T) recorded(xs ...*mesh.Executable) *reprise.Trace {
	return t.Trace(func(r *mesh.Recorder) error { return Running(r, xs...)() })
}

// Only is the range of one chip.
func Only(c *mesh.Chip) mesh.Range { return mesh.Range{Start: c.Coord, End: c.Coord} }

func (t *T) onlyOn(at *mesh.Chip, b *mesh.Buffer, first uint32) {
	for _, c := range t.Mesh.Chips() {
		want := make([]byte, b.Size())
		if c == at {
			want = Counting(b.Size(), first)
		}
		t.Is("out", c, b, want)
	}
}

// On is the part of a trace on some chips.
func (t *T) On(tr *reprise.Trace, r mesh.Range) *reprise.Trace {
	qs, err := t.Queue.In(r)
	t.OK(err)
	part, err := tr.Subset(qs...)
	t.OK(err)
	return part
}

func meshNeighbours(t *T) {
	s := t.Mesh.Shape()
	for _, c := range t.Mesh.Chips() {
		for a := range s {
			next := append(mesh.Coord{}, c.Coord...)
			if next[a]++; next[a] < s[a] && !t.Mesh.Linked(c.Coord, next) {
				t.Errorf("%v and %v aren't linked", c.Coord, next)
			}
		}
	}
}

func oneAddress(t *T) {
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		for i := range 5 {
			b := t.buffer(t.Mesh, k, 64<<i, 64, "b")
			for _, c := range t.Mesh.Chips() {
				rig.Equal(t, b.On(c).Addr(), b.Addr(), "address on chip %v", c.Coord)
			}
			t.OK(t.Mesh.InStep(k))
		}
	}
}

func submeshMemory(t *T) {
	sub, err := t.Mesh.Submesh(Only(t.Mesh.Chips()[0]))
	t.OK(err)
	one := t.buffer(sub, allocator.DRAM, 64, 64, "one")
	all := t.buffer(t.Mesh, allocator.DRAM, 64, 64, "all")
	if one.Addr() == all.Addr() {
		t.Errorf("both are at %#x", one.Addr())
	}
	if t.Mesh.InStep(allocator.DRAM) == nil {
		t.Error("chips with different buffers are in step")
	}
	t.OK(one.Release(), all.Release())
	t.OK(t.Mesh.InStep(allocator.DRAM))
}

func meshReshaped(t *T) {
	line, err := t.Mesh.Reshape(mesh.Shape{t.Mesh.Size()})
	t.OK(err)
	b := t.Pages("b")
	for i, c := range line.Chips() {
		t.Put(c, b, uint32(100*i))
	}
	for i, c := range line.Chips() {
		t.Is("reshaped", c, b, Counting(b.Size(), uint32(100*i)))
	}
	if other := t.buffer(line, allocator.DRAM, b.Size(), 64, "other"); other.Addr() == b.Addr() {
		t.Errorf("both shapes gave %#x away", b.Addr())
	}
}

func outOfMemory(t *T) {
	before := t.Pages("before")
	t.Free(before)
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		c := mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: k, Size: 1 << 40, PageSize: 1 << 12, Name: "huge"}}
		if _, err := t.Mesh.NewBuffer(c); !errors.Is(err, reprise.ErrOutOfMemory) {
			t.Errorf("%v: %v", k, err)
		}
		t.OK(t.Mesh.InStep(k))
	}
	after := t.Pages("after")
	rig.Equal(t, after.Addr(), before.Addr(), "address of the next buffer")
	t.Free(after)
	t.Fails("a write to what was freed", t.Queue.Write(t.Ctx, after, make([]byte, after.Size())), reprise.ErrReleased)
}

func submeshTensor(t *T) {
	whole := t.Pages("whole")
	t.count(whole, 9)
	s := t.Mesh.Shape()
	sub, err := t.Mesh.Submesh(mesh.Range{Start: mesh.Coord{s[0] - 1, 0}, End: mesh.Coord{s[0] - 1, s[1] - 1}})
	t.OK(err)
	b := t.tensor(sub, []int{1, 16 * s[1]}, nil)
	t.comesBack(sub.Queue(0), b, Counting(64*s[1], 100))
	t.AllCount("whole", whole, 9)
	t.Free(b)
}

func meshShapes(t *T) {
	s := t.Mesh.Shape()
	t.AllFail(mesh.ErrShape, map[string]error{
		"a part that reaches beyond": rig.Error(t.Mesh.Submesh(mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{s[0], s[1]}})),
		"parts that are too large":   rig.Error(t.Mesh.Submeshes(mesh.Shape{s[0] + 1, 1})),
		"more places than chips":     rig.Error(t.Mesh.Reshape(mesh.Shape{t.Mesh.Size() + 1})),
	})
	_, err := mesh.Open(t.Ctx, mesh.Cards(t.machine.Cards...), mesh.Shape{1, 1000})
	if e := rig.As[*mesh.ShapeError](t, err); len(e.Possible) == 0 {
		t.Errorf("1000 chips: %v", err)
	}
}

func meshEvents(t *T) {
	_, out, x := t.setUp()
	e := t.Mesh.NewEvent("e")
	t.Start(x)
	t.OK(t.Queue.Record(t.Ctx, e))
	t.WaitFor(e)
	done, err := e.Query()
	t.OK(err)
	rig.Equal(t, done, true, "done")
	t.Are("out", out, setUpSum)
}

func meshTrace(t *T) {
	in, out, _ := t.setUp()
	tr := t.recorded(t.Loaded(t.adder(in, out, Add(20))))
	n, _ := tr.Streams()
	rig.Equal(t, n, 1, "streams of commands")
	for i := range uint32(4) {
		t.count(in, i)
		t.Replay(tr)
	}
	t.AllCount("out", out, 23)
}

func traceParam(t *T) {
	_, out, x := t.setUp()
	tr := t.Trace(func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Param(x, "pages", reprise.Arg{Kernel: "reader", Index: 1}))
	})
	t.OK(tr.Set("pages", 0))
	t.Replay(tr)
	t.Wait()
	t.Are("out", out, setUpSum)
	t.Fails("no such parameter", tr.Set("none", 0), reprise.ErrNoParam)
}

func submeshTraces(t *T) {
	in, out, _ := t.setUp()
	one := make(mesh.Shape, len(t.Mesh.Shape()))
	for i := range one {
		one[i] = 1
	}
	subs, err := t.Mesh.Submeshes(one)
	t.OK(err)
	var traces []*reprise.Trace
	for i, sub := range subs {
		x := t.Prepared(sub.Load(t.Ctx, "add", t.adder(in, out, Add(uint32(50+i)))))
		traces = append(traces, t.by(sub.Queue(0)).recorded(x))
	}
	for range 3 {
		for _, tr := range traces {
			t.Replay(tr)
		}
	}
	t.Wait()
	t.Are("out", out, func(i uint32) uint32 { return 51 + i })
}

func manyTraces(t *T) {
	in, out, _ := t.setUp()
	before := t.fingerprint()
	var traces []*reprise.Trace
	var xs []*mesh.Executable
	for i := range uint32(4) {
		xs = append(xs, t.Loaded(t.adder(in, out, Add(10*i))))
		traces = append(traces, t.recorded(xs[i]))
	}
	for _, i := range []int{2, 0, 3, 1} {
		t.Replay(traces[i])
		t.Wait()
		t.AllCount("out", out, uint32(10*i+1))
		t.Release(traces[i])
		t.Release(xs[i])
	}
	t.nothingLeft(before)
}

func (t *T) fingerprint() uint64 { return t.Mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) }

// nothingLeft checks that the chips are in step, and as much is allocated as before.
func (t *T) nothingLeft(before uint64) {
	t.OK(t.Mesh.InStep(allocator.DRAM))
	rig.Equal(t, t.fingerprint(), before, "fingerprint of what is allocated")
}

func meshSkew(t *T) {
	_, _, x := t.setUp()
	tr := t.recorded(x)
	s, err := t.Mesh.Skew(t.Ctx, tr)
	t.OK(err)
	if len(s.Chips) != t.Mesh.Size() || s.Spread < 0 || s.Spread > time.Minute {
		t.Errorf("%d chips within %v", len(s.Chips), s.Spread)
	}
	if !slices.ContainsFunc(s.Chips, func(c mesh.ChipTime) bool { return c.After == 0 }) {
		t.Errorf("no chip was the first: %+v", s.Chips)
	}
}

// Add is a number for Adder that is the same on all chips.
func Add(n uint32) func(*mesh.Chip) uint32 { return func(*mesh.Chip) uint32 { return n } }

func bufferParam(t *T) {
	in, out, x := t.setUp()
	other := t.Pages("other")
	t.count(other, 5000)
	tr := t.Trace(func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer(x, "in", in, reprise.Arg{Kernel: "reader", Index: 0}))
	})
	for _, from := range []struct {
		b     *mesh.Buffer
		first uint32
	}{{other, 5000}, {in, 1}, {other, 5000}} {
		t.OK(tr.SetBuffer("in", from.b.All()...))
		t.Replay(tr)
		t.Are(from.b.Name(), out, func(i uint32) uint32 { return from.first + 100*(1+i) })
	}
	t.Release(tr)
}

func meshCallers(t *T) {
	const callers = 4
	bufs := make([]*mesh.Buffer, callers)
	for i := range bufs {
		bufs[i] = t.Pages(fmt.Sprintf("caller %d", i))
	}
	errs := make([]error, callers)
	rounds := t.Size(10, 2)
	var wg sync.WaitGroup
	for i, b := range bufs {
		wg.Go(func() {
			for round := range rounds {
				want := Counting(b.Size(), uint32(1000*i+round))
				err := t.Queue.Write(t.Ctx, b, want)
				for _, c := range t.Mesh.Chips() {
					got := make([]byte, b.Size())
					if err = errors.Join(err, t.Queue.On(c).Read(t.Ctx, b.On(c), 0, got)); err == nil && !bytes.Equal(got, want) {
						err = fmt.Errorf("chip %v has % x, want % x", c.Coord, got[:8], want[:8])
					}
				}
				if err != nil {
					errs[i] = fmt.Errorf("caller %d, round %d: %w", i, round, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.OK(errs...)
}

func partsInTurn(t *T) {
	b, tr := t.added()
	chips := t.Mesh.Chips()
	for round := range 3 {
		for k := range chips {
			c := chips[(k*3+round)%len(chips)]
			if len(chips)%3 == 0 {
				c = chips[(k+round)%len(chips)]
			}
			t.Replay(t.On(tr, Only(c)))
		}
	}
	t.AllCount("sum", b, 3)
	t.Release(tr)
}

func twoQueues(t *T) {
	in, mid, out := t.Pages("in"), t.Pages("mid"), t.Pages("out")
	first, second := t.Loaded(t.adder(in, mid, Add(10))), t.Loaded(t.adder(mid, out, Add(100)))
	q := [2]*mesh.Queue{t.Mesh.Queue(0), t.Mesh.Queue(1)}
	done, read := t.Mesh.NewEvent("done"), t.Mesh.NewEvent("read")
	for round := range uint32(4) {
		t.by(q[0]).count(in, round)
		if round > 0 {
			t.OK(q[0].WaitEvent(t.Ctx, read))
		}
		t.OK(q[0].Run(t.Ctx, first), q[0].Record(t.Ctx, done))
		t.OK(q[1].WaitEvent(t.Ctx, done), q[1].Run(t.Ctx, second), q[1].Record(t.Ctx, read))
		t.WaitFor(read)
		t.by(q[1]).AllCount(fmt.Sprintf("round %d", round), out, round+110)
	}
}

func (t *T) corner(q int) chip.Core {
	return t.Mesh.Queue(q).On(t.Mesh.Chips()[0]).Workers().Start
}

func twoTraces(t *T) {
	var bufs [2]*mesh.Buffer
	var traces [2]*reprise.Trace
	for i := range bufs {
		b, on := t.Pages(fmt.Sprintf("queue %d", i)), t.by(t.Mesh.Queue(i))
		on.count(b, 0)
		traces[i] = on.recorded(t.Loaded(t.AdderAt(t.corner(i), b, b, Add(uint32(i+1)))))
		bufs[i] = b
	}
	for range 10 {
		for _, tr := range traces {
			t.Replay(tr)
		}
	}
	t.WaitFor(t.Mesh.Queue(1))
	for i, b := range bufs {
		t.AllCount(b.Name(), b, uint32(10*(i+1)))
	}
}

func spanning(t *T) {
	in, mid, out := t.Pages("in"), t.Pages("mid"), t.Pages("out")
	qs := []*mesh.Queue{t.Mesh.Queue(0), t.Mesh.Queue(1)}
	capture := func(name string, record func(rs []*mesh.Recorder) error) (*reprise.Trace, error) {
		return qs[0].Capture(t.Ctx, name, func(_ context.Context, r *mesh.Recorder) error {
			return record([]*mesh.Recorder{r, r.Queue(qs[1])})
		}, qs[1])
	}
	first, second := t.Loaded(t.AdderAt(t.corner(0), in, mid, Add(10))), t.Loaded(t.AdderAt(t.corner(1), mid, out, t.Ordinal))
	done := t.Mesh.NewEvent("done")
	record := func(rs []*mesh.Recorder) error {
		return errors.Join(rs[0].Run(first), rs[0].Record(done), rs[1].WaitEvent(done), rs[1].Run(second))
	}
	before := t.fingerprint()
	tr, err := capture("both", record)
	t.OK(err)
	for round := range uint32(4) {
		t.count(in, 50*round)
		t.Replay(tr)
		t.WaitFor(qs[1])
		t.Are("out", out, func(i uint32) uint32 { return 50*round + 10 + i })
	}
	t.Release(tr)
	t.AllFail(reprise.ErrReleased, map[string]error{"released twice": tr.Release(t.Ctx), "replayed after its release": tr.Replay(t.Ctx)})
	t.nothingLeft(before)
	_, err = t.Record("one", func(r *mesh.Recorder) error { return errors.Join(r.Run(first), r.Record(done)) })
	t.Fails("an edge in a trace on one queue of each chip", err, reprise.ErrInCapture)
	if _, err := qs[0].Capture(t.Ctx, "twice", func(context.Context, *mesh.Recorder) error { return nil }, qs[0]); err == nil {
		t.Error("a queue is in a capture twice")
	}
	part := errors.New("not today")
	t.Fails("given up", rig.Error(capture("given up", func([]*mesh.Recorder) error { return part })), part)
	t.nothingLeft(before)
}
