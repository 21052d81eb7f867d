package chip

import (
	"errors"
	"testing"
)

func TestWindowWords(t *testing.T) {
	const wh16, bh2, bh4 = 16 << 20, 2 << 20, 4 << 30
	split := func(lo uint64, hi uint32) WindowRegs { return WindowRegs{uint32(lo), uint32(lo >> 32), hi} }
	for _, tc := range []struct {
		name string
		a    Arch
		size uint64
		c    WindowConfig
		want WindowRegs
	}{
		{"16 MiB to a tile", Wormhole, wh16, WindowConfig{Addr: 0xFF000000, Target: XY{1, 1}, Ordering: Strict},
			split(0xFF|1<<12|1<<18|1<<38, 0)},
		{"1 MiB, all fields", Wormhole, 1 << 20, WindowConfig{Addr: 0xF_FFF0_0000, Target: XY{25, 27}, Start: XY{18, 19},
			NOC: NOC1, Multicast: true, Ordering: Posted, Linked: true, StaticVC: true},
			split(0xFFFF|25<<16|27<<22|18<<28|19<<34|1<<40|1<<41|2<<42|1<<44|1<<45, 0)},
		{"2 MiB on Wormhole", Wormhole, 2 << 20, WindowConfig{Addr: 2 << 20, Target: XY{5, 6}}, split(1|5<<15|6<<21, 0)},
		{"2 MiB to a tile", Blackhole, bh2, WindowConfig{Addr: 0xFFA00000, Target: XY{1, 2}, Ordering: Strict},
			split(0xFFA00000>>21|1<<43|2<<49, 1<<6)},
		{"2 MiB multicast", Blackhole, bh2, WindowConfig{Target: XY{16, 11}, Start: XY{1, 2}, Multicast: true},
			split(16<<43|11<<49|1<<55|2<<61, 1<<5)},
		{"2 MiB, start row crosses words", Blackhole, bh2, WindowConfig{Target: XY{63, 63}, Start: XY{0, 56}, Multicast: true},
			split(63<<43|63<<49, 7|1<<5)},
		{"2 MiB, rest", Blackhole, bh2, WindowConfig{NOC: NOC1, Linked: true, StaticVC: true, Stream: true, VC: 5},
			split(0, 1<<3|1<<8|1<<9|1<<10|5<<11)},
		{"4 GiB", Blackhole, bh4, WindowConfig{Addr: 4 << 60, Target: XY{17, 14}, Ordering: Strict, NOC: NOC1, StaticVC: true, VC: 3},
			split(4<<28|17<<32|14<<38|1<<56|1<<59|1<<62, 3)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := EncodeWindow(tc.a, tc.size, tc.c)
			if err != nil || got != tc.want {
				t.Errorf("got %#x (%v), want %#x", got, err, tc.want)
			}
		})
	}
}

func TestWindowRefused(t *testing.T) {
	for _, tc := range []struct {
		a     Arch
		size  uint64
		c     WindowConfig
		field string
	}{
		{Wormhole, 4 << 20, WindowConfig{}, "size"}, {Blackhole, 1 << 20, WindowConfig{}, "size"}, {0, 2 << 20, WindowConfig{}, "size"},
		{Wormhole, 1 << 20, WindowConfig{Addr: 1 << 19}, "address"}, {Wormhole, 1 << 20, WindowConfig{Addr: 1 << 36}, "address"},
		{Wormhole, 1 << 20, WindowConfig{Target: XY{64, 0}}, "target"},
		{Wormhole, 1 << 20, WindowConfig{Start: XY{0, 64}, Multicast: true}, "start"},
		{Blackhole, 2 << 20, WindowConfig{Start: XY{1, 2}}, "start"},
		{Blackhole, 2 << 20, WindowConfig{NOC: 2}, "noc"}, {Blackhole, 2 << 20, WindowConfig{Ordering: 3}, "ordering"},
		{Wormhole, 2 << 20, WindowConfig{VC: 1}, "vc"}, {Blackhole, 2 << 20, WindowConfig{VC: 8}, "vc"},
		{Wormhole, 2 << 20, WindowConfig{Stream: true}, "stream"},
	} {
		_, err := EncodeWindow(tc.a, tc.size, tc.c)
		var we *WindowError
		if !errors.As(err, &we) || we.Field != tc.field || !errors.Is(err, ErrWindow) {
			t.Errorf("%s %#x %+v: %v, want field %s", tc.a, tc.size, tc.c, err, tc.field)
		}
	}
}

func TestWindowPlaces(t *testing.T) {
	for _, tc := range []struct {
		a      Arch
		id     int
		bar    int
		offset uint64
		size   uint64
		reg    uint64
	}{
		{Wormhole, 0, 0, 0, 1 << 20, 0x1FC00000},
		{Wormhole, 155, 0, 155 << 20, 1 << 20, 0x1FC00000 + 8*155},
		{Wormhole, 156, 0, 0x09C00000, 2 << 20, 0x1FC00000 + 8*156},
		{Wormhole, 166, 0, 0x0B000000, 16 << 20, 0x1FC00000 + 8*166},
		{Wormhole, 185, 0, 0x1E000000, 16 << 20, 0x1FC005C8},
		{Blackhole, 0, 0, 0, 2 << 20, 0x1FC00000},
		{Blackhole, 201, 0, 0x19200000, 2 << 20, 0x1FC00000 + 12*201},
		{Blackhole, 202, 4, 0, 4 << 30, 0x1FC00000 + 12*202},
		{Blackhole, 209, 4, 28 << 30, 4 << 30, 0x1FC009CC},
	} {
		p := tc.a.Params()
		bar, off, ok := p.WindowOffset(tc.id)
		class, id, in, found := p.WindowAt(tc.bar, tc.offset+tc.size-1)
		if !ok || bar != tc.bar || off != tc.offset || p.WindowRegister(tc.id) != tc.reg {
			t.Errorf("%s window %d: BAR %d %#x, register %#x", tc.a, tc.id, bar, off, p.WindowRegister(tc.id))
		}
		if !found || id != tc.id || in != tc.size-1 || class.Size != tc.size {
			t.Errorf("%s window %d: its last byte is in window %d at %#x", tc.a, tc.id, id, in)
		}
	}
	for _, a := range []Arch{Wormhole, Blackhole} {
		p := a.Params()
		if _, _, ok := p.WindowOffset(-1); ok {
			t.Error("window -1 exists")
		}
		last := p.Windows[len(p.Windows)-1]
		if _, ok := p.WindowClassOf(last.First + last.Count); ok {
			t.Errorf("%s: a window after the last exists", a)
		}
		if _, _, _, ok := p.WindowAt(0, 0x1FC00000); ok {
			t.Errorf("%s: registers are in a window", a)
		}
		next := 0
		for _, w := range p.Windows {
			equal(t, w.First, next, "%s: first window of class %+v after window %d", a, w, next-1)
			next += w.Count
			if w.Offset+w.Size*uint64(w.Count) > p.PCI.BARSize[w.BAR] {
				t.Errorf("%s: class %+v reaches beyond its BAR", a, w)
			}
		}
	}
}
