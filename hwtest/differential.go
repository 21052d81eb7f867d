package hwtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/sim"
)

func differentialCases() []testCase {
	var cs []testCase
	for seed := range uint64(12) {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("random commands %d", seed),
			protects: "two devices of one architecture do the same with the same commands, to the last byte of memory, records and counters",
			fn:       func(t *fixture) { randomCommands(t, seed) },
		})
	}
	return append(cs, testCase{
		name: "hundreds of random streams", long: true, hours: 2,
		protects: "two devices of one architecture do the same with the same commands, to the last byte of memory, records and counters",
		fn: func(t *fixture) {
			for seed := range uint64(t.size(300, 40)) {
				t.sub(fmt.Sprint(seed), func(t *fixture) { randomCommands(t, 1000+seed) })
			}
		},
	})
}

// other returns the device to compare with: the one that was asked for; otherwise, for an emulator, the emulator with slow
// networks and another order of processors.
func (t *fixture) other() *target.Device {
	t.Helper()
	if d := t.config.compare(t.device); d != nil {
		return d
	}
	if t.device.Kind != target.Emulator {
		t.Skip("name a second device to compare with")
	}
	return t.device.Emulated("_slow", sim.Seed(99), sim.Delay(40))
}

// leaving is a result of random commands: a piece of memory that they write, what was reported to the host, or counters.
type leaving struct {
	what string
	data []byte
}

const (
	areaSize = 96 << 10 // of what random commands write in each place
	areaDRAM = 16 << 20 // where it lies in DRAM; in L1 at scratch
)

func randomCommands(t *fixture, seed uint64) {
	o := t.other()
	arch := chip.Arch(0)
	run := func(d *target.Device) []leaving {
		u := *t
		u.device = d
		v := u.queues(dispatch.Options{})
		if arch != 0 && v.p.Arch != arch {
			t.Skipf("the other device is a %v", v.p.Arch)
		}
		arch = v.p.Arch
		return v.randomRun(rand.New(rand.NewPCG(seed, 1)))
	}
	a, b := run(t.device), run(o)
	for i := range a {
		if d := difference(a[i].data, b[i].data); d != "" {
			t.Errorf("%s: %s has, against %s: %s", a[i].what, o.Name, t.device.Name, d)
		}
	}
	if bytes.Equal(a[0].data, make([]byte, len(a[0].data))) {
		t.Error("the commands wrote nothing")
	}
}

// randomRun runs a random stream and returns what it leaves: the memory, the records that the host got, one after the
// other, and the counters of completions. All choices come from rng, and none depends on the device.
func (t *fixture) randomRun(rng *rand.Rand) []leaving {
	g := t.grid()
	watched := []chip.Core{g.Start, g.End, {X: 1, Y: 1}, {X: g.End.X, Y: 0}, {X: 3, Y: g.End.Y}, {X: 4, Y: 3}}
	for c := range g.Cores() {
		t.poke(c, scratch, make([]byte, areaSize))
	}
	for b := range t.ch.DRAMBanks() {
		t.pokeDRAM(b, areaDRAM, make([]byte, areaSize))
	}
	anyCore := func() chip.Core { return watched[rng.IntN(len(watched))] }
	anyRect := func() (uint32, int) {
		s := chip.Core{X: rng.IntN(g.End.X + 1), Y: rng.IntN(g.End.Y + 1)}
		return t.nocRect(chip.Range{Start: s, End: chip.Core{X: s.X + rng.IntN(g.End.X-s.X+1), Y: s.Y + rng.IntN(g.End.Y-s.Y+1)}})
	}
	data := func(n int) []byte { return pattern(rng.Uint32(), n) }
	// addr is a place for n bytes, aligned.
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
	align := t.layout().DRAMAlign()
	var records []byte
	for range 60 {
		stall, reset := false, false
		var record []byte
		cmds := t.commands(func(b *cq.Builder) {
			// Data of one command may be what an earlier one wrote, and places overlap: each waits for those before.
			b.WaitStall(cq.Wait{})
			switch rng.IntN(13) {
			case 0, 1:
				d := data(length())
				b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(anyCore()), Addr: uint64(scratch + addr(len(d), 16)), Data: d})
			case 2:
				d := data(length())
				noc, n := anyRect()
				b.WriteLinear(cq.WriteLinear{McastDests: uint8(n), NOC: noc, Addr: uint64(scratch + addr(len(d), 16)), Data: d})
			case 3:
				size := align * (1 + rng.IntN(20))
				n := 1 + rng.IntN(12)
				b.WritePaged(cq.WritePaged{DRAM: true, StartPage: uint16(rng.IntN(7)), Base: areaDRAM + addr(4*size, align), PageSize: uint32(size),
					Pages: uint32(n), Data: data(n * size)})
			case 4:
				w := cq.WritePacked{Type: cq.PackedRuntimeArgs, Size: uint16(4 * (1 + rng.IntN(300))), NoStride: rng.IntN(2) == 0}
				w.Addr = scratch + addr(int(w.Size), 16)
				for range 1 + rng.IntN(20) {
					w.Cores = append(w.Cores, t.nocXY(anyCore()))
				}
				slots := len(w.Cores)
				if w.NoStride {
					slots = 1
				}
				w.Data = data(slots * cq.SlotStride(int(w.Size)))
				b.WritePacked(w)
			case 5:
				w := cq.WritePacked{Type: cq.PackedLaunch, Size: uint16(4 * (1 + rng.IntN(50)))}
				w.Addr = scratch + addr(int(w.Size), 16)
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
					w.Subs = append(w.Subs, cq.LargeSub{NOC: noc, Addr: scratch + addr(size, 16), Length: uint32(size), Dests: uint8(cores),
						Unlink: rng.IntN(2) == 0 || i == n-1})
					w.Data = append(w.Data, data((size+15)&^15)...)
				}
				b.WritePackedLarge(w)
			case 7:
				n := 16 * (1 + rng.IntN(4000))
				b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(anyCore()), Addr: uint64(scratch + addr(n, 16)), Length: uint64(n)})
				b.RelayLinear(cq.RelayLinear{NOC: t.nocXY(anyCore()), Addr: uint64(scratch + addr(n, 16)), Length: uint64(n)})
			case 8:
				size, n := align*(1+rng.IntN(30)), 1+rng.IntN(20)
				b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(anyCore()), Addr: uint64(scratch + addr(n*size, 16)), Length: uint64(n * size)})
				b.RelayPaged(cq.RelayPaged{StartPage: uint8(rng.IntN(7)), DRAM: true, Base: areaDRAM + addr(8*size, align), PageSize: uint32(size),
					Pages: uint32(n)})
			case 9:
				log := 6 + rng.IntN(7)
				d := data(length())
				c, at := anyCore(), scratch+addr(len(d), 16)
				x := t.trace(32<<20, log, rng.IntN(3), func(b *cq.Builder) {
					b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(at), Data: d})
					b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(watched[0]), Addr: uint64(at), Data: d})
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
				b.RelayLinear(cq.RelayLinear{NOC: t.nocXY(anyCore()), Addr: uint64(scratch + addr(len(record), 16)), Length: uint64(len(record))})
			case 12: // every worker answers
				to := cq.Master
				if rng.IntN(2) == 0 {
					to = cq.Subordinate
					b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
				}
				d := t.virtual(t.dispatchCore())
				b.SendGoSignal(to, cq.SendGoSignal{
					Go: cq.NewGoWord(0, d.X, d.Y, cq.SignalResetReadPtr), WaitCount: uint32(t.q.State().Expected),
					WaitStream: uint32(t.p.Stream.FirstDispatch),
				})
				reset = true
			}
		})
		if record != nil {
			t.ok(t.q.Receive(t.ctx, cmds, record))
			records = append(records, record...)
			continue
		}
		t.ok(t.q.Send(t.ctx, cmds, stall))
		if reset {
			t.answered(t.disp.L1Banks())
		}
		if stall {
			t.finish() // before the trace's memory is used again
		}
	}
	t.finish()
	var out []leaving
	for _, c := range watched {
		out = append(out, leaving{fmt.Sprintf("core %v", c), t.peek(c, scratch, areaSize)})
	}
	for b := range t.ch.DRAMBanks() {
		out = append(out, leaving{fmt.Sprintf("DRAM bank %d", b), t.peekDRAM(b, areaDRAM, areaSize)})
	}
	var counters []byte
	for s := range 8 { // those that workers may report to
		v, err := t.kd.Read32(t.virtual(t.dispatchCore()), uint64(t.p.Stream.Reg(t.p.Stream.FirstDispatch+s, chip.SpaceAvailable)))
		t.ok(err)
		counters = binary.LittleEndian.AppendUint32(counters, v&cq.CountMask)
	}
	return append(out, leaving{"records", records}, leaving{"counters of completions", counters})
}
