package model

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/sim"
)

// Differential are the cases of layer differential.
func Differential() (cs rig.Table) {
	const same = "two devices of one architecture do the same with the same commands, to the last byte of memory, records and counters"
	for seed := range uint64(12) {
		rig.Each(&cs, "random commands %d", same, randomCommands, seed)
	}
	long := cs.Add("hundreds of random streams", same, func(t *rig.T) {
		for seed := range uint64(t.Size(300, 40)) {
			t.Sub(fmt.Sprint(seed), func(t *rig.T) { randomCommands(t, 1000+seed) })
		}
	})
	long.Long, long.Limit = true, 2*time.Minute
	return cs
}

// other is the device that was asked for, or the emulator with slow networks and another order.
func other(t *rig.T) *target.Device {
	if d := t.Config.Compare(t.Device); d != nil {
		return d
	}
	if t.Device.Kind != target.Emulator {
		t.Skip("name a second device to compare with")
	}
	return t.Device.Emulated("_slow", sim.Seed(99), sim.Delay(40))
}

type outcome struct {
	what string
	data []byte
}

const (
	areaSize = 96 << 10
	areaDRAM = 16 << 20
)

func randomCommands(t *rig.T, seed uint64) {
	o := other(t)
	arch := chip.Arch(0)
	run := func(d *target.Device) []outcome {
		u := *t
		u.Device = d
		v := u.Queues(dispatch.Options{})
		if arch != 0 && v.Params.Arch != arch {
			t.Skipf("the other device is a %v", v.Params.Arch)
		}
		arch = v.Params.Arch
		return randomRun(v, rand.New(rand.NewPCG(seed, 1)))
	}
	a, b := run(t.Device), run(o)
	for i := range a {
		if d := rig.Difference(a[i].data, b[i].data); d != "" {
			t.Errorf("%s: %s has, against %s: %s", a[i].what, o.Name, t.Device.Name, d)
		}
	}
	if bytes.Equal(a[0].data, make([]byte, len(a[0].data))) {
		t.Error("the commands wrote nothing")
	}
}

// randomRun runs a random stream and returns its outcomes. No choice depends on the device.
func randomRun(t *rig.T, rng *rand.Rand) []outcome {
	g := t.Grid()
	watched := []chip.Core{g.Start, g.End, {X: 1, Y: 1}, {X: g.End.X, Y: 0}, {X: 3, Y: g.End.Y}, {X: 4, Y: 3}}
	for c := range g.Cores() {
		t.Poke(c, rig.Scratch, make([]byte, areaSize))
	}
	for b := range t.Chip.DRAMBanks() {
		t.PokeDRAM(b, areaDRAM, make([]byte, areaSize))
	}
	anyCore := func() chip.Core { return watched[rng.IntN(len(watched))] }
	anyRect := func() (uint32, int) {
		s := chip.Core{X: rng.IntN(g.End.X + 1), Y: rng.IntN(g.End.Y + 1)}
		return t.NOCRect(chip.Range{Start: s, End: chip.Core{X: s.X + rng.IntN(g.End.X-s.X+1), Y: s.Y + rng.IntN(g.End.Y-s.Y+1)}})
	}
	data := func(n int) []byte { return rig.Pattern(rng.Uint32(), n) }
	addr := func(n, align int) uint32 { return uint32(rng.IntN((areaSize-n)/align) * align) }
	length := func() int {
		switch rng.IntN(4) {
		case 0:
			return 1 + rng.IntN(64)
		case 1:
			return 4096 - 40 + rng.IntN(80)
		case 2:
			return 1 + rng.IntN(20_000)
		}
		return 16 * (1 + rng.IntN(2000))
	}
	align := t.Layout().DRAMAlign()
	var records []byte
	for range 60 {
		stall, reset := false, false
		var record []byte
		cmds := t.Commands(func(b *cq.Builder) {
			// Places overlap, so each command waits for those before.
			b.WaitStall(cq.Wait{})
			switch rng.IntN(13) {
			case 0, 1:
				d := data(length())
				t.WriteTile(b, anyCore(), int(rig.Scratch+addr(len(d), 16)), d)
			case 2:
				d := data(length())
				noc, n := anyRect()
				b.WriteLinear(cq.WriteLinear{McastDests: uint8(n), NOC: noc, Addr: uint64(rig.Scratch + addr(len(d), 16)), Data: d})
			case 3:
				size := align * (1 + rng.IntN(20))
				n := 1 + rng.IntN(12)
				b.WritePaged(cq.WritePaged{DRAM: true, StartPage: uint16(rng.IntN(7)), Base: areaDRAM + addr(4*size, align), PageSize: uint32(size),
					Pages: uint32(n), Data: data(n * size)})
			case 4:
				w := cq.WritePacked{Type: cq.PackedRuntimeArgs, Size: uint16(4 * (1 + rng.IntN(300))), NoStride: rng.IntN(2) == 0}
				w.Addr = rig.Scratch + addr(int(w.Size), 16)
				for range 1 + rng.IntN(20) {
					w.Cores = append(w.Cores, t.NOCXY(anyCore()))
				}
				slots := len(w.Cores)
				if w.NoStride {
					slots = 1
				}
				w.Data = data(slots * cq.SlotStride(int(w.Size)))
				b.WritePacked(w)
			case 5:
				w := cq.WritePacked{Type: cq.PackedLaunch, Size: uint16(4 * (1 + rng.IntN(50)))}
				w.Addr = rig.Scratch + addr(int(w.Size), 16)
				for range 1 + rng.IntN(10) {
					noc, n := anyRect()
					w.Rects = append(w.Rects, cq.Rect{NOC: noc, Dests: uint32(n)})
				}
				w.Data = data(len(w.Rects) * cq.SlotStride(int(w.Size)))
				b.WritePacked(w)
			case 6:
				w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16}
				n := 1 + rng.IntN(12)
				for i := range n {
					noc, cores := anyRect()
					if i > 0 && !w.Subs[i-1].Unlink { // a linked run goes to the same rectangle
						noc, cores = w.Subs[i-1].NOC, int(w.Subs[i-1].Dests)
					}
					size := 1 + rng.IntN(3000)
					w.Subs = append(w.Subs, cq.LargeSub{NOC: noc, Addr: rig.Scratch + addr(size, 16), Length: uint32(size), Dests: uint8(cores),
						Unlink: rng.IntN(2) == 0 || i == n-1})
					w.Data = append(w.Data, data((size+15)&^15)...)
				}
				b.WritePackedLarge(w)
			case 7:
				n := 16 * (1 + rng.IntN(4000))
				t.WriteTileHeader(b, anyCore(), int(rig.Scratch+addr(n, 16)), n)
				b.RelayLinear(cq.RelayLinear{NOC: t.NOCXY(anyCore()), Addr: uint64(rig.Scratch + addr(n, 16)), Length: uint64(n)})
			case 8:
				size, n := align*(1+rng.IntN(30)), 1+rng.IntN(20)
				t.WriteTileHeader(b, anyCore(), int(rig.Scratch+addr(n*size, 16)), n*size)
				b.RelayPaged(cq.RelayPaged{StartPage: uint8(rng.IntN(7)), DRAM: true, Base: areaDRAM + addr(8*size, align), PageSize: uint32(size),
					Pages: uint32(n)})
			case 9:
				log := 6 + rng.IntN(7)
				d := data(length())
				c, at := anyCore(), rig.Scratch+addr(len(d), 16)
				x := t.CommandTrace(32<<20, log, rng.IntN(3), func(b *cq.Builder) {
					t.WriteTile(b, c, int(at), d)
					t.WriteTile(b, watched[0], int(at), d)
				})
				b.ExecBuf(x)
				stall = true
			case 10:
				d := data(length())
				b.WriteHost(cq.WriteHost{Data: d})
				record = make([]byte, len(d))
			case 11:
				record = make([]byte, 16*(1+rng.IntN(2000)))
				b.WriteHostHeader(cq.WriteHost{Length: uint64(16 + len(record))})
				b.RelayLinear(cq.RelayLinear{NOC: t.NOCXY(anyCore()), Addr: uint64(rig.Scratch + addr(len(record), 16)),
					Length: uint64(len(record))})
			case 12:
				to := cq.Master
				if rng.IntN(2) == 0 {
					to = cq.Subordinate
					b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
				}
				d := t.Virtual(t.DispatchCore())
				b.SendGoSignal(to, cq.SendGoSignal{
					Go: cq.NewGoWord(0, d.X, d.Y, cq.SignalResetReadPtr), WaitCount: uint32(t.CQ.State().Expected),
					WaitStream: uint32(t.Params.Stream.FirstDispatch),
				})
				reset = true
			}
		})
		if record != nil {
			t.OK(t.CQ.Receive(t.Ctx, cmds, record))
			records = append(records, record...)
			continue
		}
		t.OK(t.CQ.Send(t.Ctx, cmds, stall))
		if reset {
			t.Answered(t.Dispatch.L1Banks())
		}
		if stall {
			t.Finish()
		}
	}
	t.Finish()
	var out []outcome
	for _, c := range watched {
		out = append(out, outcome{fmt.Sprintf("core %v", c), t.Peek(c, rig.Scratch, areaSize)})
	}
	for b := range t.Chip.DRAMBanks() {
		out = append(out, outcome{fmt.Sprintf("DRAM bank %d", b), t.PeekDRAM(b, areaDRAM, areaSize)})
	}
	var counters []byte
	for s := range 8 {
		v := t.Load32(t.Virtual(t.DispatchCore()), uint64(t.Params.Stream.Reg(t.Params.Stream.FirstDispatch+s, chip.SpaceAvailable)))
		counters = rig.AppendWord(counters, v&cq.CountMask)
	}
	return append(out, outcome{"records", records}, outcome{"counters of completions", counters})
}
