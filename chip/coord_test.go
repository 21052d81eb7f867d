package chip

import (
	"errors"
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/expect"
)

func harvestings(a Arch, visit func(Harvesting)) {
	units := len(a.harvestUnits())
	for i := range units {
		for j := i; j < units; j++ {
			h := Harvesting{Tensix: 1<<i | 1<<j}
			if a == Blackhole {
				h.DRAM = 1 << ((i + j) % 9) & 0xFF
				h.Ethernet = 1<<i | 1<<(13-j)
			}
			visit(h)
		}
	}
	visit(Harvesting{})
}

func drawChip(t *rapid.T) *Chip {
	a := rapid.SampledFrom([]Arch{Wormhole, Blackhole}).Draw(t, "arch")
	units := len(a.harvestUnits())
	h := Harvesting{Tensix: rapid.Uint32Range(0, 1<<units-2).Draw(t, "tensix")}
	if a == Blackhole {
		if bank := rapid.IntRange(-1, 7).Draw(t, "bank"); bank >= 0 {
			h.DRAM = 1 << bank
		}
		h.Ethernet = rapid.Uint32Range(0, 0x3FFF).Draw(t, "ethernet")
	}
	return expect.Value(New(a, h))(t)
}

func TestWorkersRoundTrip(t *testing.T) {
	for _, a := range []Arch{Wormhole, Blackhole} {
		harvestings(a, func(h Harvesting) { checkWorkers(t, mustNew(t, a, h)) })
	}
	rapid.Check(t, func(t *rapid.T) { checkWorkers(t, drawChip(t)) })
}

func checkWorkers(t interface{ Fatalf(string, ...any) }, c *Chip) {
	off := bits.OnesCount32(c.Harvesting().Tensix)
	w, h := c.Grid()
	if c.Arch() == Wormhole && (w != 8 || h != 10-off) || c.Arch() == Blackhole && (w != 14-off || h != 10) {
		t.Fatalf("%s %+v: grid %d x %d", c.Arch(), c.Harvesting(), w, h)
	}
	seen := map[XY]bool{}
	n := 0
	for core := range c.Workers() {
		v, err1 := c.Virtual(core)
		p, err2 := c.Physical(core)
		if err1 != nil || err2 != nil {
			t.Fatalf("core %s: %v, %v", core, err1, err2)
		}
		want := XY{uint8(18 + core.X), uint8(18 + core.Y)}
		if c.Arch() == Blackhole {
			want = XY{[]uint8{1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16}[core.X], uint8(2 + core.Y)}
		}
		if v != want {
			t.Fatalf("core %s: virtual %s, want %s", core, v, want)
		}
		for _, noc := range []NOC{NOC0, NOC1} {
			if raw, err := c.Translate(noc, v); err != nil || raw != p {
				t.Fatalf("core %s at %s leads to %s on %s (%v), want %s", core, v, raw, noc, err, p)
			}
		}
		if tile := c.Tile(p); tile.Kind != Tensix || tile.Harvested || seen[p] {
			t.Fatalf("core %s: tile %s is %+v, seen before: %v", core, p, tile, seen[p])
		}
		seen[p] = true
		if back, ok := c.Logical(v); !ok || back != core {
			t.Fatalf("virtual %s is core %s, %v; want %s", v, back, ok, core)
		}
		if back, ok := c.LogicalOf(p); !ok || back != core {
			t.Fatalf("raw %s is core %s, %v; want %s", p, back, ok, core)
		}
		if self, ok := c.VirtualOf(p); !ok || self != v {
			t.Fatalf("tile %s calls itself %s, want %s", p, self, v)
		}
		n++
	}
	if n != w*h {
		t.Fatalf("%d workers, want %d", n, w*h)
	}
	for _, bad := range []Core{{-1, 0}, {0, -1}, {w, 0}, {0, h}} {
		if _, err := c.Virtual(bad); !errors.Is(err, ErrCoordinate) {
			t.Fatalf("virtual of %s: %v", bad, err)
		}
		if _, err := c.Physical(bad); !errors.Is(err, ErrCoordinate) {
			t.Fatalf("physical of %s: %v", bad, err)
		}
	}
	for x := range 256 {
		for y := range 256 {
			if core, ok := c.Logical(XY{uint8(x), uint8(y)}); ok {
				if v, err := c.Virtual(core); err != nil || v != (XY{uint8(x), uint8(y)}) {
					t.Fatalf("(%d,%d) passes for core %s", x, y, core)
				}
			}
		}
	}
}

func TestTranslationReachesEveryTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChip(t)
		for _, n := range []NOC{NOC0, NOC1} {
			reached := map[XY]bool{}
			for x := range uint8(64) {
				for y := range uint8(64) {
					if raw, err := c.Translate(n, XY{x, y}); err == nil {
						reached[raw] = true
						if c.Kind(raw) == NoTile {
							t.Fatalf("%s (%d,%d) leads to %s", n, x, y, raw)
						}
					}
				}
			}
			for k := Tensix; k <= L2CPU; k++ {
				for raw := range c.Tiles(k) {
					if !reached[raw] {
						t.Fatalf("%s at %s cannot be reached on %s", k, raw, n)
					}
				}
			}
		}
	})
}

func TestMulticastCoversExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChip(t)
		w, h := c.Grid()
		x, y := rapid.IntRange(0, w-1).Draw(t, "x"), rapid.IntRange(0, h-1).Draw(t, "y")
		r := Range{Core{x, y}, Core{rapid.IntRange(x, w-1).Draw(t, "x end"), rapid.IntRange(y, h-1).Draw(t, "y end")}}
		want := map[XY]bool{}
		for core := range r.Cores() {
			p := expect.Value(c.Physical(core))(t)
			want[p] = true
		}
		columns, rows := c.MulticastSkip()
		for _, n := range []NOC{NOC0, NOC1} {
			got := map[XY]bool{}
			cores := 0
			for _, rect := range c.Rects(r) {
				cores += rect.Cores
				start, end := rect.Corners(n)
				if n == NOC1 {
					start, end = end, start // NoC 1 goes from the larger corner to the smaller one
				}
				a, err1 := c.Translate(n, start)
				b, err2 := c.Translate(n, end)
				if err1 != nil || err2 != nil || a.X > b.X || a.Y > b.Y {
					t.Fatalf("%s: corners %s %s (%v %v)", n, a, b, err1, err2)
				}
				for x := a.X; x <= b.X; x++ {
					for y := a.Y; y <= b.Y; y++ {
						if columns>>x&1 == 0 && rows>>y&1 == 0 {
							got[XY{x, y}] = true
						}
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || cores != r.Size() {
				t.Fatalf("%s, %s: %d cores (-want +got):\n%s", r, n, cores, diff)
			}
		}
	})
	c := mustNew(t, Wormhole, Harvesting{})
	for _, r := range []Range{{Core{0, 0}, Core{8, 0}}, {Core{-1, 0}, Core{0, 0}}, {Core{1, 0}, Core{0, 0}}} {
		if got := c.Rects(r); got != nil {
			t.Errorf("%s: %v, want none", r, got)
		}
	}
}

func TestRange(t *testing.T) {
	r := Range{Core{1, 2}, Core{3, 3}}
	want := []Core{{1, 2}, {2, 2}, {3, 2}, {1, 3}, {2, 3}, {3, 3}}
	if got := slices.Collect(r.Cores()); !slices.Equal(got, want) || r.Size() != len(want) {
		t.Errorf("got %v, size %d", got, r.Size())
	}
	if !slices.IsSortedFunc(want, Core.Compare) {
		t.Error("Compare does not order row by row")
	}
	for _, tc := range []struct {
		s    Range
		want bool
	}{
		{Core{3, 3}.Range(), true}, {Core{4, 3}.Range(), false}, {Range{Core{0, 0}, Core{9, 9}}, true},
		{Range{Core{2, 9}, Core{2, 0}}, false}, {Range{Core{0, 3}, Core{1, 8}}, true},
	} {
		equal(t, r.Overlaps(tc.s), tc.want, "%s and %s", r, tc.s)
		equal(t, tc.s.Overlaps(r), tc.want, "%s and %s", r, tc.s)
	}
	if e := (Range{Core{1, 1}, Core{0, 5}}); !e.Empty() || e.Size() != 0 || len(slices.Collect(e.Cores())) != 0 {
		t.Error("an empty range has cores")
	}
	equal(t, r.String(), "(1,2)-(3,3)", "r.String()")
}

func TestEncodingsInvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom([]Arch{Wormhole, Blackhole}).Draw(t, "arch")
		xy := rapid.Custom(func(t *rapid.T) XY {
			return XY{rapid.Uint8Range(0, 63).Draw(t, "x"), rapid.Uint8Range(0, 63).Draw(t, "y")}
		})
		s, e := xy.Draw(t, "start"), xy.Draw(t, "end")
		if got := a.ParseNOCXY(a.NOCXY(s)); got != s {
			t.Fatalf("%s became %s", s, got)
		}
		if s2, e2 := a.ParseNOCMulticast(a.NOCMulticast(s, e)); s2 != s || e2 != e {
			t.Fatalf("%s %s became %s %s", s, e, s2, e2)
		}
		if got := a.Mirror(a.Mirror(s)); got != s {
			t.Fatalf("mirrored twice, %s became %s", s, got)
		}
	})
}

func TestEncodings(t *testing.T) {
	for _, tc := range []struct {
		name string
		got  uint32
		want uint32
	}{
		{"Wormhole unicast", Wormhole.NOCXY(XY{18, 19}), 19<<10 | 18<<4},
		{"Blackhole unicast", Blackhole.NOCXY(XY{19, 24}), 24<<6 | 19},
		{"Wormhole multicast", Wormhole.NOCMulticast(XY{18, 19}, XY{25, 27}), 18<<16 | 19<<22 | 25<<4 | 27<<10},
		{"Blackhole multicast", Blackhole.NOCMulticast(XY{1, 2}, XY{16, 11}), 1<<12 | 2<<18 | 16 | 11<<6},
		{"packed", XY{19, 24}.Packed(), 0x613},
		{"Wormhole node id on NoC 0", mustNew(t, Wormhole, Harvesting{}).NodeID(NOC0, XY{1, 1}), 0x1060A041},
		{"Blackhole node id on NoC 0", mustNew(t, Blackhole, Harvesting{}).NodeID(NOC0, XY{1, 2}), 0x10611081},
		{"Wormhole node id on NoC 1", mustNew(t, Wormhole, Harvesting{}).NodeID(NOC1, XY{1, 1}), 0x0060A288},
		{"Blackhole node id on NoC 1", mustNew(t, Blackhole, Harvesting{}).NodeID(NOC1, XY{1, 2}), 0x0061124F},
	} {
		equal(t, tc.got, tc.want, "%s", tc.name)
	}
}

func mustNew(t testing.TB, a Arch, h Harvesting) *Chip {
	t.Helper()
	return expect.Value(New(a, h))(t)
}

func TestTranslateFull(t *testing.T) {
	for _, tc := range []struct {
		a    Arch
		n    NOC
		v    XY
		want XY
	}{
		{Wormhole, NOC0, XY{18, 18}, XY{1, 1}},
		{Wormhole, NOC1, XY{18, 18}, XY{1, 1}},
		{Wormhole, NOC0, XY{25, 27}, XY{9, 11}},
		{Wormhole, NOC1, XY{25, 27}, XY{9, 11}},
		{Wormhole, NOC0, XY{22, 23}, XY{6, 7}},
		{Wormhole, NOC0, XY{16, 16}, XY{0, 0}},
		{Wormhole, NOC0, XY{17, 17}, XY{5, 6}},
		{Wormhole, NOC0, XY{18, 17}, XY{1, 6}},
		{Wormhole, NOC0, XY{0, 3}, XY{0, 3}},
		{Wormhole, NOC1, XY{9, 8}, XY{0, 3}},
		{Wormhole, NOC1, XY{0, 0}, XY{9, 11}},
		{Wormhole, NOC1, XY{18, 0}, XY{1, 11}},
		{Blackhole, NOC0, XY{1, 2}, XY{1, 2}},
		{Blackhole, NOC1, XY{16, 11}, XY{16, 11}},
		{Blackhole, NOC0, XY{8, 0}, XY{8, 0}},
		{Blackhole, NOC1, XY{8, 0}, XY{8, 0}},
		{Blackhole, NOC0, XY{15, 0}, XY{15, 0}},
		{Blackhole, NOC1, XY{15, 0}, XY{1, 0}},
		{Blackhole, NOC1, XY{0, 1}, XY{16, 1}},
		{Blackhole, NOC1, XY{8, 10}, XY{8, 10}},
		{Blackhole, NOC0, XY{19, 24}, XY{2, 0}},
		{Blackhole, NOC0, XY{20, 25}, XY{1, 1}},
		{Blackhole, NOC0, XY{21, 25}, XY{16, 1}},
		{Blackhole, NOC0, XY{17, 12}, XY{0, 0}},
		{Blackhole, NOC0, XY{17, 14}, XY{0, 11}},
		{Blackhole, NOC0, XY{17, 16}, XY{0, 10}},
		{Blackhole, NOC0, XY{17, 18}, XY{0, 9}},
		{Blackhole, NOC0, XY{18, 23}, XY{9, 6}},
	} {
		expect.Equal(t, expect.Value(mustNew(t, tc.a, Harvesting{}).Translate(tc.n, tc.v))(t), tc.want, "%s %s %s", tc.a, tc.n, tc.v)
	}
}

func TestTranslateRefuses(t *testing.T) {
	for _, tc := range []struct {
		a Arch
		n NOC
		v XY
	}{
		{Wormhole, NOC0, XY{10, 0}}, {Wormhole, NOC0, XY{26, 18}}, {Wormhole, NOC0, XY{18, 28}},
		{Wormhole, NOC0, XY{63, 63}}, {Wormhole, 2, XY{1, 1}}, {Wormhole, NOC1, XY{0, 12}},
		{Blackhole, NOC0, XY{0, 2}}, {Blackhole, NOC0, XY{9, 11}}, {Blackhole, NOC0, XY{17, 1}},
		{Blackhole, NOC0, XY{17, 24}}, {Blackhole, NOC0, XY{19, 12}}, {Blackhole, NOC0, XY{19, 25}},
	} {
		got, err := mustNew(t, tc.a, Harvesting{}).Translate(tc.n, tc.v)
		var ce *CoordinateError
		if !errors.As(err, &ce) || !errors.Is(err, ErrCoordinate) {
			t.Errorf("%s %s %s: got %s, %v, want a *CoordinateError", tc.a, tc.n, tc.v, got, err)
		}
	}
}

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

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
			expect.Equal(t, expect.Value(EncodeWindow(tc.a, tc.size, tc.c))(t), tc.want, "got")
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
		if c, ok := p.WindowClassOf(tc.id); !ok || c.Size != tc.size {
			t.Errorf("%s window %d has %d B", tc.a, tc.id, c.Size)
		}
		if !ok || bar != tc.bar || off != tc.offset || p.WindowRegister(tc.id) != tc.reg {
			t.Errorf("%s window %d: BAR %d %#x, register %#x", tc.a, tc.id, bar, off, p.WindowRegister(tc.id))
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
func TestCoverIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[Core]bool{}
		var cores []Core
		for y := range 10 {
			for x := range 13 {
				if c := (Core{X: x, Y: y}); rapid.IntRange(0, 3).Draw(t, "in") > 0 {
					in[c] = true
					cores = append(cores, c)
				}
			}
		}
		for _, r := range Cover(cores) {
			for c := range r.Cores() {
				if !in[c] {
					t.Fatalf("%v holds %v, which is not asked for or covered already", r, c)
				}
				delete(in, c)
			}
		}
		if len(in) != 0 {
			t.Fatalf("%v are not covered", in)
		}
	})
}
