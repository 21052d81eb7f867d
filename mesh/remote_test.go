package mesh_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func TestFarChips(t *testing.T) {
	for _, tt := range []struct {
		make  func(...sim.Option) *sim.Machine
		shape mesh.Shape
		far   int
	}{
		{sim.N300, mesh.Shape{1, 2}, 1},
		{sim.T3000, mesh.Shape{2, 4}, 4},
		{sim.T3000, mesh.Shape{2, 2}, 0},
	} {
		if tt.shape.Size() > effort.Of(4, 8, 8) {
			continue
		}
		m := tt.make()
		t.Run(m.String()+"/"+tt.shape.String(), func(t *testing.T) {
			start := time.Now()
			b := open(t, m, tt.shape)
			t.Logf("open in %v", time.Since(start))
			far := 0
			for _, c := range b.mesh.Chips() {
				if c.Remote {
					far++
				}
			}
			if far != tt.far {
				t.Errorf("%d chips without a PCI interface, want %d", far, tt.far)
			}
			proof(b)
			if !testing.Short() && b.mesh.Size() == 2 {
				newGroup(b, 3, 64).all(1)
			}
			start = time.Now()
			b.must(b.mesh.Close(t.Context()))
			t.Logf("close in %v", time.Since(start))
			for i := range m.Spec().Chips {
				if err := m.Chip(i).Fault(); err != nil {
					t.Errorf("chip %d: %v", i, err)
				}
			}
		})
	}
}

type farPair struct {
	*bench
	machine   *sim.Machine
	near, far *mesh.Chip
	in, out   *mesh.Buffer
	add       *mesh.Executable
}

func openPair(t *testing.T, opts ...sim.Option) *farPair {
	t.Helper()
	p := &farPair{machine: sim.N300(opts...)}
	p.bench = open(t, p.machine, mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithHangTimeout(2*time.Second)))
	p.near, p.far = p.mesh.Chip(0, 0), p.mesh.Chip(0, 1)
	if p.near.Remote || !p.far.Remote {
		t.Fatal("want the local chip first")
	}
	p.in, p.out = p.pages("in", 4), p.pages("out", 4)
	p.add = p.load("add", p.adder("add", p.in, p.out, always(3)))
	return p
}

func (p *farPair) works(c *mesh.Chip, first uint32) {
	p.Helper()
	p.must(p.queue.On(c).Write(p.ctx, p.in.On(c), 0, words(p.in.Size(), first)))
	p.must(p.queue.On(c).Run(p.ctx, p.add.On(c)))
	p.holds(c, p.out, first+3)
}

func TestFarLinkGoesDown(t *testing.T) {
	effort.Long(t)
	p := openPair(t)
	p.works(p.far, 1)
	p.must(p.machine.SetLink(0, 9, false))
	p.must(p.queue.On(p.far).Run(p.ctx, p.add.On(p.far)))
	err := p.queue.Wait(p.ctx)
	var hang *dispatch.HangError
	var e *mesh.Error
	if !errors.As(err, &hang) || !errors.As(err, &e) || !errors.Is(err, kmd.ErrLinkDown) ||
		!strings.Contains(err.Error(), "link 0000:01:00.0 eth9 - ") {
		t.Fatalf("with the link down: %v", err)
	}
	p.works(p.near, 5)
	p.must(p.machine.SetLink(0, 9, true))
	p.must(p.far.Device.Recover(p.ctx))
	p.works(p.far, 9)
	p.works(p.near, 11)
}

func TestAllFarLinksGoDown(t *testing.T) {
	p := openPair(t)
	p.must(errors.Join(p.machine.SetLink(0, 8, false), p.machine.SetLink(0, 9, false)))
	p.must(p.queue.On(p.far).Run(p.ctx, p.add.On(p.far)))
	err := p.queue.On(p.far).Wait(p.ctx)
	if !errors.Is(err, kmd.ErrLinkDown) {
		t.Fatalf("with all links down: %v", err)
	}
	p.works(p.near, 5)
	p.must(errors.Join(p.machine.SetLink(0, 8, true), p.machine.SetLink(0, 9, true)))
	p.must(p.far.Device.Recover(p.ctx))
	p.works(p.far, 9)
}

func TestFarChipHangs(t *testing.T) {
	effort.Long(t)
	p := openPair(t)
	im := value(kernels.Prebuilt(p.far.Device.Arch(), kernels.Spin))(p)
	x, err := p.far.Device.Load(p.ctx, &reprise.Program{Name: "spin", Kernels: []reprise.Kernel{{
		Name: "spin", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(2, 3)},
		Args: func(chip.Core) []uint32 { return []uint32{0x100000, 1} },
	}}})
	p.must(err)
	p.must(p.queue.On(p.far).Run(p.ctx, x))
	var hang *dispatch.HangError
	if err := p.queue.On(p.far).Wait(p.ctx); !errors.As(err, &hang) || len(hang.Cores) == 0 || errors.Is(err, kmd.ErrLinkDown) {
		t.Fatalf("a far kernel hangs: %v", err)
	}
	p.works(p.near, 5)
	p.must(p.far.Device.Recover(p.ctx))
	p.works(p.far, 9)
}

func TestFarChipBehindBadLink(t *testing.T) {
	effort.Long(t)
	p := openPair(t)
	for _, f := range []string{"link-delay=0:9/3", "link-delay=1:1/3", "link-duplicate=0:9/2", "link-duplicate=1:1/2", "link-drop=0:9/4",
		"link-drop=1:1/4"} {
		p.must(p.machine.Inject(f))
	}
	for i := range uint32(20) {
		p.works(p.far, i)
	}
	data := words(300<<10, 7)
	buf := value(p.far.Device.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: len(data), PageSize: 2048}))(p)
	p.must(p.queue.On(p.far).Write(p.ctx, buf, 0, data))
	got := make([]byte, len(data))
	p.must(p.queue.On(p.far).Read(p.ctx, buf, 0, got))
	if string(got) != string(data) {
		t.Error("other bytes came back than were sent")
	}
}

func TestFarChipIsQuietWhenClosed(t *testing.T) {
	effort.Long(t)
	p := openPair(t)
	p.works(p.far, 3)
	p.must(p.mesh.Close(t.Context()))
	near := value(kmd.Open(p.ctx, p.machine.Card(0)))(p)
	defer near.Close()
	if v, err := near.Read32(chip.XY{X: 1, Y: 6}, 0x9004); err != nil || v != 0 {
		t.Errorf("the Ethernet tile's launch flag is %d, %v", v, err)
	}
	b := openCards(t, mesh.Cards(p.machine.Cards()...), mesh.Shape{1, 2})
	b.wait()
}
