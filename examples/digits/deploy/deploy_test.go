package deploy

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

func TestVendorsSimulatorAgreesBitForBit(t *testing.T) {
	for _, library := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(library, func(t *testing.T) {
			agrees(t, ttsim.Library(ttsimtest.Path(t, library), ttsimtest.Server()))
		})
	}
}

// agrees compares every byte of every layer on a device with the host reference: once run, once
// replayed from a trace on other images.
func agrees(t *testing.T, target kmd.Target) {
	r := newRig(t, target, 5*time.Minute)
	ctx, dev, q, network, images, must := r.ctx, r.dev, r.q, r.network, r.images, r.must
	allocated := func() map[allocator.Kind]uint64 {
		return map[allocator.Kind]uint64{
			allocator.DRAM: dev.Memory(allocator.DRAM).Allocated, allocator.L1: dev.Memory(allocator.L1).Allocated,
		}
	}
	before := allocated()
	if _, err := New(ctx, dev, network, 0, dev.Grid()); !errors.Is(err, ErrCount) {
		t.Errorf("no images: error %v, want %v", err, ErrCount)
	}
	var perr *dispatch.ProgramError
	if _, err := New(ctx, dev, network, 1, chip.Grid(50, 50)); !errors.As(err, &perr) {
		t.Errorf("cores that the chip lacks: error %v, want a *ProgramError", err)
	}
	if diff := cmp.Diff(before, allocated()); diff != "" {
		t.Errorf("bytes of a bank allocated (-before +after a failed New):\n%s", diff)
	}

	// Six cores and 44 images: shares of seven and eight, so that lanes get different numbers of
	// pages and buffers wrap.
	const n = 44
	dep, err := New(ctx, dev, network, n, chip.Grid(3, 2))
	must(err)
	check := func(what string, images []digits.Image) {
		t.Helper()
		want := make([]digits.Page, n)
		for i, m := range images {
			want[i] = m.Page()
		}
		for i, l := range append(network.Layers(), nil) {
			got, err := dep.ReadPages(ctx, q, i)
			must(err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: pages before layer %d (-host +device):\n%s", what, i, diff)
			}
			if l != nil {
				for j := range want {
					want[j] = l.Forward(want[j])
				}
			}
		}
	}

	if err := dep.Write(ctx, q, images[:n+1]); !errors.Is(err, ErrCount) {
		t.Errorf("an image too many: error %v, want %v", err, ErrCount)
	}
	must(dep.Write(ctx, q, images[:n]))
	start := time.Now()
	must(dep.Run(ctx, q))
	must(q.Wait(ctx))
	t.Logf("first run of %d images: %v", n, time.Since(start))
	check("first run", images[:n])

	trace, err := q.Capture(ctx, "digits", dep.Record)
	must(err)
	must(dep.Write(ctx, q, images[100:100+n]))
	start = time.Now()
	must(trace.Replay(ctx))
	must(q.Wait(ctx))
	t.Logf("replay: %v", time.Since(start))
	check("replay", images[100:100+n])

	scores, err := dep.Scores(ctx, q)
	must(err)
	for i, m := range images[100 : 100+n] {
		if diff := cmp.Diff(network.Forward(m.Pixels), scores[i]); diff != "" {
			t.Errorf("scores of image %d (-host +device):\n%s", i, diff)
		}
	}
	must(trace.Release(ctx))
	must(dep.Close(ctx))
	if diff := cmp.Diff(before, allocated()); diff != "" {
		t.Errorf("bytes of a bank allocated (-before +after Close):\n%s", diff)
	}
}
