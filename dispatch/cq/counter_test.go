package cq

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Numbers compare by the sign of the 32-bit difference.
func TestSeqAfter(t *testing.T) {
	const top = 1<<32 - 1
	for _, c := range []struct {
		s, o  Seq
		after bool
	}{
		{0, 0, false}, {1, 0, true}, {0, 1, false}, {top, top, false}, {top, 0, false}, {0, top, true},
		{top - 1, 2, false}, {2, top - 1, true}, {1<<31 - 1, 0, true}, {1 << 31, 0, false},
	} {
		if got := c.s.After(c.o); got != c.after {
			t.Errorf("%#x after %#x: %v, want %v", uint32(c.s), uint32(c.o), got, c.after)
		}
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
	if g != 0xF0030E01 {
		t.Errorf("%#x, want 0xf0030e01", uint32(g))
	}
	if x, y := g.XY(); g.Offset() != 1 || x != 14 || y != 3 || g.Signal() != SignalReplayTrace {
		t.Errorf("%v", g)
	}
	if s := g.String(); s != "REPLAY_TRACE stream +1 of (14,3)" {
		t.Error(s)
	}
}

// The words of tiles and rectangles, from the vendor's encodings.
func TestNOCWords(t *testing.T) {
	for _, c := range []struct {
		l    Layout
		x, y uint8
		want uint32
	}{{Blackhole, 1, 2, 0x81}, {Blackhole, 2, 2, 0x82}, {Wormhole, 18, 18, 0x4920}, {Wormhole, 19, 18, 0x4930}} {
		if got := c.l.NOCXY(c.x, c.y); got != c.want {
			t.Errorf("%v (%d,%d): %#x, want %#x", c.l, c.x, c.y, got, c.want)
		}
	}
	if got := Blackhole.NOCRect(1, 2, 14, 11); got != 1<<12|2<<18|14|11<<6 {
		t.Errorf("blackhole rectangle %#x", got)
	}
	if got := Wormhole.NOCRect(18, 18, 25, 27); got != 18<<16|18<<22|25<<4|27<<10 {
		t.Errorf("wormhole rectangle %#x", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		x0, y0, x1, y1 := rapid.Uint8().Draw(t, "x0")&63, rapid.Uint8().Draw(t, "y0")&63, rapid.Uint8().Draw(t, "x1")&63, rapid.Uint8().Draw(t, "y1")&63
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
