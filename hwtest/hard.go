package hwtest

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/sim"
)

// hardMode is a way in which the emulator makes life hard.
type hardMode struct {
	name string
	few  int // seeds by default
	many int // of a long run
	opts []sim.Option
	// strict turns on every check of the emulator, with the mode's seed.
	strict bool
}

// hardModes are the ways in which the emulator makes life hard. Each is tried with several seeds, which choose the order of
// the processors and the delays of the networks.
func hardModes() []hardMode {
	return []hardMode{
		{name: "as it comes", few: 1, many: 100},
		{name: "synchronous", few: 1, many: 50, opts: []sim.Option{sim.Synchronous()}},
		{name: "delay 7", few: 1, many: 100, opts: []sim.Option{sim.Delay(7)}},
		{name: "delay 50, unwritten memory refused", few: 1, many: 100, opts: []sim.Option{sim.Delay(50), sim.RefuseUnwritten()}},
		{name: "delay 1000", few: 1, many: 100, opts: []sim.Option{sim.Delay(1000)}},
		{name: "one unit harvested", few: 1, many: 20, opts: []sim.Option{sim.Harvesting(chip.Harvesting{Tensix: 1})}},
		{name: "two units harvested, delay 20", few: 1, many: 20, opts: []sim.Option{sim.Harvesting(chip.Harvesting{Tensix: 0b101}), sim.Delay(20)}},
		{name: "every check", few: 1, many: 1000, strict: true},
	}
}

// few leaves a few columns or rows of workers, because checks of all cost much: for a case that needs a wide grid 8 by 5 workers and
// more, else 3 columns or rows.
func few(a chip.Arch, wide bool) chip.Harvesting {
	switch {
	case a == chip.Blackhole && wide:
		return chip.Harvesting{Tensix: 0x1F}
	case a == chip.Blackhole:
		return chip.Harvesting{Tensix: 0x3FF}
	case wide:
		return chip.Harvesting{Tensix: 0b111}
	}
	return chip.Harvesting{Tensix: 0b111111}
}

func hardCases() []testCase {
	var cs []testCase
	for _, m := range hardModes() {
		for _, k := range hardKeys() {
			cs = append(cs, testCase{
				name: fmt.Sprintf("%s, %s", k.name, m.name), needs: needEmulator, hours: 1 + m.many/100,
				protects: "nothing depends on how fast the networks are, which processor runs first, or what memory holds at power-on",
				fn: func(t *fixture) {
					for seed := range t.more(m.few, m.many) {
						t.sub(fmt.Sprintf("seed %d", seed), func(t *fixture) {
							opts := append([]sim.Option{sim.Seed(uint64(seed) + 1)}, m.opts...)
							if m.strict {
								opts = append(opts, sim.Strict(uint64(seed)+1), sim.Harvesting(few(t.device.Arch, k.wide)))
							}
							dev := t.device.Emulated("", opts...)
							u := *t
							u.device = dev
							if k.queues {
								k.fn(u.queues(dispatch.Options{}))
							} else {
								k.fn(u.full(dev.Open(), k.opts...))
							}
						})
					}
				},
			})
		}
	}
	return cs
}

// hardKey is a case that synchronizes much.
type hardKey struct {
	name   string
	queues bool
	wide   bool // of the grid
	fn     func(*fixture)
	opts   []reprise.Option
}

func hardKeys() []hardKey {
	return []hardKey{
		{name: "pipeline", fn: func(t *fixture) { kernelChain(t, processors()[2:], 1024, 12, 2) }},
		{name: "chain and ping-pong", fn: func(t *fixture) { chain(t); pingPong(t, 20) }},
		{name: "queues in turn", wide: true, opts: queueOptions(false), fn: func(t *fixture) { t.inTurn(3, 8); t.fourEvents(4); waitHolds(t) }},
		{name: "queues apart", wide: true, opts: queueOptions(true), fn: func(t *fixture) { t.handOver(3, 4); t.looseEdges(6) }},
		{name: "transfers beside a model", wide: true, opts: queueOptions(false), fn: func(t *fixture) {
			for _, w := range []way{{}, {reads: true, trace: true, again: true}} {
				w.run(t, w.build(t, 2), 5, nil)
			}
		}},
		{name: "other kernels", fn: func(t *fixture) {
			freshData(t)
			otherNetwork(t)
			arguments(t, chip.NCRISC, 3, 20)
			arguments(t, chip.TRISC1, 9, 2)
			commonOnly(t, 16)
			copyBuffer(t)
			emptyCores(t)
			longText(t, 60_000, processors())
			shardedKernel(t, allocator.L1, shardedCases()[0].s)
		}},
		{name: "multicast", fn: func(t *fixture) { kernelMulticast(t, 8192) }},
		{name: "config ring", fn: func(t *fixture) { hardConfigRing(t) }},
		{name: "long commands", wide: true, fn: longCommands},
		{name: "trace with runs between", wide: true, fn: func(t *fixture) { traceOf(t, 9, 3, true) }},
		{name: "trace parameters and pieces", fn: func(t *fixture) { paramRounds(t, 5, 6); inPieces(t, 5); paramBuffers(t) }},
		{name: "transfers", fn: func(t *fixture) { partial(t, 0, 100); partial(t, 1, 2048); writeRead(t, 0, 100_000, 7) }},
		{name: "subordinate's ring", queues: true, fn: func(t *fixture) { subordinateLaps(t, 2) }},
		{name: "packed writes", queues: true, fn: func(t *fixture) {
			writePacked(t, 500, 20, false)
			writePackedRects(t, 80, false)
			writeLarge(t, 35, 100)
			writeLarge(t, 5, 5000)
			writeLargeLinked(t)
		}},
		{name: "relays", queues: true, fn: func(t *fixture) {
			relayLinear(t, 3*half+16, "DRAM", 16)
			relayPaged(t, true, half+64, 3, 0, 0)
			relayPagedPacked(t, 35, 10)
			ringbufferOffsets(t)
			ringbufferThenRelay(t)
			stallOrders(t)
		}},
		{name: "traces by hand", queues: true, fn: func(t *fixture) {
			execBuf(t, 40, 7)
			execBufRelays(t)
			execBufPayload(t)
			execBufPadding(t)
			goSignal(t, true, []uint8{0, 0, 0})
			goUnicast(t, 60, true)
		}},
	}
}

// hardConfigRing is configRing with fewer rounds.
func hardConfigRing(t *fixture) {
	f := t.follow()
	sizes := []int{0, 40_000, 1000, 30_000, 69_000, 5000}
	for i := range 24 {
		k := i * 7 % len(sizes)
		x := t.load(t.mixProgram(fmt.Sprint(sizes[k]), t.grid(), f.b, uint32(k+1), sizes[k]&^15))
		for range 2 {
			t.ok(t.rq.Run(t.ctx, x))
			f.run(uint32(k+1), t.grid())
		}
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("mixed")
}
