package hwtest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// cqOwnCases are about the commands that this runtime has beside those of the pinned revision.
func cqOwnCases() []testCase {
	var cs []testCase
	for _, n := range []int{1, 2, 3, 20, 60} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("SEQUENCE of %d commands", n),
			protects: "commands that share a page run in order, each with its own bytes, wherever they end",
			fn:       func(t *fixture) { sequenceOf(t, n) },
		})
	}
	return append(cs, []testCase{
		{name: "SEQUENCE of a page", protects: "a sequence may fill its page to the last byte", fn: sequencePage},
		{name: "SEQUENCE laps", protects: "sequences follow each other around the ring", fn: sequenceLaps},
		{name: "SEQUENCE of all kinds", protects: "packed writes, offsets and waits do in a sequence what they do alone", fn: sequenceKinds},
		{name: "SEQUENCE with relayed data", protects: "the last command of a sequence may get its data by a relay, of any length", fn: sequenceRelay},
		{name: "SEQUENCE in a trace", protects: "sequences run out of DRAM as out of the issue queue", fn: sequenceTrace},
		{name: "FORWARD_SUBORDINATE to the workers", protects: "a go signal that the dispatcher forwards to its subordinate reaches every worker once, after what was written before", fn: forwardSubordinateWorkers},
		{name: "FORWARD_SUBORDINATE laps", protects: "slots of forwarded go signals are reused: each signal goes out whole, more of them than there are slots", fn: func(t *fixture) { forwardSubordinateLaps(t, t.size(40, 8)) }},
		{name: "FORWARD_SUBORDINATE beside pages", protects: "go signals from the dispatcher and from the prefetcher go out in the order of the commands", fn: forwardSubordinateBesidePages},
	}...)
}

// writer makes commands that write to places of their own, and records what lies there afterwards.
type writer struct {
	t    *fixture
	core chip.Core
	want []byte
	n    uint32
}

func (t *fixture) writer(c chip.Core, size int) *writer {
	w := &writer{t: t, core: c, want: pattern(0xDEAD, size)}
	t.poke(c, scratch, w.want)
	return w
}

// write writes n bytes at an offset.
func (w *writer) write(at, n int) cq.WriteLinear {
	w.n++
	data := pattern(w.n, n)
	copy(w.want[at:], data)
	return cq.WriteLinear{NOC: w.t.nocXY(w.core), Addr: uint64(scratch + at), Length: uint64(n), Data: data}
}

func (w *writer) check(what string) {
	w.t.Helper()
	w.t.same(what, w.want, w.t.peek(w.core, scratch, len(w.want)))
}

func sequenceOf(t *fixture, n int) {
	w := t.writer(t.grid().End, 4096)
	var s cq.Sequence
	for i := range n {
		at := i
		if i%5 == 4 {
			at-- // over the previous one
		}
		s.Commands = append(s.Commands, w.write(64*at+at%3*16, 1+at%37))
	}
	t.do(func(b *cq.Builder) { b.Sequence(s) })
	w.check("written")
}

func sequencePage(t *fixture) {
	w := t.writer(t.grid().Start, 8192)
	const head = cq.HeaderSize + 2*cq.LargeHeaderSize
	t.do(func(b *cq.Builder) {
		b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(0, 1024), w.write(2048, page-head-1024)}})
		b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(6000, 16), w.write(7008, 100)}})
	})
	w.check("written")
}

func sequenceLaps(t *fixture) {
	w := t.writer(t.grid().Start, 4096)
	for range t.size(8, 3) {
		t.send(func(b *cq.Builder) {
			for i := range 60 {
				b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(64*i, 40), cq.Wait{Flags: cq.WaitBarrier}, w.write(64*i+16, 8)}})
			}
		})
	}
	t.finish()
	w.check("written")
}

func sequenceKinds(t *fixture) {
	cores := t.some(7)
	base := uint32(scratch)
	packed := cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, Size: 20, Addr: 64}
	for i, c := range cores {
		t.poke(c, scratch, make([]byte, 4096))
		packed.Cores = append(packed.Cores, t.nocXY(c))
		packed.Data = append(append(packed.Data, pattern(uint32(i+1), 20)...), make([]byte, 12)...)
	}
	noc, n := t.nocRect(t.grid())
	all := pattern(99, 48)
	t.do(func(b *cq.Builder) {
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
		b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(cores[0]), OffsetIndex: 2, Addr: 1024, Data: all})
		b.EndSequence()
	})
	for i, c := range cores {
		want := make([]byte, 4096)
		copy(want[64:], pattern(uint32(i+1), 20))
		copy(want[512:], all)
		copy(want[1024:], all)
		if i == 0 {
			copy(want[1536:], all)
		}
		t.same(fmt.Sprintf("core %v", c), want, t.peek(c, scratch, len(want)))
	}
}

func sequenceRelay(t *fixture) {
	src := t.grid().Start
	for _, n := range []int{16, 100, 4000, 4096, 70_000} {
		w := t.writer(t.grid().End, 128)
		data := pattern(uint32(n), n)
		t.poke(src, scratch, data)
		to := chip.Core{X: t.grid().End.X}
		want := t.guarded(to, scratch, data)
		t.do(func(b *cq.Builder) {
			b.SequenceHeader(cq.Sequence{Commands: []cq.DispatchCommand{
				w.write(0, 20), w.write(64, 33), cq.WriteLinear{NOC: t.nocXY(to), Addr: scratch, Length: uint64(n)},
			}})
			b.RelayLinear(cq.RelayLinear{NOC: t.nocXY(src), Addr: scratch, Length: uint64(n)})
			b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(96, 4), w.write(112, 7)}})
		})
		t.same(fmt.Sprintf("%d bytes relayed", n), want, t.peek(to, scratch-32, len(want)))
		w.check("written beside them")
	}
}

func sequenceTrace(t *fixture) {
	w := t.writer(t.grid().End, 4096)
	for _, log := range []int{10, 12} {
		t.exec(t.trace(9<<20, log, 0, func(b *cq.Builder) {
			for i := range 60 {
				b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(64*i, 1+i%40), w.write(64*i+48, 16)}})
			}
		}))
		t.finish()
		w.check(fmt.Sprintf("written out of pages of %d", 1<<log))
	}
}

// handedGo is a go signal that the dispatcher forwards to its subordinate.
func (t *fixture) handedGo(word cq.GoWord, slot uint8) cq.ForwardSubordinate {
	return cq.ForwardSubordinate{Wait: true, Command: cq.SendGoSignal{
		Go: word, Multicast: slot, WaitCount: uint32(t.q.State().Expected), WaitStream: uint32(t.p.Stream.FirstDispatch),
	}}
}

func forwardSubordinateWorkers(t *fixture) {
	d := t.virtual(t.dispatchCore())
	for i := range t.size(20, 4) {
		c := t.grid().End
		w := t.writer(c, 64)
		t.send(func(b *cq.Builder) {
			over := t.handedGo(cq.NewGoWord(0, d.X, d.Y, cq.SignalResetReadPtr), 0)
			if i%2 == 0 {
				b.Append(cq.RelayInline{Command: w.write(0, 50)})
				b.ForwardSubordinate(over)
				return
			}
			b.Sequence(cq.Sequence{Commands: []cq.DispatchCommand{w.write(0, 50), over}})
		})
		t.answered(t.disp.L1Banks())
		t.finish()
		w.check("written before")
	}
	for c := range t.grid().Cores() {
		if p := binary.LittleEndian.Uint32(t.peek(c, t.l1.LaunchReadPtr, 4)); p != 0 {
			t.Errorf("core %v: launch pointer %d", c, p)
		}
	}
}

// lastSignal waits until all corners have a go message in a slot that workers don't poll.
func (t *fixture) lastSignal(what string, slot uint8, word cq.GoWord) {
	t.Helper()
	at := t.l1.Go + 4*uint32(slot)
	for _, c := range t.corners() {
		for binary.LittleEndian.Uint32(t.peek(c, at, 4)) != uint32(word) {
			if t.ctx.Err() != nil {
				t.Fatalf("%s: core %v never gets the last go message", what, c)
			}
		}
		t.poke(c, at, make([]byte, 4))
	}
}

func forwardSubordinateLaps(t *fixture, laps int) {
	d := t.virtual(t.dispatchCore())
	const slot, signals = 5, 50
	for lap := range laps {
		var last cq.GoWord
		t.send(func(b *cq.Builder) {
			for i := range signals {
				last = cq.NewGoWord(uint8(signals*lap+i), d.X, d.Y, cq.SignalDone)
				b.ForwardSubordinate(t.handedGo(last, slot))
			}
		})
		t.finish()
		t.lastSignal(fmt.Sprintf("lap %d", lap), slot, last)
	}
}

// forwardSubordinateBesidePages sends go signals by both ways. The last word that workers have tells whether one overtook another.
func forwardSubordinateBesidePages(t *fixture) {
	d := t.virtual(t.dispatchCore())
	const slot = 6
	r := rand.New(rand.NewPCG(7, 7))
	for round := range t.size(30, 6) {
		var last cq.GoWord
		t.send(func(b *cq.Builder) {
			for i := range 30 {
				last = cq.NewGoWord(uint8(30*round+i), d.X, d.Y, cq.SignalDone)
				over := t.handedGo(last, slot)
				if r.IntN(2) == 0 {
					b.ForwardSubordinate(over)
					continue
				}
				b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
				b.SendGoSignal(cq.Subordinate, over.Command.(cq.SendGoSignal))
			}
		})
		t.finish()
		t.lastSignal(fmt.Sprintf("round %d", round), slot, last)
	}
}
