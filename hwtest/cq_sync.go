package hwtest

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

func cqSyncCases() []testCase {
	cs := []testCase{
		{name: "WAIT without flags", protects: "a WAIT that waits for nothing goes on", fn: waitNothing},
		{name: "WAIT barrier", protects: "after a barrier everything written has landed", fn: waitBarrier},
		{name: "STALL in series", protects: "each STALL waits for its own notification, thousands of times", fn: stallSeries},
		{name: "STALL orders reads after writes", protects: "what the prefetcher relays after a STALL is what was written before it", fn: stallOrders},
		{name: "WAIT clears the stream", protects: "a cleared stream counts from 0", fn: waitClears},
		{name: "DELAY", protects: "a delay only takes time", fn: delays},
		{name: "SINK and DEBUG", protects: "commands for tests are skipped with their payload", fn: sinkDebug},
		{name: "SET_NUM_WORKER_SEMS", protects: "the command is valid for both dispatchers", fn: numWorkerSems},
		{name: "subordinate's ring laps", protects: "the subordinate's ring wraps: every go signal is sent once, from a page that is not overwritten before", fn: func(t *fixture) { subordinateLaps(t, t.size(6, 2)) }},
		{name: "events count up", protects: "each event arrives after everything before it", fn: eventsCount},
	}
	for _, s := range []struct {
		name  string
		sub   bool
		slots []uint8
	}{
		{"the dispatcher", false, []uint8{0}}, {"the subordinate", true, []uint8{0}}, {"the subordinate to other slots", true, []uint8{1, 5, 8, 0}},
	} {
		cs = append(cs, testCase{
			name:     "SEND_GO_SIGNAL by " + s.name,
			protects: "a go signal reaches every worker once and is answered once",
			fn:       func(t *fixture) { goSignal(t, s.sub, s.slots) },
		})
	}
	for _, n := range []int{1, 2, 60, 64} {
		for _, sub := range []bool{true, false} {
			if n > 60 && sub {
				continue // what is left of its page holds 60 words
			}
			cs = append(cs, testCase{
				name: fmt.Sprintf("go signal to %d tiles of the table, by %v", n,
					map[bool]string{true: "the subordinate", false: "the dispatcher"}[sub]),
				protects: "a unicast go signal reaches exactly the tiles of the table that it names",
				fn:       func(t *fixture) { goUnicast(t, n, sub) },
			})
		}
	}
	for _, g := range []struct{ start, want uint32 }{
		{0, 1}, {0x1FFF0, 0x1FFFF}, {0x1FFFC, 0x20003}, {0xFFFF, 0x10000}, {0x10000, 0x1FFFF},
	} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("WAIT stream from %#x to %#x", g.start, g.want),
			protects: "the dispatcher compares completion counts modulo 2^17",
			fn:       func(t *fixture) { waitStream(t, g.start, g.want) },
		})
	}
	for _, g := range []struct{ start, want uint32 }{
		{0, 1}, {0xFFFFFFF0, 5}, {0x7FFFFFFF, 0x80000000}, {0x80000000, 0xFFFFFFFF},
	} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("WAIT memory from %#x to %#x", g.start, g.want),
			protects: "the dispatcher compares words of memory modulo 2^32",
			fn:       func(t *fixture) { waitMemory(t, g.start, g.want) },
		})
	}
	for _, mask := range []uint16{1, 2, 0x80, 0xFF} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("NOTIFY_SUBORDINATE mask %#x", mask),
			protects: "each bit of the mask counts up its sub-device's word",
			fn:       func(t *fixture) { notifyMask(t, mask) },
		})
	}
	return cs
}

// dispatchCore is where the queue's dispatchers run.
func (t *fixture) dispatchCore() chip.Core {
	_, c := t.q.Cores()
	return c
}

// waypoint waits until a processor of a core shows a waypoint, so that what follows finds it waiting.
func (t *fixture) waypoint(c chip.Core, p chip.Processor, name string) {
	t.Helper()
	for {
		b := t.peek(c, t.l1.CoreState+uint32(p)*t.l1.CoreStateSize, 4)
		if string(b) == name {
			return
		}
		if err := t.kd.Fault(); err != nil {
			t.ok(err)
		}
		if t.ctx.Err() != nil {
			t.Fatalf("%v of core %v is at %q, not at %q", p, c, b, name)
		}
		runtime.Gosched()
	}
}

// free is an address in the dispatch core's L1 that its kernels don't use.
const free = 0xC0000

func waitNothing(t *fixture) {
	t.do(func(b *cq.Builder) {
		for range 100 {
			b.Wait(cq.Master, cq.Wait{})
		}
	})
}

func waitBarrier(t *fixture) {
	c := t.grid().End
	data := pattern(1, 4096)
	t.do(func(b *cq.Builder) {
		for i := range 20 {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(scratch + 4096*i), Data: data})
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier})
		}
	})
	for i := range 20 {
		t.same("written", data, t.peek(c, uint32(scratch+4096*i), 4096))
	}
}

func stallSeries(t *fixture) {
	n := t.size(2000, 300)
	for range n / 100 {
		t.send(func(b *cq.Builder) {
			for range 100 {
				b.WaitStall(cq.Wait{})
			}
		})
	}
	t.finish()
}

// stallOrders copies a block from place to place; each step reads what the step before has written.
func stallOrders(t *fixture) {
	c := t.grid().Start
	data := pattern(2, 5000&^15)
	n := t.size(100, 30)
	t.poke(c, scratch, data)
	t.do(func(b *cq.Builder) {
		for i := range n {
			b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(scratch + 0x1400*(i+1)), Length: uint64(len(data))})
			b.RelayLinear(cq.RelayLinear{NOC: t.nocXY(c), Addr: uint64(scratch + 0x1400*i), Length: uint64(len(data))})
			b.WaitStall(cq.Wait{})
		}
	})
	t.same("the last copy", data, t.peek(c, uint32(scratch+0x1400*n), len(data)))
}

// streamAt makes the completion stream show a value, which the queue then takes for its count.
func (t *fixture) streamAt(v uint32) {
	t.Helper()
	t.finish()
	s := t.p.Stream.FirstDispatch
	xy := t.virtual(t.dispatchCore())
	now, err := t.kd.Read32(xy, uint64(t.p.Stream.Reg(s, chip.SpaceAvailable)))
	t.ok(err)
	t.ok(t.kd.Write32(xy, uint64(t.p.Stream.Reg(s, chip.SpaceAvailableUpdate)), chip.StreamUpdate(int32(v-now))))
	now, err = t.kd.Read32(xy, uint64(t.p.Stream.Reg(s, chip.SpaceAvailable)))
	t.ok(err)
	if now&cq.CountMask != v&cq.CountMask {
		t.Fatalf("the stream shows %#x, want %#x", now, v)
	}
	st := t.q.State()
	st.Expected = cq.Count(v)
	t.q.SetState(st)
}

func waitStream(t *fixture, start, want uint32) {
	c := t.grid().Start
	s := t.p.Stream.FirstDispatch
	update := uint64(t.p.Stream.Reg(s, chip.SpaceAvailableUpdate))
	t.streamAt(start)
	t.poke(c, scratch, make([]byte, 16))
	t.send(func(b *cq.Builder) {
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: uint16(s), Count: want})
		b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: pattern(3, 16)})
	})
	for left := want - start; left > 0; {
		t.waypoint(t.dispatchCore(), chip.BRISC, "WRKR")
		t.same("written before the count was reached", make([]byte, 16), t.peek(c, scratch, 16))
		n := (left + 1) / 2
		t.ok(t.kd.Write32(t.virtual(t.dispatchCore()), update, chip.StreamUpdate(int32(n))))
		left -= n
	}
	st := t.q.State()
	st.Expected = cq.Count(want)
	t.q.SetState(st)
	t.finish()
	t.same("written", pattern(3, 16), t.peek(c, scratch, 16))
	t.streamAt(0)
}

func waitMemory(t *fixture, start, want uint32) {
	c, d := t.grid().Start, t.dispatchCore()
	word := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	t.poke(d, free, word(start))
	t.poke(c, scratch, make([]byte, 16))
	t.send(func(b *cq.Builder) {
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: free, Count: want})
		b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: pattern(4, 16)})
	})
	t.waypoint(d, chip.BRISC, "WMEM")
	t.poke(d, free, word(want-1))
	t.same("written before the word was reached", make([]byte, 16), t.peek(c, scratch, 16))
	t.poke(d, free, word(want))
	t.finish()
	t.same("written", pattern(4, 16), t.peek(c, scratch, 16))
}

func waitClears(t *fixture) {
	s := t.p.Stream.FirstDispatch
	for _, v := range []uint32{5, 0x1FFFF, 0x10000} {
		t.streamAt(v)
		t.send(func(b *cq.Builder) {
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: uint16(s), Count: v})
		})
		st := t.q.State()
		st.Expected = 0
		t.q.SetState(st)
		t.finish()
		now, err := t.kd.Read32(t.virtual(t.dispatchCore()), uint64(t.p.Stream.Reg(s, chip.SpaceAvailable)))
		t.ok(err)
		if now&cq.CountMask != 0 {
			t.Errorf("cleared from %#x the stream shows %#x", v, now)
		}
	}
}

func delays(t *fixture) {
	t.do(func(b *cq.Builder) {
		for _, n := range []uint32{0, 1, 1000, uint32(t.size(100_000, 5000))} {
			b.Delay(cq.Delay{Loops: n})
		}
	})
}

func sinkDebug(t *fixture) {
	c := t.grid().Start
	t.poke(c, scratch, make([]byte, 16))
	t.do(func(b *cq.Builder) {
		b.Sink()
		for _, n := range []int{0, 1, 48, 5000} {
			b.DebugPrefetch(cq.DebugPrefetch{Key: 7, Data: pattern(9, n)})
			b.DebugDispatch(cq.DebugDispatch{Key: 8, Stride: uint32(16 + n), Data: pattern(10, n)})
		}
		b.Sink()
		b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: pattern(11, 16)})
	})
	t.same("written after them", pattern(11, 16), t.peek(c, scratch, 16))
}

func numWorkerSems(t *fixture) {
	t.do(func(b *cq.Builder) {
		b.SetNumWorkerSems(cq.Master, cq.SetNumWorkerSems{Num: 1})
		b.SetNumWorkerSems(cq.Subordinate, cq.SetNumWorkerSems{Num: 1})
	})
}

func eventsCount(t *fixture) {
	c := t.grid().End
	for i := range t.size(300, 60) {
		t.send(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: pattern(uint32(i), 16)})
		})
		t.finish()
		t.same(fmt.Sprintf("after event %d", i), pattern(uint32(i), 16), t.peek(c, scratch, 16))
	}
}

// answered tells the queue that the workers, whose launch pointers were reset, have answered n times.
func (t *fixture) answered(n int) {
	t.Helper()
	t.q.SetState(t.disp.After(dispatch.Detached{Expected: t.q.State().Expected + cq.Count(n)}))
}

// goSignal sends signals that make workers reset their launch pointers and answer.
func goSignal(t *fixture, sub bool, slots []uint8) {
	d := t.virtual(t.dispatchCore())
	to := cq.Master
	if sub {
		to = cq.Subordinate
	}
	for _, slot := range slots {
		word := cq.NewGoWord(0, d.X, d.Y, cq.SignalResetReadPtr)
		t.send(func(b *cq.Builder) {
			if sub {
				b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
			}
			b.SendGoSignal(to, cq.SendGoSignal{Go: word, Multicast: slot, WaitCount: uint32(t.q.State().Expected),
				WaitStream: uint32(t.p.Stream.FirstDispatch)})
		})
		if slot == 0 { // the one that workers poll
			t.answered(t.disp.L1Banks())
			t.finish()
			continue
		}
		t.finish()
		for _, c := range t.corners() {
			for binary.LittleEndian.Uint32(t.peek(c, t.l1.Go+4*uint32(slot), 4)) != uint32(word) {
				if t.ctx.Err() != nil {
					t.Fatalf("core %v never gets its go message %d", c, slot)
				}
			}
			t.poke(c, t.l1.Go+4*uint32(slot), make([]byte, 4))
		}
	}
	for c := range t.grid().Cores() {
		if p := binary.LittleEndian.Uint32(t.peek(c, t.l1.LaunchReadPtr, 4)); p != 0 {
			t.Errorf("core %v: launch pointer %d", c, p)
		}
	}
}

// subordinatePages is the length of the subordinate's ring.
const subordinatePages = 128

// subordinateLaps fills the subordinate's ring several times over. Each go signal differs from the others, so a page shows
// that is released before its signal is sent, or is read at the wrong place.
func subordinateLaps(t *fixture, laps int) {
	d := t.virtual(t.dispatchCore())
	const slot = 5
	for lap := range laps {
		last := cq.NewGoWord(uint8(lap), d.X, d.Y, cq.SignalDone)
		t.send(func(b *cq.Builder) {
			for i := range subordinatePages {
				word := cq.NewGoWord(uint8(i), d.X, d.Y, cq.SignalDone)
				if i == subordinatePages-1 {
					word = last
				}
				b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
				b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: word, Multicast: slot, WaitCount: uint32(t.q.State().Expected),
					WaitStream: uint32(t.p.Stream.FirstDispatch)})
			}
		})
		t.finish()
		for _, c := range t.corners() {
			for binary.LittleEndian.Uint32(t.peek(c, t.l1.Go+4*slot, 4)) != uint32(last) {
				if t.ctx.Err() != nil {
					t.Fatalf("lap %d: core %v never gets the last go message", lap, c)
				}
			}
			t.poke(c, t.l1.Go+4*slot, make([]byte, 4))
		}
	}
}

func goUnicast(t *fixture, n int, sub bool) {
	d := t.virtual(t.dispatchCore())
	to := cq.Master
	if sub {
		to = cq.Subordinate
	}
	cores := t.some(min(n, t.disp.L1Banks()))
	var words []uint32
	for _, c := range cores {
		words = append(words, t.nocXY(c))
	}
	for len(words) < n { // the rest of the table isn't used
		words = append(words, t.nocXY(t.grid().End))
	}
	first := len(cores) / 3
	t.send(func(b *cq.Builder) {
		if sub {
			b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
		}
		b.SetGoSignalNOCData(to, cq.SetGoSignalNOCData{Words: words})
		b.SendGoSignal(to, cq.SendGoSignal{
			Go: cq.NewGoWord(0, d.X, d.Y, cq.SignalResetReadPtr), Multicast: cq.NoMulticast, NumUnicast: uint8(len(cores) - first),
			NOCStart:  uint8(first),
			WaitCount: uint32(t.q.State().Expected), WaitStream: uint32(t.p.Stream.FirstDispatch),
		})
	})
	st := t.q.State()
	st.Expected += cq.Count(len(cores) - first)
	t.q.SetState(st)
	t.finish()
	// All workers again, so that all launch pointers are where the queue takes them to be.
	goSignal(t, true, []uint8{0})
}

func notifyMask(t *fixture, mask uint16) {
	// The sync words lie in the control block at the start of free L1.
	at := t.l1.Unreserved + 0x50
	read := func() (w [8]uint32) {
		b := t.peek(t.dispatchCore(), at, 8*16)
		for i := range w {
			w[i] = binary.LittleEndian.Uint32(b[16*i:])
		}
		return w
	}
	before := read()
	t.do(func(b *cq.Builder) {
		b.NotifySubordinate(cq.NotifySubordinate{Mask: mask})
		b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: mask})
		if mask&1 != 0 { // used up, so that the next program waits for its own
			d := t.virtual(t.dispatchCore())
			for range 2 {
				b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, d.X, d.Y, cq.SignalDone), Multicast: cq.NoMulticast,
					WaitCount: uint32(t.q.State().Expected), WaitStream: uint32(t.p.Stream.FirstDispatch)})
			}
		}
	})
	for i, v := range read() {
		want := before[i]
		if mask&(1<<i) != 0 {
			want += 2
		}
		if v != want {
			t.Errorf("word %d is %d, want %d", i, v, want)
		}
	}
}
