package deploy

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/emu"
)

// The layers' kernels with every check of the emulator on, by seed. A core has more pages than its
// circular buffers hold, so the space of each page is used several times, and layers run one after
// the other without a wait in between.
func TestStrict(t *testing.T) {
	// The fewest cores that a card can have: more take time and test nothing new.
	for arch, harvest := range map[chip.Arch]uint32{chip.Wormhole: 0x3FC, chip.Blackhole: 0x3FFC} {
		seeds := effort.Of[uint64](1, 2, 1000)
		if testing.Short() {
			seeds = 1 // for the race detector, which makes them slow
		}
		for seed := range seeds {
			t.Run(fmt.Sprintf("%v seed %d", arch, seed), func(t *testing.T) {
				strict(t, emulated(t, emu.Config{
					Arch: arch, Seed: seed, Delay: 1 + int(seed*37%300), Harvesting: chip.Harvesting{Tensix: harvest},
					RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true, RefuseCounters: true, DataCache: true,
				}))
			})
		}
	}
}

func strict(t *testing.T, target kmd.Target) {
	r := newRig(t, target, 2*time.Minute)
	ctx, dev, q, network, images, must := r.ctx, r.dev, r.q, r.network, r.images, r.must
	const n = 31 // three lanes with buffers of four pages hold twelve
	dep, err := New(ctx, dev, network, n, chip.Single(0, 0))
	must(err)
	for round := range 2 {
		set := images[round*n : (round+1)*n]
		must(dep.Write(ctx, q, set))
		must(dep.Run(ctx, q))
		got, err := dep.Scores(ctx, q)
		must(err)
		var want [][digits.Classes]int32
		for _, m := range set {
			want = append(want, network.Forward(m.Pixels))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("scores of round %d (-host +device):\n%s", round, diff)
		}
	}
	must(dep.Close(ctx))
}
