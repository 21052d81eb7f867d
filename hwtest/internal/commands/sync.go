package commands

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

func syncCases() (cs rig.Table) {
	cs.Add("STALL orders reads after writes", "what the prefetcher relays after a STALL is what was written before it", StallOrders)
	cs.Add("WAIT clears the stream", "a cleared stream counts from 0", waitClears)
	cs.Add("SINK and DEBUG", "commands for tests are skipped with their payload", sinkDebug)
	cs.Add("SET_NUM_WORKER_SEMS", "the command is valid for both dispatchers", numWorkerSems)
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
			b.RelayLinear(cq.RelayLinear{NOC: t.NOCXY(c), Addr: uint64(rig.Scratch + 0x1400*i), Length: uint64(len(data))})
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
		b.Sink()
		for _, n := range []int{0, 1, 48, 5000} {
			b.DebugPrefetch(cq.DebugPrefetch{Key: 7, Data: rig.Pattern(9, n)})
			b.DebugDispatch(cq.DebugDispatch{Key: 8, Stride: uint32(16 + n), Data: rig.Pattern(10, n)})
		}
		b.Sink()
		t.WriteTile(b, c, rig.Scratch, rig.Pattern(11, 16))
	})
	t.InL1(c, rig.Scratch, rig.Pattern(11, 16), "written after them")
}

func numWorkerSems(t *rig.T) {
	t.Do(func(b *cq.Builder) {
		b.SetNumWorkerSems(cq.Master, cq.SetNumWorkerSems{Num: 1})
		b.SetNumWorkerSems(cq.Subordinate, cq.SetNumWorkerSems{Num: 1})
	})
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
		b.SetGoSignalNOCData(to, cq.SetGoSignalNOCData{Words: words})
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
