package machines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/mesh"
)

// Linked prepares the links, and a buffer that has other data on every chip.
func (t *T) Linked() *mesh.Buffer {
	l := t.links(chip.Core{X: 2, Y: 2})
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Ctx)) }) // it may be closed, or what it is on
	b := t.Pages("data")
	t.putAll(b)
	return b
}

func (t *T) links(on chip.Core) (l *mesh.Links) {
	l, err := t.Mesh.NewLinks(t.Ctx, on)
	t.OK(err)
	t.Links = l
	return l
}

// putAll fills a buffer with the number of each chip of the line.
func (t *T) putAll(b *mesh.Buffer) {
	for i, c := range t.Links.Line() {
		t.Put(c, b, 1000*uint32(i+1))
	}
}

// Prepared takes what was loaded, and releases it with the case.
func (t *T) Prepared(x *mesh.Executable, err error) *mesh.Executable {
	t.OK(err)
	t.Later(x.Release)
	return x
}

// AllReduce prepares one.
func (t *T) AllReduce(b *mesh.Buffer, how mesh.Combine) *mesh.Executable {
	return t.Prepared(t.Links.AllReduce(t.Ctx, b, how))
}

// AllSum prepares an all_reduce that adds integers.
func (t *T) AllSum(b *mesh.Buffer) *mesh.Executable {
	return t.AllReduce(b, mesh.SumInt32)
}

// halves prepares an AllSum in two.
func (t *T) halves(b *mesh.Buffer) (scatter, gather *mesh.Executable) {
	return t.Prepared(t.Links.ReduceScatter(t.Ctx, b, mesh.SumInt32)), t.Prepared(t.Links.AllGather(t.Ctx, b))
}

func (t *T) addsUp(b *mesh.Buffer) {
	t.carryOut(t.AllSum(b), nil)
	t.All("sum", b, t.sums(b.Size()))
}

func (t *T) carryOut(x *mesh.Executable, err error) {
	t.Start(t.Prepared(x, err))
	t.Wait()
}

func (t *T) sums(n int) []byte {
	chips := uint32(t.Mesh.Size())
	return rig.MakeWords(n, func(i uint32) uint32 { return 1000*chips*(chips+1)/2 + chips*i })
}

// ofPages is a buffer with words of its own on every chip of the line.
func (t *T) ofPages(n, page int) *mesh.Buffer {
	b := t.buffer(t.Mesh, allocator.DRAM, n*page, page, "pages")
	t.putAll(b)
	return b
}

func allPairs(t *T) {
	b := t.Linked()
	line := t.Links.Line()
	for i, from := range line {
		for j, to := range line {
			if i == j || len(line) > 8 && (i+j)%len(line) != len(line)/3 {
				continue
			}
			for k, c := range line {
				t.Put(c, b, uint32(1000*k))
			}
			x, err := t.Links.Send(t.Ctx, b, from, to)
			t.carryOut(x, err)
			t.Release(x)
			for k, c := range line {
				want := k
				if k == j {
					want = i
				}
				t.Is("send", c, b, Counting(b.Size(), uint32(1000*want)))
			}
		}
	}
}

func meshUneven(t *T) {
	t.Linked()
	for _, pages := range []int{1, 3, 2*t.Mesh.Size() + 1} {
		b := t.ofPages(pages, 64)
		t.carryOut(t.Links.ReduceScatter(t.Ctx, b, mesh.SumInt32))
		want := t.sums(b.Size())
		for _, c := range t.Links.Line() {
			first, count := t.Links.Slice(b, c)
			got := t.T.On(t.Queue.On(c)).ReadAt(b.On(c), 64*first, 64*count)
			t.Same(want[64*first:64*(first+count)], got, "%d pages: slice of chip %v", pages, c.Coord)
		}
	}
}

// floats checks an all_reduce in pages that no count of chips divides, so that the order is the
// line's.
func floats(how mesh.Combine, value func(chip, word int) uint32, sum func(a, b uint32) uint32) func(*T) {
	return func(t *T) {
		t.Linked()
		b := t.ofPages(1, 256)
		want := rig.MakeWords(b.Size(), func(w int) uint32 {
			v := value(0, w)
			for i := 1; i < t.Mesh.Size(); i++ {
				v = sum(v, value(i, w))
			}
			return v
		})
		t.putWords(b, value)
		t.carryOut(t.Links.AllReduce(t.Ctx, b, how))
		t.All("sum", b, want)
	}
}

func (t *T) putWords(b *mesh.Buffer, value func(chip, word int) uint32) {
	for i, c := range t.Links.Line() {
		t.OK(t.Queue.On(c).Write(t.Ctx, b.On(c), 0, rig.MakeWords(b.Size(), func(w int) uint32 { return value(i, w) })))
	}
}

func anyFloat(chip, word int) float32 {
	x := float64((word*2654435761+chip*40503)%10007) - 5000
	return float32(x * math.Pow(2, float64((word+3*chip)%40-20)))
}

// bits and float turn float32 into words and back.
var bits, float = math.Float32bits, math.Float32frombits

// bFloats checks an all_reduce of words that are two bfloat16 each.
func bFloats(how mesh.Combine, of func(a, b float32) float32) func(*T) {
	narrow := func(f float32) uint32 {
		v := bits(f)
		return (v + 0x7FFF + v>>16&1) >> 16
	}
	return floats(how, func(c, w int) uint32 { return narrow(anyFloat(c, 2*w)) | narrow(anyFloat(c, 2*w+1))<<16 },
		func(a, b uint32) uint32 {
			return narrow(of(float(a<<16), float(b<<16))) | narrow(of(float(a&^0xFFFF), float(b&^0xFFFF)))<<16
		})
}

func meshLayer(t *T) {
	b := t.Linked()
	in := t.Pages("in")
	partial := t.Loaded(t.adder(in, b, func(c *mesh.Chip) uint32 { return t.Ordinal(c) }))
	tr := t.recorded(partial, t.AllSum(b))
	chips := uint32(t.Mesh.Size())
	for round := range uint32(3) {
		t.count(in, round)
		t.Replay(tr)
		t.AllWords("layer", b, func(i uint32) uint32 { return chips*(round+i) + chips*(chips-1)/2 })
	}
}

// maximum has words of NaNs, infinities and zeros of both signs.
func maximum() func(*T) {
	const nan = 0x7FC00000
	odd := []uint32{0, 1 << 31, 0x7F800000, 0xFF800000, 1, 0x7F800001}
	value := func(c, w int) uint32 {
		if w < 36 {
			return odd[[]int{w % 6, w / 6}[c%2]]
		}
		return bits(anyFloat(c, w))
	}
	return floats(mesh.MaxFloat32, value, func(a, b uint32) uint32 {
		x, y := float(a), float(b)
		if x != x || y != y {
			return nan
		}
		return bits(max(x, y))
	})
}

func meshRows(t *T) {
	s := t.Mesh.Shape()
	along := mesh.Shape{1, s[1]}
	if s[1] == 1 {
		along = mesh.Shape{s[0], 1}
	}
	rows, err := t.Mesh.Submeshes(along)
	t.OK(err)
	type row struct {
		*T
		b *mesh.Buffer
		x *mesh.Executable
	}
	var all []row
	for _, m := range rows {
		r := row{T: &T{T: t.T, machine: t.machine, Mesh: m, Queue: m.Queue(0)}}
		r.b = r.Linked()
		r.x = r.AllSum(r.b)
		all = append(all, r)
	}
	for _, r := range all {
		t.OK(r.Queue.Run(t.Ctx, r.x))
	}
	for _, r := range all {
		t.WaitFor(r.Queue)
		r.All("sum of a row", r.b, r.sums(r.b.Size()))
	}
}

func sameBits(t *T) {
	t.Linked()
	b := t.ofPages(t.Mesh.Size(), 64) // so that a ring is used where there is one
	x := t.AllReduce(b, mesh.SumFloat32)
	var first []byte
	for range 3 {
		t.putWords(b, func(i, w int) uint32 { return bits(anyFloat(i, w)) })
		t.carryOut(x, nil)
		for _, c := range t.Links.Line() {
			if first == nil {
				first = t.ReadOn(c, b)
			}
			t.Is("bits of the first chip", c, b, first)
		}
	}
}

func meshReplayed(t *T) {
	b := t.Linked()
	tr := t.recorded(t.AllReduce(b, mesh.MaxInt32), t.Links.Barrier(), t.AllSum(b))
	chips := uint32(t.Mesh.Size())
	for round := range uint32(4) {
		for i, c := range t.Links.Line() {
			t.Put(c, b, 10*round+uint32(i))
		}
		t.Replay(tr)
		t.AllWords("sum of maxima", b, func(i uint32) uint32 { return chips * (10*round + chips - 1 + i) })
	}
	t.Release(tr)
}

func meshLate(t *T) {
	b := t.Linked()
	x := t.AllSum(b)
	work := t.Pages("work")
	n := uint32(t.Size(40, 5))
	for k, late := range []*mesh.Chip{t.Mesh.Chips()[0], t.Mesh.Chips()[t.Mesh.Size()-1]} {
		part := t.adder(work, work, Add(1))
		part.Range = Only(late)
		slow := t.Loaded(part)
		t.Write(work, make([]byte, work.Size()))
		t.putAll(b)
		for range n {
			t.Start(slow)
		}
		t.carryOut(x, nil)
		t.All("sum", b, t.sums(b.Size()))
		rig.Equal(t, rig.Word(t.ReadOn(late, work)), n, "round %d: work of the late chip", k)
	}
}

func otherCore(t *T) {
	for _, core := range []chip.Core{{}, {X: 5, Y: 3}} {
		t.links(core)
		b := t.ofPages(3, 64)
		x := t.AllSum(b)
		t.carryOut(x, nil)
		t.All("sum", b, t.sums(b.Size()))
		t.Release(x)
		t.Release(t.Links)
	}
}

func captureRefuses(t *T) {
	in, _, x := t.setUp()
	for what, f := range map[string]func(context.Context) error{
		"write":  func(ctx context.Context) error { return t.Queue.Write(ctx, in, make([]byte, in.Size())) },
		"finish": func(ctx context.Context) error { return t.Queue.Wait(ctx) },
		"run":    func(ctx context.Context) error { return t.Queue.Run(ctx, x) },
	} {
		_, err := t.Queue.Capture(t.Ctx, "refused", func(ctx context.Context, r *mesh.Recorder) error {
			_ = f(ctx)
			return r.Run(x)
		})
		t.Fails(what+" inside a capture", err, reprise.ErrInCapture)
	}
	t.Start(x)
	t.Wait()
}

func (t *T) setLinks(up bool) {
	for _, l := range t.machine.Emulated.Spec().Links {
		t.OK(t.machine.Emulated.SetLink(l.Chip, l.Channel, up))
	}
}

func (t *T) afterRecovery() {
	for _, c := range t.Mesh.Chips() {
		t.OK(c.Device.Recover(t.Ctx))
	}
	t.addsUp(t.Linked())
}

// OnChip is the case on one chip of the mesh.
func (t *T) OnChip(c *mesh.Chip) *rig.T {
	u := *t.T
	u.UseDevice(c.Device)
	u.Queue = t.Queue.On(c)
	return &u
}

// ofAllChips returns the error of a mesh, which lists every chip.
func (t *T) ofAllChips(err error) *mesh.Error {
	e := rig.As[*mesh.Error](t, err)
	rig.Equal(t, len(e.Chips), t.Mesh.Size(), "chips in the error")
	return e
}

// HungAlone waits for a hang of one chip alone.
func (t *T) HungAlone(stuck *mesh.Chip) *dispatch.HangError {
	err := t.Queue.Wait(t.Ctx)
	if e := rig.As[*mesh.Error](t, err); len(e.Failed()) != 1 || e.Failed()[0].Name != stuck.Name {
		t.Fatalf("chip %s hangs: %v", stuck.Name, err)
	}
	return t.Hung(err)
}

// disturb injects a fault into the links of some chips.
func (t *T) disturb(how string, of func(chip int) bool) {
	ends := 0
	for _, l := range t.machine.Emulated.Spec().Links {
		for _, end := range [][2]int{{l.Chip, l.Channel}, {l.PeerChip, l.PeerChannel}} {
			if of(end[0]) {
				t.OK(t.machine.Emulated.Inject(fmt.Sprintf(how, fmt.Sprintf("%d:%d", end[0], end[1]))))
				ends++
			}
		}
	}
	if ends == 0 {
		t.Error("the chips have no links")
	}
}

func anyChip(int) bool { return true }

func (t *T) collectives(b *mesh.Buffer) {
	for range 2 {
		t.putAll(b)
		t.addsUp(b)
	}
	root := t.Links.Line()[t.Mesh.Size()-1]
	t.Put(root, b, 77)
	t.carryOut(t.Links.Broadcast(t.Ctx, b, root))
	t.AllCount("broadcast", b, 77)
}

// disturbed carries out collectives after each of several faults of links of some chips.
func disturbed(of func(chip int) bool, faults ...string) func(*T) {
	return func(t *T) {
		b := t.Linked()
		for _, how := range faults {
			t.disturb(how, of)
			t.collectives(b)
		}
	}
}

// ownInterfaces skips unless every chip has a PCI interface: others are lost with the links.
func (t *T) ownInterfaces() {
	if n := len(t.machine.Cards); n < t.Mesh.Size() {
		t.Skipf("%d of %d chips are reached over links, and are lost with them", t.Mesh.Size()-n, t.Mesh.Size())
	}
}

// takeAway picks a card, and returns what unplugs it and the chips that are left then.
func (t *T) takeAway() (lost *mesh.Chip, unplug func() error, left []*mesh.Chip) {
	var cards []*mesh.Chip
	for _, c := range t.Mesh.Chips() {
		if !strings.Contains(c.Name, "/") {
			cards = append(cards, c)
		}
	}
	lost = cards[len(cards)-1]
	for _, c := range t.Mesh.Chips() {
		if c != lost && !strings.HasPrefix(c.Name, lost.Name+"/") {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		t.Skip("all chips are on one card")
	}
	drv, err := t.machine.Emulated.Driver()
	t.OK(err)
	return lost, func() error {
		for i, c := range t.machine.Emulated.Cards() {
			if c.String() == lost.Device.Name() {
				return drv.Unplug(i)
			}
		}
		return errors.New("there is no such card")
	}, left
}

// GivesUp opens the mesh with short waits.
func (t *T) GivesUp(soon, slow time.Duration) *mesh.Mesh {
	t.OK(t.Mesh.Close(t.Context()))
	if t.Device.Slow() {
		soon = slow
	}
	m, err := mesh.Open(t.Ctx, mesh.Cards(t.machine.Cards...), t.Mesh.Shape(), mesh.WithDevice(reprise.WithHangTimeout(soon)))
	t.OK(err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	t.Mesh, t.Queue = m, m.Queue(0)
	return m
}

func linkDown(t *T) {
	t.ownInterfaces()
	t.GivesUp(2*time.Second, 5*time.Second)
	b := t.Linked()
	x := t.AllSum(b)
	t.Wait()
	t.setLinks(false)
	t.Start(x)
	err := t.Queue.Wait(t.Ctx)
	t.Hung(err)
	t.ofAllChips(err)
	t.setLinks(true)
	t.afterRecovery()
}

func cardLost(t *T) {
	lost, unplug, left := t.takeAway()
	_, out, x := t.setUp()
	tr := t.recorded(x)
	t.Wait()
	t.OK(unplug())
	var failed error
	for range 100 {
		if failed = errors.Join(tr.Replay(t.Ctx), t.Queue.Wait(t.Ctx)); failed != nil {
			break
		}
	}
	t.Fails("with card "+lost.Name+" gone", failed, reprise.ErrDeviceLost)
	t.ofAllChips(failed)
	c := left[len(left)-1]
	t.OK(t.On(tr, Only(c)).Replay(context.WithoutCancel(t.Ctx)))
	t.Is("another chip", c, out, Counting(out.Size(), setUpSum(t.Ordinal(c))))
}

func downInTheMiddle(t *T) {
	t.ownInterfaces()
	b := t.Linked()
	x, sum := t.AllReduce(b, mesh.MaxInt32), t.AllSum(b)
	t.Wait()
	for range 8 {
		t.Start(x)
	}
	t.Start(sum)
	t.setLinks(false)
	short, cancel := context.WithTimeout(t.Ctx, 200*time.Millisecond)
	defer cancel()
	if err := t.Queue.Wait(short); err != nil {
		t.ofAllChips(err)
	}
	t.setLinks(true)
	long, cancel := context.WithTimeout(t.Ctx, 5*time.Second)
	defer cancel()
	if err := t.Queue.Wait(long); err != nil {
		// Packets on their way are lost; no chip took a wrong sum for a right one.
		t.afterRecovery()
		return
	}
	n := uint32(t.Mesh.Size())
	t.AllWords("sum of maxima", b, func(i uint32) uint32 { return n * (1000*n + i) })
}

func lostInTheMiddle(t *T) {
	lost, unplug, left := t.takeAway()
	b, tr := t.added()
	t.Wait()
	gone := make(chan error, 1)
	var failed error
	for i := 0; failed == nil && i < 1e6; i++ {
		if i == 20 {
			go func() { gone <- unplug() }()
		}
		failed = tr.Replay(t.Ctx)
		if failed != nil || i%16 == 15 {
			failed = errors.Join(failed, t.Queue.Wait(t.Ctx))
		}
	}
	t.OK(<-gone)
	t.Fails("with card "+lost.Name+" gone", failed, reprise.ErrDeviceLost)
	for _, s := range t.ofAllChips(failed).Failed() {
		if slices.ContainsFunc(left, func(c *mesh.Chip) bool { return c.Name == s.Name }) {
			t.Errorf("card %s is gone, and chip %s failed: %v", lost.Name, s.Name, s.Err)
		}
	}
	first := left[0]
	t.Put(first, b, 0)
	t.Replay(t.On(tr, Only(first)))
	t.Is("another chip", first, b, Counting(b.Size(), 1))
}

func oneHangs(t *T) {
	m := t.GivesUp(2*time.Second, 10*time.Second)
	_, out, x := t.setUp()
	stuck := m.Chips()[m.Size()-1]
	on := t.OnChip(stuck)
	on.Start(on.Load(on.Spin(on.PerWorker(16), chip.TRISC1, chip.Range{})))
	t.Start(x)
	t.HungAlone(stuck)
	for _, c := range m.Chips()[:m.Size()-1] {
		t.Is("another chip", c, out, Counting(out.Size(), setUpSum(t.Ordinal(c))))
	}
	t.OK(stuck.Device.Recover(t.Ctx))
	t.Start(x)
	t.Are("recovered", out, setUpSum)
}
