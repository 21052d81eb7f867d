package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim"
)

// timed are the shapes whose instructions on the device are counted.
var timed = []shape{
	minimal,
	{name: "all cores", groups: 1},
	{name: "16 arguments", groups: 1, args: 16},
	{name: "8 kernel groups", groups: 8},
	common,
	worst,
}

// A synchronous chip runs the same way every time, but for rounds of loops that wait, which are
// left out.
func TestInstructions(t *testing.T) {
	effort.Long(t)
	var out strings.Builder
	fmt.Fprintln(
		&out,
		"# Instructions that the cores of a queue execute on the synchronous emulator, without rounds of waiting: for each program of\n"+
			"# a long trace, and for a replay of a trace of one program. Write anew: go test ./bench -run TestInstructions -update-counts",
	)
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		fmt.Fprintf(&out, "\n%v\n%-18s %10s %10s %12s | %10s %10s %12s\n", arch, "shape", "prefetch", "dispatch", "subordinate", "prefetch",
			"dispatch", "subordinate")
		for _, p := range timed {
			each, one := instructions(t, arch, chip.Harvesting{}, p)
			fmt.Fprintf(&out, "%-18s %10.1f %10.1f %12.1f | %10.0f %10.0f %12.0f\n", p.name, each[0], each[1], each[2], one[0], one[1], one[2])
		}
	}
	unchanged(t, "instructions.txt", out.String())
}

func openSynchronous(t *testing.T, arch chip.Arch, h chip.Harvesting, opts ...reprise.Option) (*sim.Card, *reprise.Device) {
	t.Helper()
	card := sim.Blackhole(sim.Synchronous(), sim.Seed(1), sim.Harvesting(h))
	if arch == chip.Wormhole {
		card = sim.Wormhole(sim.Synchronous(), sim.Seed(1), sim.Harvesting(h))
	}
	dev, err := reprise.Open(t.Context(), card, opts...)
	must(t, err)
	return card, dev
}

// instructions returns what prefetcher, dispatcher and subordinate execute for each program of a
// long trace, and for a replay of a trace of one, without rounds of waiting.
func instructions(t *testing.T, arch chip.Arch, h chip.Harvesting, p shape, opts ...reprise.Option) (each, one [3]float64) {
	t.Helper()
	ctx := t.Context()
	card, dev := openSynchronous(t, arch, h, opts...)
	defer dev.Close(ctx)
	s := &session{ctx: ctx, dev: dev}
	x, err := s.load(p)
	must(t, err)
	each, one, err = s.executed(x, func() [3]uint64 { return executedByQueue(t, card, arch, h) })
	must(t, err)
	return each, one
}

// executedByQueue returns what the processors of queue 0 have executed, without rounds of waiting.
func executedByQueue(t *testing.T, card *sim.Card, arch chip.Arch, lacks chip.Harvesting) (n [3]uint64) {
	t.Helper()
	for i, c := range queueProcessors(t, arch, lacks) {
		for _, times := range card.Chip().Profile(c.xy, c.processor) {
			n[i] += times
		}
	}
	return n
}

type queueProcessor struct {
	xy        chip.XY // on the chip itself
	processor chip.Processor
}

func queueProcessors(t *testing.T, arch chip.Arch, lacks chip.Harvesting) [3]queueProcessor {
	t.Helper()
	c, err := chip.New(arch, lacks)
	must(t, err)
	w, h := c.Grid()
	cores := [2]chip.Core{{X: w - 1, Y: 0}, {X: w - 1, Y: 1}}
	if arch == chip.Wormhole {
		cores = [2]chip.Core{{X: 0, Y: h - 1}, {X: 1, Y: h - 1}}
	}
	var xy [2]chip.XY
	for i, core := range cores {
		xy[i], err = c.Physical(core)
		must(t, err)
	}
	return [3]queueProcessor{{xy[0], chip.BRISC}, {xy[1], chip.BRISC}, {xy[1], chip.NCRISC}}
}
