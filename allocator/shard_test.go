package allocator

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
)

func grid(w, h int) []chip.Range { return []chip.Range{{End: chip.Core{X: w - 1, Y: h - 1}}} }

// places prints the pages of a core, P for places without one.
func places(d *Distribution, core int) string {
	var out []string
	for s := range d.CorePages() {
		if p, ok := d.PageAt(core, s); ok {
			out = append(out, strconv.Itoa(p))
		} else {
			out = append(out, "P")
		}
	}
	return strings.Join(out, ",")
}

func TestDistributionVectors(t *testing.T) {
	for _, tc := range []struct {
		name                      string
		tensor, shard             []int
		height, width             int
		cores                     []chip.Range
		o                         Orientation
		used, device, pageB, bank int
		first                     []string
	}{
		{"one shard each", []int{5, 2, 64, 96}, []int{5, 2, 32, 32}, 32, 32, grid(4, 4), RowMajor, 6, 60, 2048, 2048 * 10, nil},
		{"rows as pages", []int{5, 2, 64, 128}, []int{3, 2, 64, 64}, 1, 64, grid(4, 4), ColMajor, 4, 1536, 256, 256 * 384, nil},
		{"three shards each", []int{5, 2, 64, 96}, []int{2, 1, 64, 64}, 32, 32, grid(5, 1), RowMajor, 5, 120, 1088, 1088 * 24,
			[]string{"0,1,3,4,12,13,15,16,26,P,29,P,38,P,41,P,54,55,57,58,P,P,P,P"}},
		{"rank 6", []int{2, 3, 4, 5, 6, 128}, []int{3, 1, 5, 4, 2, 128}, 1, 128, grid(4, 1), RowMajor, 4, 2400, 128, 128 * 600, nil},
		{"padding at the edge", []int{2, 64, 96}, []int{1, 32, 64}, 32, 32, grid(8, 1), RowMajor, 8, 16, 2048, 2048 * 2,
			[]string{"0,1", "2,P", "3,4", "5,P", "6,7", "8,P", "9,10", "11,P"}},
		{"a shard wider than the tensor", []int{2, 128, 64}, []int{1, 64, 96}, 32, 32, grid(4, 1), RowMajor, 4, 24, 2048, 2048 * 6,
			[]string{"0,1,P,2,3,P"}},
		{"a shard higher than the tensor", []int{2, 3, 32}, []int{2, 4, 16}, 1, 16, grid(2, 1), RowMajor, 2, 16, 64, 64 * 8,
			[]string{"0,2,4,P,6,8,10,P", "1,3,5,P,7,9,11,P"}},
		{"two shards in some cores", []int{3, 2, 2, 3, 4}, []int{1, 1, 2, 2, 4}, 1, 4, grid(10, 1), ColMajor, 10, 80, 16, 16 * 8,
			[]string{"0,1,3,4,30,31,33,34", "2,P,5,P,32,P,35,P"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := NewDistribution(ShardSpec{
				Layout: NDSharded, Tensor: pageShape(tc.tensor, tc.height, tc.width), Shard: pageShape(tc.shard, tc.height, tc.width),
				Cores: tc.cores, Orientation: tc.o,
			})
			must(t, err)
			if len(d.Cores()) != tc.used || d.DevicePages() != tc.device || d.CorePages()*tc.pageB != tc.bank {
				t.Errorf("%d cores, %d places, %d B in each; want %d, %d, %d", len(d.Cores()), d.DevicePages(), d.CorePages()*tc.pageB, tc.used,
					tc.device, tc.bank)
			}
			for i, want := range tc.first {
				expect.Equal(t, places(d, i), want, "core %d holds", i)
			}
			e := mustAllocate(t, mustNew(t, blackhole), Request{Kind: L1, Size: uint64(tc.device * tc.pageB), PageSize: uint64(tc.pageB),
				Shards: tc.used})
			expect.Equal(t, e.PerBank, up(uint64(tc.bank), 64), "B in each bank")
		})
	}
}

func TestShardOrder(t *testing.T) {
	for _, tc := range []struct {
		name          string
		layout        Layout
		tensor, shard []int
		cores         []chip.Range
		o             Orientation
		s             Strategy
		want          string // cores of the shards in order
	}{
		{"height, rows", HeightSharded, []int{6, 2}, []int{1, 2}, grid(3, 2), RowMajor, 0, "(0,0)(1,0)(2,0)(0,1)(1,1)(2,1)"},
		{"height, columns", HeightSharded, []int{6, 2}, []int{1, 2}, grid(3, 2), ColMajor, 0, "(0,0)(0,1)(1,0)(1,1)(2,0)(2,1)"},
		{"height, fewer shards than cores", HeightSharded, []int{6, 2}, []int{2, 2}, grid(3, 2), ColMajor, 0, "(0,0)(0,1)(1,0)"},
		{"width, rows", WidthSharded, []int{2, 4}, []int{2, 1}, grid(2, 2), RowMajor, 0, "(0,0)(1,0)(0,1)(1,1)"},
		{"width, several ranges", WidthSharded, []int{2, 3}, []int{2, 1}, []chip.Range{chip.Core{X: 5, Y: 1}.Range(), grid(2, 1)[0]}, RowMajor, 0, "(5,1)(0,0)(1,0)"},
		{"block, rows", BlockSharded, []int{4, 6}, []int{2, 2}, grid(8, 8), RowMajor, 0, "(0,0)(1,0)(2,0)(0,1)(1,1)(2,1)"},
		{"block, columns", BlockSharded, []int{4, 6}, []int{2, 2}, grid(8, 8), ColMajor, 0, "(0,0)(0,1)(0,2)(1,0)(1,1)(1,2)"},
		{"block, not from (0,0)", BlockSharded, []int{2, 2}, []int{1, 1}, []chip.Range{{Start: chip.Core{X: 2, Y: 3}, End: chip.Core{X: 3, Y: 4}}}, RowMajor, 0, "(2,3)(3,3)(2,4)(3,4)"},
		{"round robin wraps", NDSharded, []int{5, 1}, []int{1, 1}, grid(2, 1), RowMajor, RoundRobin, "(0,0)(1,0)(0,0)(1,0)(0,0)"},
		{"contiguous", NDSharded, []int{4, 1}, []int{1, 1}, grid(2, 1), RowMajor, Contiguous, "(0,0)(0,0)(1,0)(1,0)"},
		{"grid", NDSharded, []int{2, 2}, []int{1, 1}, grid(4, 2), RowMajor, Grid2D, "(0,0)(1,0)(0,1)(1,1)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := NewDistribution(ShardSpec{Layout: tc.layout, Tensor: tc.tensor, Shard: tc.shard, Cores: tc.cores, Orientation: tc.o,
				Strategy: tc.s})
			must(t, err)
			var got string
			for s := range d.shards {
				core, _ := d.of(s)
				got += d.Cores()[core].String()
			}
			expect.Equal(t, got, tc.want, "shards are on")
		})
	}
}

func TestDistributionRefused(t *testing.T) {
	ok := ShardSpec{Layout: BlockSharded, Tensor: []int{4, 4}, Shard: []int{2, 2}, Cores: grid(2, 2)}
	edit := func(f func(*ShardSpec)) ShardSpec {
		s := ok
		f(&s)
		return s
	}
	expect.Value(NewDistribution(ok))(t)
	for _, tc := range []struct {
		s    ShardSpec
		want string
	}{
		{edit(func(s *ShardSpec) { s.Layout = Interleaved }), "it has no shards"},
		{edit(func(s *ShardSpec) { s.Layout = 1 }), "layout(1) buffer"},
		{edit(func(s *ShardSpec) { s.Tensor = nil }), "rank 0"},
		{edit(func(s *ShardSpec) { s.Shard = []int{2} }), "shards of rank 1"},
		{edit(func(s *ShardSpec) { s.Shard = []int{2, 0} }), "sizes from 1 on"},
		{edit(func(s *ShardSpec) { s.Tensor = []int{-1, 4} }), "sizes from 1 on"},
		{edit(func(s *ShardSpec) { s.Tensor = []int{1 << 30, 1 << 30} }), "at most 2^40"},
		{edit(func(s *ShardSpec) { s.Cores = nil }), "no cores"},
		{edit(func(s *ShardSpec) { s.Cores = append(grid(2, 2), grid(1, 1)...) }), "(0,0) is named twice"},
		{edit(func(s *ShardSpec) { s.Cores = grid(0, 1) }), "there is no range"},
		{edit(func(s *ShardSpec) { s.Cores = grid(1<<20, 1) }), "there is no range"},
		{edit(func(s *ShardSpec) { s.Orientation = 2 }), "orientation(2)"},
		{edit(func(s *ShardSpec) { s.Strategy = 3 }), "strategy(3)"},
		{edit(func(s *ShardSpec) { s.Cores = grid(4, 1) }), "need 2 by 2 cores"},
		{edit(func(s *ShardSpec) { s.Shard = []int{1, 1} }), "16 shards on 4 cores"},
		{edit(func(s *ShardSpec) { s.Layout = HeightSharded }), "2 beside each other"},
		{edit(func(s *ShardSpec) { s.Layout = WidthSharded }), "2 above each other"},
		{edit(func(s *ShardSpec) {
			s.Layout, s.Shard, s.Strategy, s.Cores = NDSharded, []int{1, 4}, Contiguous, grid(3, 1)
		}), "4 shards don't divide evenly among 3 cores"},
		{edit(func(s *ShardSpec) {
			s.Cores = []chip.Range{grid(2, 1)[0], {Start: chip.Core{X: 0, Y: 1}, End: chip.Core{X: 1, Y: 1}}}
		}), "2 ranges"},
	} {
		expect.Says(t, second(NewDistribution(tc.s)), ErrRequest, tc.want)
	}
}

func drawSpec(t *rapid.T) ShardSpec {
	rank := rapid.IntRange(1, 4).Draw(t, "rank")
	shape := func(name string, most int) []int {
		return rapid.SliceOfN(rapid.IntRange(1, most), rank, rank).Draw(t, name)
	}
	return ShardSpec{
		Layout: rapid.SampledFrom([]Layout{HeightSharded, WidthSharded, BlockSharded, NDSharded, NDSharded}).Draw(t, "layout"),
		Tensor: shape("tensor", 7), Shard: shape("shard", 8),
		Cores:       grid(rapid.IntRange(1, 8).Draw(t, "columns"), rapid.IntRange(1, 8).Draw(t, "rows")),
		Orientation: Orientation(rapid.IntRange(0, 1).Draw(t, "orientation")),
		Strategy:    Strategy(rapid.IntRange(0, 2).Draw(t, "strategy")),
	}
}

func TestDistributionInverts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := NewDistribution(drawSpec(t))
		if err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		type place struct{ core, slot int }
		at := map[place]int{}
		for i := range d.Pages() {
			core, slot := d.Page(i)
			if core < 0 || core >= len(d.Cores()) || slot < 0 || slot >= d.CorePages() {
				t.Fatalf("page %d at place %d of core %d", i, slot, core)
			}
			at[place{core, slot}] = i
		}
		if len(at) != d.Pages() {
			t.Fatalf("%d pages share %d places", d.Pages(), len(at))
		}
		for core := range d.Cores() {
			for slot := range d.CorePages() {
				want, wantOK := at[place{core, slot}]
				if got, ok := d.PageAt(core, slot); got != want || ok != wantOK {
					t.Fatalf("place %d of core %d: page %d %v, want %d %v", slot, core, got, ok, want, wantOK)
				}
			}
		}
	})
}

// pageShape converts a shape in elements to pages of height by width elements, rounded up in the
// last two dimensions; nil if a page has no size.
func pageShape(shape []int, height, width int) []int {
	if height < 1 || width < 1 {
		return nil
	}
	out := append([]int(nil), shape...)
	if n := len(out); n > 0 {
		out[n-1] = (out[n-1] + width - 1) / width
	}
	if n := len(out); n > 1 {
		out[n-2] = (out[n-2] + height - 1) / height
	}
	return out
}

func TestPageShape(t *testing.T) {
	for _, tc := range []struct {
		in   []int
		h, w int
		want []int
	}{
		{[]int{5, 2, 64, 96}, 32, 32, []int{5, 2, 2, 3}}, {[]int{33, 33}, 32, 32, []int{2, 2}}, {[]int{100}, 32, 32, []int{4}},
		{[]int{7, 5}, 1, 2, []int{7, 3}}, {nil, 1, 1, nil}, {[]int{4}, 0, 1, nil}, {[]int{4}, 1, -1, nil},
	} {
		expect.NoDiff(t, pageShape(tc.in, tc.h, tc.w), tc.want, "%v by %dx%d", tc.in, tc.h, tc.w)
	}
}

func FuzzDistribution(f *testing.F) {
	f.Add(uint8(5), 4, 4, 2, 2, 2, 2, uint8(0), uint8(0))
	f.Add(uint8(4), 5, 6, 2, 3, 4, 2, uint8(1), uint8(1))
	f.Add(uint8(2), -1, 1<<62, 0, 3, 1<<40, 2, uint8(9), uint8(2))
	f.Fuzz(func(t *testing.T, layout uint8, a, b, x, y, w, h int, o, s uint8) {
		d, err := NewDistribution(ShardSpec{Layout: Layout(layout), Tensor: []int{a, b}, Shard: []int{x, y}, Cores: grid(w, h),
			Orientation: Orientation(o), Strategy: Strategy(s)})
		if err != nil {
			return
		}
		for _, i := range []int{0, d.Pages() / 2, d.Pages() - 1} {
			core, slot := d.Page(i)
			if got, ok := d.PageAt(core, slot); !ok || got != i {
				t.Fatalf("page %d is at place %d of core %d, where page %d %v is", i, slot, core, got, ok)
			}
		}
	})
}
