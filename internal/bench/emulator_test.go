package bench

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim"
)

// Workers without a program look at the go signal, and that is all: a chip of which two workers are
// busy costs what two workers cost.
func TestEmulatorWork(t *testing.T) {
	effort.Long(t)
	var out strings.Builder
	fmt.Fprintln(
		&out,
		"# Instructions and bytes over the NoCs for each page of 4 KiB that a program copies, on the synchronous emulator, and what\n"+
			"# all workers without a program execute while it runs once, with 10 pages for each worker that has it. Write anew: go test ./bench -run TestEmulatorWork -update-counts",
	)
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		fmt.Fprintf(&out, "\n%v\n%-10s %8s %12s %10s %10s\n", arch, "program", "workers", "instructions", "bytes", "others")
		for _, add := range []bool{false, true} {
			for _, workers := range []int{1, 2, 0} {
				w := workload{workers: workers, page: 4 << 10, add: add}
				each := emulatorWork(t, arch, &w)
				fmt.Fprintf(&out, "%-10s %8d %12.1f %10.1f %10.0f\n", map[bool]string{false: "copy", true: "copy, add"}[add], w.workers,
					each[0], each[1], each[2])
			}
		}
	}
	unchanged(t, "emulator.txt", out.String())
}

// emulatorWork returns what a chip does for each page, without what a program costs by itself.
// Third is what workers that have no program execute while one runs. No workers means all.
func emulatorWork(t *testing.T, arch chip.Arch, w *workload) (each [3]float64) {
	t.Helper()
	ctx := t.Context()
	card, dev := openSynchronous(t, arch, chip.Harvesting{})
	defer dev.Close(ctx)
	grid := dev.Queue(0).Workers()
	if w.workers == 0 {
		w.workers = grid.Size()
	}
	others := func() (n uint64) {
		i := 0
		for core := range grid.Cores() {
			busy := core.Y == grid.Start.Y && core.X-grid.Start.X < w.workers || w.workers == grid.Size()
			if i++; busy {
				continue
			}
			xy, err := card.Chip().Topology().Physical(core)
			must(t, err)
			for p := range chip.Processor(chip.NumProcessors) {
				n += card.Chip().Retired(xy, p)
			}
		}
		return n
	}
	const few, many = 2, 10
	var did [2][3]float64
	for i, pages := range []int{few, many} {
		w.pages = pages
		x, err := w.load(&session{ctx: ctx}, dev)
		must(t, err)
		run := func() {
			t.Helper()
			must(t, errors.Join(dev.Queue(0).Run(ctx, x), dev.Queue(0).Wait(ctx)))
		}
		run() // the first brings the kernels
		before, idle := card.Chip().Work(), others()
		run()
		after := card.Chip().Work()
		did[i] = [3]float64{float64(after.Instructions - before.Instructions), float64(after.NoCBytes - before.NoCBytes),
			float64(others() - idle)}
		must(t, x.Release(ctx))
	}
	for i := range 2 {
		each[i] = (did[1][i] - did[0][i]) / float64((many-few)*w.workers)
	}
	each[2] = did[1][2]
	return each
}

func TestEmulatorFamily(t *testing.T) {
	var c Config
	r := runFamily(t, "emulator", c)
	if len(r.Figures) != 0 || len(r.LeftOut) != 1 {
		t.Errorf("without an emulator: %d figures, left out %+v", len(r.Figures), r.LeftOut)
	}
	effort.Long(t)
	c.Emulated = func() Emulated {
		card := sim.Blackhole()
		return Emulated{Target: card, Work: func() Work { return Work(card.Chip().Work()) }}
	}
	r = runFamily(t, "emulator", c)
	for _, id := range []string{"emulator/instruction/workers=1", "emulator/instruction/workers=2", "emulator/instruction/workers=130",
		"emulator/noc_byte/page=64", "emulator/instruction/chips=2"} {
		f, ok := r.Figure(id)
		if !ok || f.P50 <= 0 || f.Rate == nil || f.Rate.PerSecond != 1e9/f.P50 {
			t.Errorf("%s: %+v", id, f)
		}
	}
}
