package commands

import (
	"fmt"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

func syncCases() (cs rig.Table) {
	cs.Add("STALL orders reads after writes", "what the prefetcher relays after a STALL is what was written before it", StallOrders)
	cs.Add("WAIT clears the stream", "a cleared stream counts from 0", waitClears)
	cs.Add("SINK and DEBUG", "commands for tests are skipped with their payload", sinkDebug)
	cs.Add("SET_NUM_WORKER_SEMS", "the command is valid for both dispatchers", func(t *rig.T) {
		t.Do(func(b *cq.Builder) {
			b.Dispatch(cq.Master, cq.SetNumWorkerSems{Num: 1})
			b.Dispatch(cq.Subordinate, cq.SetNumWorkerSems{Num: 1})
		})
	})
	cs.Add("subordinate's ring laps", "the subordinate's ring wraps and sends every go signal once",
		func(t *rig.T) { SubordinateLaps(t, t.Size(6, 2)) })
	for _, s := range []struct {
		name  string
		sub   bool
		slots []uint8
	}{
		{"the dispatcher", false, []uint8{0}}, {"the subordinate", true, []uint8{0}}, {"the subordinate to other slots", true, []uint8{1, 5, 8, 0}},
	} {
		cs.Add("SEND_GO_SIGNAL by "+s.name, "a go signal reaches every worker once and is answered once",
			func(t *rig.T) { GoSignal(t, s.sub, s.slots) })
	}
	for _, n := range []int{1, 2, 60, 64} {
		for _, sub := range []bool{true, false} {
			if n > 60 && sub {
				continue // what is left of its page holds 60 words
			}
			cs.Add(fmt.Sprintf("go signal to %d tiles of the table, by %v", n,
				map[bool]string{true: "the subordinate", false: "the dispatcher"}[sub]), "a unicast go signal reaches exactly the tiles of the table that it names", func(t *rig.T) { GoUnicast(t, n, sub) })
		}
	}
	rig.Each(&cs, "WAIT stream from %#x to %#x", "the dispatcher compares completion counts modulo 2^17", waitStream,
		[][2]uint32{{0, 1}, {0x1FFF0, 0x1FFFF}, {0x1FFFC, 0x20003}, {0xFFFF, 0x10000}, {0x10000, 0x1FFFF}}...)
	rig.Each(&cs, "WAIT memory from %#x to %#x", "the dispatcher compares words of memory modulo 2^32", waitMemory,
		[][2]uint32{{0, 1}, {0xFFFFFFF0, 5}, {0x7FFFFFFF, 0x80000000}, {0x80000000, 0xFFFFFFFF}}...)
	rig.Each(&cs, "NOTIFY_SUBORDINATE mask %#x", "each bit of the mask counts up its sub-device's word", notifyMask, 1, 2, 0x80, 0xFF)
	return cs
}

// StallOrders copies a block from place to place.
func StallOrders(t *rig.T) {
	c := t.Grid().Start
	data := rig.Pattern(2, 5000&^15)
	n := t.Size(100, 30)
	t.Poke(c, rig.Scratch, data)
	t.Do(func(b *cq.Builder) {
		for i := range n {
			t.WriteTileHeader(b, c, rig.Scratch+0x1400*(i+1), len(data))
			b.Append(cq.RelayLinear{NOC: t.NOCXY(c), Addr: uint64(rig.Scratch + 0x1400*i), Length: uint64(len(data))})
			b.WaitStall(cq.Wait{})
		}
	})
	t.InL1(c, uint32(rig.Scratch+0x1400*n), data, "the last copy")
}

// streamAt makes the completion stream show a value and the queue expect it.
func streamAt(t *rig.T, v uint32) {
	t.Finish()
	update := uint64(t.Params.Stream.Reg(t.Params.Stream.FirstDispatch, chip.SpaceAvailableUpdate))
	t.Store32(t.Virtual(t.DispatchCore()), update, chip.StreamUpdate(int32(v-shown(t))))
	if now := shown(t); now&cq.CountMask != v&cq.CountMask {
		t.Fatalf("the stream shows %#x, want %#x", now, v)
	}
	expect(t, cq.Count(v))
}

func expect(t *rig.T, n cq.Count) {
	st := t.CQ.State()
	st.Expected = n
	t.CQ.SetState(st)
}

func shown(t *rig.T) uint32 {
	return t.Load32(t.Virtual(t.DispatchCore()), uint64(t.Params.Stream.Reg(t.Params.Stream.FirstDispatch, chip.SpaceAvailable)))
}

func waitStream(t *rig.T, counts [2]uint32) {
	start, want := counts[0], counts[1]
	c := t.Grid().Start
	s := t.Params.Stream.FirstDispatch
	update := uint64(t.Params.Stream.Reg(s, chip.SpaceAvailableUpdate))
	streamAt(t, start)
	t.Poke(c, rig.Scratch, make([]byte, 16))
	t.Send(func(b *cq.Builder) {
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: uint16(s), Count: want})
		t.WriteTile(b, c, rig.Scratch, rig.Pattern(3, 16))
	})
	for left := want - start; left > 0; {
		t.Waypoint(t.DispatchCore(), chip.BRISC, "WRKR")
		t.InL1(c, rig.Scratch, make([]byte, 16), "written before the count was reached")
		n := (left + 1) / 2
		t.Store32(t.Virtual(t.DispatchCore()), update, chip.StreamUpdate(int32(n)))
		left -= n
	}
	expect(t, cq.Count(want))
	t.Finish()
	t.InL1(c, rig.Scratch, rig.Pattern(3, 16), "written")
	streamAt(t, 0)
}

func waitMemory(t *rig.T, words [2]uint32) {
	start, want := words[0], words[1]
	c, d := t.Grid().Start, t.DispatchCore()
	word := func(v uint32) []byte { return rig.AppendWord(nil, v) }
	t.Poke(d, rig.Free, word(start))
	t.Poke(c, rig.Scratch, make([]byte, 16))
	t.Send(func(b *cq.Builder) {
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: rig.Free, Count: want})
		t.WriteTile(b, c, rig.Scratch, rig.Pattern(4, 16))
	})
	t.Waypoint(d, chip.BRISC, "WMEM")
	t.Poke(d, rig.Free, word(want-1))
	t.InL1(c, rig.Scratch, make([]byte, 16), "written before the word was reached")
	t.Poke(d, rig.Free, word(want))
	t.Finish()
	t.InL1(c, rig.Scratch, rig.Pattern(4, 16), "written")
}

func waitClears(t *rig.T) {
	s := t.Params.Stream.FirstDispatch
	for _, v := range []uint32{5, 0x1FFFF, 0x10000} {
		streamAt(t, v)
		t.Send(func(b *cq.Builder) {
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: uint16(s), Count: v})
		})
		expect(t, 0)
		t.Finish()
		rig.Equal(t, shown(t)&cq.CountMask, 0, "the stream, cleared from %#x", v)
	}
}

func sinkDebug(t *rig.T) {
	c := t.Grid().Start
	t.Poke(c, rig.Scratch, make([]byte, 16))
	t.Do(func(b *cq.Builder) {
		b.Dispatch(cq.Master, cq.Sink{})
		for _, n := range []int{0, 1, 48, 5000} {
			b.Append(cq.DebugPrefetch{Key: 7, Data: rig.Pattern(9, n)})
			b.Dispatch(cq.Master, cq.DebugDispatch{Key: 8, Stride: uint32(16 + n), Data: rig.Pattern(10, n)})
		}
		b.Dispatch(cq.Master, cq.Sink{})
		t.WriteTile(b, c, rig.Scratch, rig.Pattern(11, 16))
	})
	t.InL1(c, rig.Scratch, rig.Pattern(11, 16), "written after them")
}

// GoSignal sends signals that make workers reset their launch pointers and answer.
func GoSignal(t *rig.T, sub bool, slots []uint8) {
	for _, slot := range slots {
		signal := goSignal(t, 0, cq.SignalResetReadPtr, slot)
		t.Send(func(b *cq.Builder) {
			b.SendGoSignal(dispatcher(b, sub), signal)
		})
		if slot == 0 {
			t.Answered(t.Dispatch.L1Banks())
			t.Finish()
			continue
		}
		t.Finish()
		lastSignal(t, fmt.Sprintf("slot %d", slot), signal)
	}
	launchPointersReset(t)
}

func launchPointersReset(t *rig.T) {
	for c := range t.Grid().Cores() {
		rig.Equal(t, rig.Word(t.Peek(c, t.L1.LaunchReadPtr, 4)), 0, "core %v: launch pointer", c)
	}
}

// dispatcher is who sends go signals. The subordinate waits for the writes before.
func dispatcher(b *cq.Builder, sub bool) cq.Dispatcher {
	if !sub {
		return cq.Master
	}
	b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
	return cq.Subordinate
}

// goSignal has workers answer to the dispatcher. The number tells signals apart.
func goSignal(t *rig.T, number uint8, what cq.Signal, slot uint8) cq.SendGoSignal {
	d := t.Virtual(t.DispatchCore())
	return cq.SendGoSignal{Go: cq.NewGoWord(number, d.X, d.Y, what), Multicast: slot,
		WaitCount: uint32(t.CQ.State().Expected), WaitStream: uint32(t.Params.Stream.FirstDispatch)}
}

// SubordinateLaps fills the subordinate's ring several times over. All go signals differ, so a
// page that is released early shows.
func SubordinateLaps(t *rig.T, laps int) {
	const pages = 128 // of the ring
	signalLaps(t, laps, pages, func(b *cq.Builder, signal cq.SendGoSignal) {
		b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
		b.SendGoSignal(cq.Subordinate, signal)
	})
}

// GoUnicast sends a go signal to single workers.
func GoUnicast(t *rig.T, n int, sub bool) {
	cores := some(t, min(n, t.Dispatch.L1Banks()))
	var words []uint32
	for _, c := range cores {
		words = append(words, t.NOCXY(c))
	}
	for len(words) < n {
		words = append(words, t.NOCXY(t.Grid().End))
	}
	first := len(cores) / 3
	t.Send(func(b *cq.Builder) {
		to := dispatcher(b, sub)
		b.Dispatch(to, cq.SetGoSignalNOCData{Words: words})
		signal := goSignal(t, 0, cq.SignalResetReadPtr, cq.NoMulticast)
		signal.NOCStart, signal.NumUnicast = uint8(first), uint8(len(cores)-first)
		b.SendGoSignal(to, signal)
	})
	expect(t, t.CQ.State().Expected+cq.Count(len(cores)-first))
	t.Finish()
	// All workers, so that launch pointers are where the queue expects them.
	GoSignal(t, true, []uint8{0})
}

func notifyMask(t *rig.T, mask uint16) {
	// The sync words lie in the control block at the start of free L1.
	at := t.L1.Unreserved + 0x50
	read := func() (w [8]uint32) {
		b := t.Peek(t.DispatchCore(), at, 8*16)
		for i := range w {
			w[i] = rig.Word(b[16*i:])
		}
		return w
	}
	before := read()
	t.Do(func(b *cq.Builder) {
		b.NotifySubordinate(cq.NotifySubordinate{Mask: mask})
		b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: mask})
		if mask&1 != 0 {
			for range 2 {
				b.SendGoSignal(cq.Subordinate, goSignal(t, 0, cq.SignalDone, cq.NoMulticast))
			}
		}
	})
	for i, v := range read() {
		want := before[i]
		if mask&(1<<i) != 0 {
			want += 2
		}
		rig.Equal(t, v, want, "word %d", i)
	}
}

func ownCases() (cs rig.Table) {
	rig.Each(&cs, "SEQUENCE of %d commands", "commands that share a page run in order, each with its bytes",
		sequenceOf, 1, 2, 3, 20, 60)
	cs.Add("SEQUENCE of a page", "a sequence may fill its page to the last byte", func(t *rig.T) {
		w := newWriter(t, t.Grid().Start, 8192)
		const head = cq.HeaderSize + 2*cq.LargeHeaderSize
		t.Do(func(b *cq.Builder) {
			b.Sequence(sequence(w.write(0, 1024), w.write(2048, page-head-1024)))
			b.Sequence(sequence(w.write(6000, 16), w.write(7008, 100)))
		})
		w.check("written")
	})
	cs.Add("SEQUENCE laps", "sequences follow each other around the ring", sequenceLaps)
	cs.Add("SEQUENCE of all kinds", "packed writes, offsets and waits do in a sequence what they do alone", sequenceKinds)
	cs.Add("SEQUENCE with relayed data", "a sequence's last command may get its data by a relay", sequenceRelay)
	cs.Add("SEQUENCE in a trace", "sequences run out of DRAM as out of the issue queue", sequenceTrace)
	cs.Add("FORWARD_SUBORDINATE to the workers", "a forwarded go signal reaches every worker once, after earlier writes", forwardSubordinateWorkers)
	cs.Add("FORWARD_SUBORDINATE laps", "more forwarded go signals than slots go out whole",
		func(t *rig.T) { signalLaps(t, t.Size(40, 8), 50, forward) })
	cs.Add("FORWARD_SUBORDINATE beside pages", "go signals of both kinds go out in the commands' order", func(t *rig.T) {
		r := rand.New(rand.NewPCG(7, 7))
		signalLaps(t, t.Size(30, 6), 30, func(b *cq.Builder, signal cq.SendGoSignal) {
			if r.IntN(2) == 0 {
				forward(b, signal)
				return
			}
			b.SendGoSignal(dispatcher(b, true), signal)
		})
	})
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

func sequence(cs ...cq.DispatchCommand) cq.Sequence { return cq.Sequence{Commands: cs} }

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

func sequenceLaps(t *rig.T) {
	w := newWriter(t, t.Grid().Start, 4096)
	for range t.Size(8, 3) {
		t.Send(func(b *cq.Builder) {
			for i := range 60 {
				b.Sequence(sequence(w.write(64*i, 40), cq.Wait{Flags: cq.WaitBarrier},
					w.write(64*i+16, 8)))
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
		b.Dispatch(cq.Master, cq.Sink{})
		b.Dispatch(cq.Master, cq.Delay{Loops: 10})
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
			b.Append(cq.RelayInlineNoFlush{Command: sequence(w.write(0, 20), w.write(64, 33),
				cq.WriteLinear{NOC: t.NOCXY(to), Addr: rig.Scratch, Length: uint64(n)})})
			b.Append(cq.RelayLinear{NOC: t.NOCXY(src), Addr: rig.Scratch, Length: uint64(n)})
			b.Sequence(sequence(w.write(96, 4), w.write(112, 7)))
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
				b.Sequence(sequence(w.write(64*i, 1+i%40), w.write(64*i+48, 16)))
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
			b.Sequence(sequence(w.write(0, 50), cq.ForwardSubordinate{Wait: true, Command: signal}))
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
	b.Dispatch(cq.Master, cq.ForwardSubordinate{Wait: true, Command: signal})
}
