package deploy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

type rig struct {
	*testing.T
	ctx     context.Context
	dev     *reprise.Device
	q       *reprise.Queue
	network *digits.Network
	images  []digits.Image
}

func newRig(t *testing.T, target kmd.Target, atMost time.Duration) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx}
	var err error
	r.network, err = digits.Trained()
	r.must(err)
	r.images, err = digits.Images()
	r.must(err)
	r.dev, err = reprise.Open(ctx, target)
	r.must(err)
	t.Cleanup(func() { devtest.Must(t, r.dev.Close(context.WithoutCancel(ctx))) })
	r.q = r.dev.Queue(0)
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	var hang *dispatch.HangError
	if errors.As(err, &hang) {
		r.Log(hang.Detail())
	}
	devtest.Must(r.T, err)
}

func (r *rig) check(what string, dep *Deployment, images []digits.Image) {
	r.Helper()
	want := make([]digits.Page, len(images))
	for i, m := range images {
		want[i] = m.Page()
	}
	for i, l := range append(r.network.Layers(), nil) {
		got := make([]byte, len(images)*digits.PageBytes)
		r.must(r.q.Read(r.ctx, dep.Pages(i), 0, got))
		for k := range want {
			if diff := cmp.Diff(want[k][:], got[k*digits.PageBytes:][:digits.PageBytes]); diff != "" {
				r.Fatalf("%s: page %d before layer %d (-host +device):\n%s", what, k, i, diff)
			}
			if l != nil {
				want[k] = l.Forward(want[k])
			}
		}
	}
}

func agrees(t *testing.T, target kmd.Target) {
	r := newRig(t, target, 5*time.Minute)
	ctx, dev, q := r.ctx, r.dev, r.q
	allocated := func() map[allocator.Kind]uint64 {
		return map[allocator.Kind]uint64{
			allocator.DRAM: dev.Memory(allocator.DRAM).Allocated, allocator.L1: dev.Memory(allocator.L1).Allocated,
		}
	}
	before := allocated()
	if _, err := New(ctx, dev, r.network, 0, dev.Grid(), nil); !errors.Is(err, ErrCount) {
		t.Errorf("no images: error %v, want %v", err, ErrCount)
	}
	var perr *dispatch.ProgramError
	if _, err := New(ctx, dev, r.network, 1, chip.Grid(50, 50), nil); !errors.As(err, &perr) {
		t.Errorf("cores that the chip lacks: error %v, want a *ProgramError", err)
	}
	if diff := cmp.Diff(before, allocated()); diff != "" {
		t.Errorf("bytes of a bank allocated (-before +after a failed New):\n%s", diff)
	}

	// Six cores and 44 images: shares of seven and eight, so that lanes get different numbers of
	// pages and buffers wrap.
	const n = 44
	dep, err := New(ctx, dev, r.network, n, chip.Grid(3, 2), nil)
	r.must(err)
	write := func(images []digits.Image) { r.must(q.Write(ctx, dep.Pages(0), 0, Bytes(images, n))) }
	write(r.images[:n])
	r.must(dep.Run(ctx, q))
	r.check("first run", dep, r.images[:n])
	trace, err := q.Capture(ctx, "digits", dep.Record)
	r.must(err)
	write(r.images[100 : 100+n])
	r.must(trace.Replay(ctx))
	r.check("replay", dep, r.images[100:100+n])
	r.must(trace.Release(ctx))
	r.must(dep.Close(ctx))
	if diff := cmp.Diff(before, allocated()); diff != "" {
		t.Errorf("bytes of a bank allocated (-before +after Close):\n%s", diff)
	}
}

func TestVendorsSimulatorAgreesBitForBit(t *testing.T) {
	for _, library := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(library, func(t *testing.T) {
			agrees(t, ttsim.Library(ttsimtest.Path(t, library), ttsimtest.Server()))
		})
	}
}

type card struct{ node seam.Node }

func (c card) Node() seam.Node { return c.node }
func (c card) String() string  { return c.node.String() }

func emulated(t *testing.T, cfg emu.Config) kmd.Target {
	t.Helper()
	c, err := emu.New(cfg)
	devtest.Must(t, err)
	d, err := driver.New(driver.Config{Arch: cfg.Arch, Functions: []driver.Function{c}})
	devtest.Must(t, err)
	t.Cleanup(func() { devtest.Must(t, d.Close()) })
	return card{d.Node(0)}
}

// A page that is used before it has arrived shows as a wrong byte or as an error.
func TestEmulatorAgreesBitForBit(t *testing.T) {
	effort.Long(t)
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, cfg := range []emu.Config{
			{Arch: arch},
			{Arch: arch, Seed: 1, Delay: 20, RefuseUnwritten: true},
			{Arch: arch, Seed: 2, Delay: 300, RefuseUnwritten: true},
			{Arch: arch, Seed: 3, Delay: 3000},
			{Arch: arch, Seed: 4, Delay: 100, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true, RefuseCounters: true,
				DataCache: true},
			{Arch: arch, Harvesting: chip.Harvesting{Tensix: 0b101}},
		} {
			t.Run(fmt.Sprintf("%v seed %d delay %d harvested %b", arch, cfg.Seed, cfg.Delay, cfg.Harvesting.Tensix), func(t *testing.T) {
				agrees(t, emulated(t, cfg))
			})
		}
	}
}

// A core has more pages than its circular buffers hold, and layers run one after the other without
// a wait in between.
func TestStrict(t *testing.T) {
	// The fewest cores that a card can have: more take time and test nothing new.
	for arch, harvest := range map[chip.Arch]uint32{chip.Wormhole: 0x3FC, chip.Blackhole: 0x3FFC} {
		seeds := effort.Of[uint64](1, 2, 1000)
		if testing.Short() {
			seeds = 1 // for the race detector, which makes them slow
		}
		for seed := range seeds {
			t.Run(fmt.Sprintf("%v seed %d", arch, seed), func(t *testing.T) {
				r := newRig(t, emulated(t, emu.Config{
					Arch: arch, Seed: seed, Delay: 1 + int(seed*37%300), Harvesting: chip.Harvesting{Tensix: harvest},
					RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true, RefuseCounters: true, DataCache: true,
				}), 2*time.Minute)
				const n = 31 // three lanes with buffers of four pages hold twelve
				dep, err := New(r.ctx, r.dev, r.network, n, chip.Single(0, 0), nil)
				r.must(err)
				for round := range 2 {
					images := r.images[round*n:][:n]
					r.must(r.q.Write(r.ctx, dep.Pages(0), 0, Bytes(images, n)))
					r.must(dep.Run(r.ctx, r.q))
					b := make([]byte, n*digits.PageBytes)
					r.must(r.q.Read(r.ctx, dep.Pages(len(dep.Layers())), 0, b))
					scores := Scores(b)
					for i, m := range images {
						if want := r.network.Forward(m.Pixels); scores[i] != want {
							t.Fatalf("round %d, image %d: scores %v, want %v", round, i, scores[i], want)
						}
					}
				}
				r.must(dep.Close(r.ctx))
			})
		}
	}
}
