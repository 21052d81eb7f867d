// Package hard has other layers' cases that synchronize much, on emulators that make it hard.
package hard

import (
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/internal/commands"
	"github.com/reprise-tt/reprise/hwtest/internal/control"
	"github.com/reprise-tt/reprise/hwtest/internal/memory"
	"github.com/reprise-tt/reprise/hwtest/internal/programs"
	"github.com/reprise-tt/reprise/hwtest/internal/queues"
	"github.com/reprise-tt/reprise/hwtest/internal/streams"
	"github.com/reprise-tt/reprise/hwtest/internal/traces"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim"
)

type hardMode struct {
	name   string
	many   int // seeds of a long run
	opts   []sim.Option
	strict bool
}

// modes try each case with several seeds of processors' order and networks' delays.
func modes() []hardMode {
	return []hardMode{
		{name: "as it comes", many: 100},
		{name: "synchronous", many: 50, opts: []sim.Option{sim.Synchronous()}},
		{name: "delay 7", many: 100, opts: []sim.Option{sim.Delay(7)}},
		{name: "delay 50, unwritten memory refused", many: 100, opts: []sim.Option{sim.Delay(50), sim.RefuseUnwritten()}},
		{name: "delay 1000", many: 100, opts: []sim.Option{sim.Delay(1000)}},
		{name: "one unit harvested", many: 20, opts: []sim.Option{sim.Harvesting(chip.Harvesting{Tensix: 1})}},
		{name: "two units harvested, delay 20", many: 20, opts: []sim.Option{sim.Harvesting(chip.Harvesting{Tensix: 0b101}), sim.Delay(20)}},
		{name: "every check", many: 1000, strict: true},
	}
}

// few leaves few workers, since full checks cost much: 8 by 5 or more for a wide grid.
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

// Cases are the cases of layer hard.
func Cases() (cs rig.Table) {
	for _, m := range modes() {
		for _, k := range keys() {
			c := cs.Add(fmt.Sprintf("%s, %s", k.name, m.name),
				"nothing depends on how fast the networks are, which processor runs first, or what memory holds at power-on",
				func(t *rig.T) {
					for seed := range t.More(1, m.many) {
						t.Sub(fmt.Sprintf("seed %d", seed), func(t *rig.T) { k.run(t, m, uint64(seed)+1) })
					}
				})
			c.Needs, c.Limit = rig.NeedEmulator, time.Duration(1+m.many/100)*time.Minute
		}
	}
	return cs
}

func (k *key) run(t *rig.T, m hardMode, seed uint64) {
	opts := append([]sim.Option{sim.Seed(seed)}, m.opts...)
	if m.strict {
		opts = append(opts, sim.Strict(seed), sim.Harvesting(few(t.Device.Arch, k.wide)))
	}
	u := *t
	u.Device = t.Device.Emulated("", opts...)
	if k.queues {
		k.fn(u.Queues(dispatch.Options{}))
	} else {
		k.fn(u.Full(k.opts...))
	}
}

type key struct {
	name   string
	queues bool
	wide   bool
	fn     func(*rig.T)
	opts   []reprise.Option
}

func keys() []key {
	return []key{
		{name: "pipeline", fn: func(t *rig.T) { programs.KernelChain(t, rig.Processors()[2:], 1024, 12, 2) }},
		{name: "chain and ping-pong", fn: func(t *rig.T) { programs.Chain(t); programs.PingPong(t, 20) }},
		{name: "queues in turn", wide: true, opts: rig.QueueOptions(false), fn: func(t *rig.T) { queues.InTurn(t, 3, 8); queues.FourEvents(t, 4); queues.WaitHolds(t) }},
		{name: "queues apart", wide: true, opts: rig.QueueOptions(true), fn: func(t *rig.T) { queues.HandOver(t, 3, 4); queues.LooseEdges(t, 6) }},
		{name: "transfers beside a model", wide: true, opts: rig.QueueOptions(false), fn: func(t *rig.T) {
			streams.Flow(t, "two queues", 5)
			streams.Flow(t, "transfer queue, L1 again", 5)
		}},
		{name: "other kernels", fn: func(t *rig.T) {
			programs.FreshData(t)
			programs.OtherNetwork(t)
			programs.Arguments(t, chip.NCRISC, 3, 20)
			programs.Arguments(t, chip.TRISC1, 9, 2)
			programs.CommonOnly(t, 16)
			programs.CopyBuffer(t)
			programs.EmptyCores(t)
			programs.LongText(t, 60_000, rig.Processors())
			memory.ShardedKernel(t, allocator.L1, memory.ShardedCases()[0].Spec)
		}},
		{name: "multicast", fn: func(t *rig.T) { programs.KernelMulticast(t, 8192) }},
		{name: "config ring", fn: func(t *rig.T) { programs.ConfigRing(t, 48) }},
		{name: "long commands", wide: true, fn: programs.LongCommands},
		{name: "trace with runs between", wide: true, fn: func(t *rig.T) { traces.TraceOf(t, 9, 3, true) }},
		{name: "trace parameters and pieces", fn: func(t *rig.T) { traces.ParamRounds(t, 5, 6); traces.InPieces(t, 5); traces.ParamBuffers(t) }},
		{name: "control flow", wide: true, fn: func(t *rig.T) { control.Random(t, 1) }},
		{name: "transfers", fn: func(t *rig.T) {
			memory.Partial(t, 0, 100)
			memory.Partial(t, 1, 2048)
			memory.WriteRead(t, 0, 100_000, 7)
		}},
		{name: "subordinate's ring", queues: true, fn: func(t *rig.T) { commands.SubordinateLaps(t, 2) }},
		{name: "packed writes", queues: true, fn: func(t *rig.T) {
			commands.WritePacked(t, 500, 20, false)
			commands.WritePackedRects(t, 80, false)
			commands.WriteLarge(t, 35, 100)
			commands.WriteLarge(t, 5, 5000)
			commands.WriteLargeLinked(t)
		}},
		{name: "relays", queues: true, fn: func(t *rig.T) {
			commands.RelayLinear(t, 3*commands.Half+16, "DRAM", 16)
			commands.RelayPaged(t, true, commands.Half+64, 3, 0, 0)
			commands.RelayPagedPacked(t, 35, 1<<10)
			commands.RingbufferOffsets(t)
			commands.RingbufferThenRelay(t)
			commands.StallOrders(t)
		}},
		{name: "traces by hand", queues: true, fn: func(t *rig.T) {
			commands.ExecBuf(t, 40, 7)
			commands.ExecBufRelays(t)
			commands.ExecBufPayload(t)
			commands.ExecBufPadding(t)
			commands.GoSignal(t, true, []uint8{0, 0, 0})
			commands.GoUnicast(t, 60, true)
		}},
	}
}
