package bench

import (
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/kmd"
)

// What the compiler does to keep registers meanwhile isn't in it.
func TestTimesCost(t *testing.T) {
	if testing.Short() {
		t.Skip("long traces on chips that run in one goroutine")
	}
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		ctx := t.Context()
		card, dev := openSynchronous(t, arch, chip.Harvesting{})
		defer dev.Close(ctx)
		s := &session{ctx: ctx, dev: dev}
		x, err := s.load(shape{name: "all cores", groups: 1})
		must(t, err)
		processors := queueProcessors(t, arch, chip.Harvesting{})
		notes := notesTimes(t, card, arch, processors[2])
		worker := queueProcessor{physical(t, arch, chip.Core{}), chip.BRISC} // which starts the others
		type counts struct{ times, queue, worker float64 }
		count := func() (n counts) {
			for _, p := range processors {
				for pc, times := range card.Chip().Profile(p.xy, p.processor) {
					n.queue += float64(times)
					if p == processors[2] && notes(pc) {
						n.times += float64(times)
					}
				}
			}
			for _, times := range card.Chip().Profile(worker.xy, worker.processor) {
				n.worker += float64(times)
			}
			return n
		}
		replay := func(programs int) counts {
			tr, err := s.record(x, programs)
			must(t, err)
			var before counts
			for range 2 { // the second time all is warm
				must(t, s.finish())
				before = count()
				must(t, tr.Replay(ctx))
			}
			must(t, s.finish())
			n := count()
			must(t, tr.Release(ctx))
			return counts{n.times - before.times, n.queue - before.queue, n.worker - before.worker}
		}
		const short, long = 8, 24 // whole rounds of launch messages
		a, b := replay(short), replay(long)
		each := counts{(b.times - a.times) / (long - short), (b.queue - a.queue) / (long - short), (b.worker - a.worker) / (long - short)}
		all := each.queue + each.worker*float64(dev.Grid().Size())
		t.Logf("%v: %.1f instructions for times, of %.1f of the queue and %.1f of each worker: %.2f %%", arch, each.times, each.queue,
			each.worker, 100*each.times/all)
		if each.times < 10 || each.times > 22 || each.times > 0.02*all {
			t.Errorf("%v: %.1f instructions of %.1f for a program", arch, each.times, all)
		}
	}
}

// notesTimes returns whether an instruction of the subordinate is of the code that notes times.
func notesTimes(t *testing.T, card kmd.Target, arch chip.Arch, p queueProcessor) func(pc uint32) bool {
	t.Helper()
	beside, err := kmd.Open(t.Context(), card)
	must(t, err)
	defer beside.Close()
	topo, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	var c live.Catalogue
	must(t, c.AddQueueKernels(arch))
	var space stack.Space
	for core := range topo.Workers() {
		if xy, err := topo.Virtual(core); err == nil && physical(t, arch, core) == p.xy {
			read := func(addr uint32, b []byte) error { return beside.Read(xy, uint64(addr), b) }
			space, err = c.Modules(abi.Own(arch), read, p.processor)
			must(t, err)
		}
	}
	if len(space) != 2 {
		t.Fatalf("the subordinate's kernel is not found")
	}
	return func(pc uint32) bool {
		for _, f := range space.Unwind(stack.Registers{PC: pc}, nil) {
			if strings.HasPrefix(f.Function, "cq_times_") || f.Function == "rp_wall_clock" {
				return true
			}
		}
		return false
	}
}

// physical returns where a core of a chip without harvesting is.
func physical(t *testing.T, arch chip.Arch, c chip.Core) chip.XY {
	t.Helper()
	topo, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	xy, err := topo.Physical(c)
	must(t, err)
	return xy
}
