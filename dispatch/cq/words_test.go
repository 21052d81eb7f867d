package cq

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestSeqAfter(t *testing.T) {
	const top = 1<<32 - 1
	for _, c := range []struct {
		s, o  Seq
		after bool
	}{
		{0, 0, false}, {1, 0, true}, {0, 1, false}, {top, top, false}, {top, 0, false}, {0, top, true},
		{top - 1, 2, false}, {2, top - 1, true}, {1<<31 - 1, 0, true}, {1 << 31, 0, false},
	} {
		equal(t, c.s.After(c.o), c.after, "%#x after %#x", uint32(c.s), uint32(c.o))
	}
}

func TestFetchEntry(t *testing.T) {
	for _, c := range []struct {
		bytes int
		stall bool
		want  FetchEntry
		ok    bool
	}{
		{0, false, 0, false}, {-16, false, 0, false}, {8, false, 0, false}, {17, false, 0, false},
		{16, false, 1, true}, {256, true, 0x8010, true}, {128, true, 0x8008, true}, {128 << 10, false, 0x2000, true},
		{524272, false, 0x7FFF, true}, {524272, true, 0xFFFF, true}, {524288, false, 0, false},
	} {
		got, err := NewFetchEntry(c.bytes, c.stall)
		if got != c.want || (err == nil) != c.ok || (err != nil && !errors.Is(err, ErrLimit)) {
			t.Errorf("%d bytes, stall %v: %#04x, %v; want %#04x", c.bytes, c.stall, uint16(got), err, uint16(c.want))
		}
		if c.ok && (got.Bytes() != c.bytes || got.Stall() != c.stall) {
			t.Errorf("%#04x says %v", uint16(got), got)
		}
	}
	if s := FetchEntry(0x8010).String(); s != "256 bytes, stall" {
		t.Error(s)
	}
}

func TestGoWord(t *testing.T) {
	g := NewGoWord(1, 14, 3, SignalReplayTrace)
	equal(t, g, 0xF0030E01, "go word")
	if x, y := g.XY(); g.Offset() != 1 || x != 14 || y != 3 || g.Signal() != SignalReplayTrace {
		t.Errorf("%v", g)
	}
	if s := g.String(); s != "REPLAY_TRACE stream +1 of (14,3)" {
		t.Error(s)
	}
}

func TestNOCWords(t *testing.T) {
	for _, c := range []struct {
		l    Layout
		x, y uint8
		want uint32
	}{{Blackhole, 1, 2, 0x81}, {Blackhole, 2, 2, 0x82}, {Wormhole, 18, 18, 0x4920}, {Wormhole, 19, 18, 0x4930}} {
		equal(t, c.l.NOCXY(c.x, c.y), c.want, "%v (%d,%d)", c.l, c.x, c.y)
	}
	equal(t, Blackhole.NOCRect(1, 2, 14, 11), 1<<12|2<<18|14|11<<6, "blackhole rectangle")
	equal(t, Wormhole.NOCRect(18, 18, 25, 27), 18<<16|18<<22|25<<4|27<<10, "wormhole rectangle")
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		x0, y0, x1, y1 := rapid.Uint8().Draw(t, "x0")&63, rapid.Uint8().Draw(t, "y0")&63, rapid.Uint8().Draw(t, "x1")&63,
			rapid.Uint8().Draw(t, "y1")&63
		if x, y, ok := l.SplitXY(l.NOCXY(x0, y0)); !ok || x != x0 || y != y0 {
			t.Fatalf("%v (%d,%d) comes back as (%d,%d) %v", l, x0, y0, x, y, ok)
		}
		if a, b, c, d, ok := l.SplitRect(l.NOCRect(x0, y0, x1, y1)); !ok || a != x0 || b != y0 || c != x1 || d != y1 {
			t.Fatalf("%v rectangle comes back as (%d,%d)-(%d,%d) %v", l, a, b, c, d, ok)
		}
	})
	if _, _, ok := Wormhole.SplitXY(0x4921); ok {
		t.Error("a Wormhole word with address bits passes for a plain tile")
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{PrefetchID(0), "PREFETCH_0"}, {PrefetchRelayLinear, "RELAY_LINEAR"}, {PrefetchRelayLinearH, "RELAY_LINEAR_H"},
		{PrefetchExecBuf, "EXEC_BUF"}, {PrefetchRelayRingbuffer, "RELAY_RINGBUFFER"}, {PrefetchID(16), "RELAY_LINEAR_PACKED_H"},
		{PrefetchID(17), "PREFETCH_17"}, {PrefetchID(255), "PREFETCH_255"},
		{DispatchID(0), "DISPATCH_0"}, {DispatchWriteLinear, "WRITE_LINEAR"}, {DispatchWait, "WAIT"}, {DispatchSendGoSignal, "SEND_GO_SIGNAL"},
		{DispatchSetGoSignalNOCData, "SET_GO_SIGNAL_NOC_DATA"}, {DispatchID(20), "RT_PROFILER_FLUSH"}, {DispatchID(21), "DISPATCH_21"},
		{Master, "dispatch"}, {Subordinate, "dispatch_s"}, {Dispatcher(2), "dispatcher 2"},
		{WaitFlags(0), "none"}, {WaitBarrier | NotifyFetch | WaitMemory | WaitStream | ClearStream, "barrier|notify|memory|stream|clear"},
		{WaitStream | 0x60, "stream|0x60"},
		{PackedGoIndex, "go message index"}, {PackedType(9), "9"}, {LargeBinaries, "binaries"}, {LargeType(7), "7"},
		{SignalDone, "DONE"}, {SignalInit, "INIT"}, {SignalGo, "GO"}, {SignalResetReadPtr, "RESET_READ_PTR"},
		{SignalResetReadPtrHost, "RESET_READ_PTR_FROM_HOST"}, {SignalReplayTrace, "REPLAY_TRACE"}, {Signal(1), "0x01"},
		{Wormhole, "wormhole"}, {Blackhole, "blackhole"}, {Layout(9), "layout 9"},
		{FetchEntry(0), "empty"}, {FetchEntry(2), "32 bytes"},
	} {
		equal(t, c.v.String(), c.want, "%T", c.v)
	}
}

func TestPatch(t *testing.T) {
	for _, l := range layouts {
		build := func(v uint32) (Builder, func(stream []byte)) {
			b := NewBuilder(l, nil)
			var patches []func([]byte)
			patch := func(at int) {
				patches = append(patches, func(s []byte) { Put32(s, at, 0xA1B2C3D4) })
			}
			at := b.SendGoSignal(Subordinate, SendGoSignal{Go: GoWord(v), WaitCount: v, WaitStream: v})
			patch(at + AtGoWord)
			patch(at + AtGoWaitCount)
			patch(at + AtGoWaitStream)
			at = b.Wait(Master, Wait{Flags: WaitStream, Stream: 48, Count: v})
			patch(at + AtWaitCount)
			at = b.SetWriteOffset(SetWriteOffset{Count: 4, Offsets: [4]uint32{0, v, 7, v}})
			patch(at + AtWriteOffset(1))
			patch(at + AtWriteOffset(3))
			p := b.WritePacked(WritePacked{Size: 96, Addr: v, Rects: []Rect{{NOC: 1, Dests: 2}}})
			patch(p.At + AtPackedAddr)
			p = b.WritePacked(WritePacked{Size: 8, Addr: 1, Cores: []uint32{1, v, 2, 3, v}})
			patch(p.At + AtPackedCore(1))
			patch(p.At + AtPackedCore(4))
			at, _ = b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: []LargeSub{{Length: 20}, {Addr: v, Length: 5}}})
			patch(at + AtLargeSub(1) + AtLargeSubAddr)
			at = b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{Length: 64}, {Base: v, Length: 64}}})
			patch(at + AtPagedSub(1) + AtPagedSubBase)
			return b, func(s []byte) {
				for _, p := range patches {
					p(s)
				}
			}
		}
		b, patch := build(0)
		got, err := b.Finish()
		must(t, err)
		patch(got)
		w, _ := build(0xA1B2C3D4)
		if want, err := w.Finish(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: patched stream differs (%v)", l, err)
		}
	}
}
