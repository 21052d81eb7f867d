package commands

import (
	"fmt"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

func ownCases() (cs rig.Table) {
	rig.Each(&cs, "SEQUENCE of %d commands", "commands that share a page run in order, each with its bytes",
		sequenceOf, 1, 2, 3, 20, 60)
	cs.Add("SEQUENCE of a page", "a sequence may fill its page to the last byte", sequencePage)
	cs.Add("SEQUENCE laps", "sequences follow each other around the ring", sequenceLaps)
	cs.Add("SEQUENCE of all kinds", "packed writes, offsets and waits do in a sequence what they do alone", sequenceKinds)
	cs.Add("SEQUENCE with relayed data", "a sequence's last command may get its data by a relay", sequenceRelay)
	cs.Add("SEQUENCE in a trace", "sequences run out of DRAM as out of the issue queue", sequenceTrace)
	cs.Add("FORWARD_SUBORDINATE to the workers", "a forwarded go signal reaches every worker once, after earlier writes", forwardSubordinateWorkers)
	cs.Add("FORWARD_SUBORDINATE laps", "more forwarded go signals than slots go out whole",
		func(t *rig.T) { signalLaps(t, t.Size(40, 8), 50, forward) })
	cs.Add("FORWARD_SUBORDINATE beside pages", "go signals of both kinds go out in the commands' order", forwardSubordinateBesidePages)
	return cs
}

// writer makes commands that write to places of their own.
type writer struct {
	area
	core chip.Core
	n    uint32
}

func newWriter(t *rig.T, c chip.Core, size int) *writer {
	return &writer{area: newArea(t, size, c), core: c}
}

func (w *writer) write(at, n int) cq.WriteLinear {
	w.n++
	data := rig.Pattern(w.n, n)
	w.put(w.core.Range(), at, data)
	return cq.WriteLinear{NOC: w.t.NOCXY(w.core), Addr: uint64(rig.Scratch + at), Length: uint64(n), Data: data}
}

func sequenceOf(t *rig.T, n int) {
	w := newWriter(t, t.Grid().End, 4096)
	var s cq.Sequence
	for i := range n {
		at := i
		if i%5 == 4 {
			at--
		}
		s.Commands = append(s.Commands, w.write(64*at+at%3*16, 1+at%37))
	}
	t.Do(func(b *cq.Builder) { b.Sequence(s) })
	w.check("written")
}

func sequencePage(t *rig.T) {
	w := newWriter(t, t.Grid().Start, 8192)
	const head = cq.HeaderSize + 2*cq.LargeHeaderSize
	t.Do(func(b *cq.Builder) {
		b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(0, 1024), w.write(2048, page-head-1024)}})
		b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(6000, 16), w.write(7008, 100)}})
	})
	w.check("written")
}

func sequenceLaps(t *rig.T) {
	w := newWriter(t, t.Grid().Start, 4096)
	for range t.Size(8, 3) {
		t.Send(func(b *cq.Builder) {
			for i := range 60 {
				b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(64*i, 40), cq.Wait{Flags: cq.WaitBarrier},
					w.write(64*i+16, 8)}})
			}
		})
	}
	t.Finish()
	w.check("written")
}

func sequenceKinds(t *rig.T) {
	cores := some(t, 7)
	base := uint32(rig.Scratch)
	packed := cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, Size: 20, Addr: 64}
	for i, c := range cores {
		t.Poke(c, rig.Scratch, make([]byte, 4096))
		packed.Cores = append(packed.Cores, t.NOCXY(c))
		packed.Data = append(append(packed.Data, rig.Pattern(i+1, 20)...), make([]byte, 12)...)
	}
	noc, n := t.NOCRect(t.Grid())
	all := rig.Pattern(99, 48)
	t.Do(func(b *cq.Builder) {
		b.BeginSequence()
		b.SetWriteOffset(cq.SetWriteOffset{Count: 3, Offsets: [4]uint32{0, base, base + 512}})
		b.Wait(cq.Master, cq.Wait{})
		b.WritePacked(packed)
		b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16, OffsetIndex: 2, Data: all,
			Subs: []cq.LargeSub{{NOC: noc, Length: 48, Dests: uint8(n), Unlink: true}}})
		b.WritePacked(cq.WritePacked{Type: cq.PackedLaunch, OffsetIndex: 1, Size: 48, Addr: 1024, NoStride: true,
			Rects: []cq.Rect{{NOC: noc, Dests: uint32(n)}}, Data: all})
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier})
		b.Sink()
		b.Delay(cq.Delay{Loops: 10})
		b.WriteLinear(cq.WriteLinear{NOC: t.NOCXY(cores[0]), OffsetIndex: 2, Addr: 1024, Data: all})
		b.EndSequence()
	})
	for i, c := range cores {
		want := make([]byte, 4096)
		copy(want[64:], rig.Pattern(i+1, 20))
		copy(want[512:], all)
		copy(want[1024:], all)
		if i == 0 {
			copy(want[1536:], all)
		}
		t.InL1(c, rig.Scratch, want, "written")
	}
}

func sequenceRelay(t *rig.T) {
	src := t.Grid().Start
	for _, n := range []int{16, 100, 4000, 4096, 70_000} {
		w := newWriter(t, t.Grid().End, 128)
		data := rig.Pattern(n, n)
		t.Poke(src, rig.Scratch, data)
		to := chip.Core{X: t.Grid().End.X}
		a := newArea(t, n, to)
		a.put(to.Range(), 0, data)
		t.Do(func(b *cq.Builder) {
			b.SequenceHeader(cq.Sequence{Commands: []cq.DispatchCommand{
				w.write(0, 20), w.write(64, 33), cq.WriteLinear{NOC: t.NOCXY(to), Addr: rig.Scratch, Length: uint64(n)},
			}})
			b.RelayLinear(cq.RelayLinear{NOC: t.NOCXY(src), Addr: rig.Scratch, Length: uint64(n)})
			b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(96, 4), w.write(112, 7)}})
		})
		a.check("%d bytes relayed", n)
		w.check("written beside them")
	}
}

func sequenceTrace(t *rig.T) {
	w := newWriter(t, t.Grid().End, 4096)
	for _, log := range []int{10, 12} {
		exec(t, t.CommandTrace(9<<20, log, 0, func(b *cq.Builder) {
			for i := range 60 {
				b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(64*i, 1+i%40), w.write(64*i+48, 16)}})
			}
		}))
		t.Finish()
		w.check("written out of pages of %d", 1<<log)
	}
}

func forwardSubordinateWorkers(t *rig.T) {
	for i := range t.Size(20, 4) {
		c := t.Grid().End
		w := newWriter(t, c, 64)
		t.Send(func(b *cq.Builder) {
			signal := goSignal(t, 0, cq.SignalResetReadPtr, 0)
			if i%2 == 0 {
				b.Append(cq.RelayInline{Command: w.write(0, 50)})
				forward(b, signal)
				return
			}
			b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(0, 50), cq.ForwardSubordinate{Wait: true, Command: signal}}})
		})
		t.Answered(t.Dispatch.L1Banks())
		t.Finish()
		w.check("written before")
	}
	launchPointersReset(t)
}

func lastSignal(t *rig.T, what string, signal cq.SendGoSignal) {
	at := t.L1.Go + 4*uint32(signal.Multicast)
	for _, c := range t.Corners() {
		for rig.Word(t.Peek(c, at, 4)) != uint32(signal.Go) {
			if t.Ctx.Err() != nil {
				t.Fatalf("%s: core %v never gets the last go message", what, c)
			}
		}
		t.Poke(c, at, make([]byte, 4))
	}
}

// signalLaps sends go signals, which differ, in one batch each lap. The last one has to arrive.
func signalLaps(t *rig.T, laps, signals int, send func(*cq.Builder, cq.SendGoSignal)) {
	for lap := range laps {
		var last cq.SendGoSignal
		t.Send(func(b *cq.Builder) {
			for i := range signals {
				last = goSignal(t, uint8(signals*lap+i), cq.SignalDone, 5)
				send(b, last)
			}
		})
		t.Finish()
		lastSignal(t, fmt.Sprintf("lap %d", lap), last)
	}
}

func forward(b *cq.Builder, signal cq.SendGoSignal) {
	b.ForwardSubordinate(cq.ForwardSubordinate{Wait: true, Command: signal})
}

func forwardSubordinateBesidePages(t *rig.T) {
	r := rand.New(rand.NewPCG(7, 7))
	signalLaps(t, t.Size(30, 6), 30, func(b *cq.Builder, signal cq.SendGoSignal) {
		if r.IntN(2) == 0 {
			forward(b, signal)
			return
		}
		b.SendGoSignal(dispatcher(b, true), signal)
	})
}
