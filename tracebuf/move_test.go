package tracebuf_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

func TestFindRelocs(t *testing.T) {
	for _, arch := range arches {
		for _, f := range []*tracebuf.File{testFile(t, arch), spanFile(t, arch)} {
			for i, im := range f.Images() {
				program := func(step int) []int { return []int{im.Steps[step].Program} } // testFile's pages
				if diff := cmp.Diff(im.Relocs, im.FindRelocs(program)); diff != "" {
					t.Errorf("%v, part %d (-recorded +found):\n%s", arch, i, diff)
				}
			}
		}
	}
}

func everyStep(f *tracebuf.File) []int {
	var at []int
	off := f.Image.Params[0].At[0] - f.Image.Steps[1].Offset
	for _, s := range f.Image.Steps {
		at = append(at, s.Offset+off)
	}
	return at
}

func TestMoveBuffer(t *testing.T) {
	f := testFile(t, chip.Blackhole)
	all := everyStep(f)
	f.Image.Buffers[0].Addr = 0x2A
	f.Image.Params = []tracebuf.Param{{Name: "input", Kind: tracebuf.BufferAddr, Value: 0x2A, Pages: 8, At: all[1:]}}
	if err := f.CheckMovable(0, 0x1000); err == nil || !strings.Contains(err.Error(), "0x2a") {
		t.Errorf("an argument that is no parameter: %v", err)
	}
	f.Image.Params[0].At = all
	if err := f.CheckMovable(0, 0x1000); err != nil {
		t.Errorf("all arguments are parameters: %v", err)
	}
	f.Image.Buffers[0].Addr = 1 // another argument of the same commands
	if err := f.CheckMovable(0, 1); err == nil {
		t.Error("another argument isn't found")
	}
	f.MoveBuffer(0, 0x40000)
	if f.Image.Buffers[0].Addr != 0x40000 || f.Image.Params[0].Value != 0x40000 {
		t.Errorf("buffer at %#x, patch point %#x", f.Image.Buffers[0].Addr, f.Image.Params[0].Value)
	}
	encode(t, f) // which checks the words
}

func TestResidentArgumentsDontMove(t *testing.T) {
	for large, movable := range map[cq.LargeType]bool{cq.LargeBinaries: true, cq.LargeConfig: false} {
		rec := tracebuf.NewRecording(cq.Blackhole)
		rec.Add("p", 0, func(dst []byte) ([]byte, uint8) {
			b := cq.NewBuilder(cq.Blackhole, dst)
			b.WritePackedLargeHeader(cq.WritePackedLarge{Type: large, Alignment: 64, OffsetIndex: 1,
				Subs: []cq.LargeSub{{NOC: 1, Length: 64, Dests: 1, Unlink: true}}})
			b.RelayPagedPacked(cq.RelayPagedPacked{Subs: []cq.PagedSub{{StartPage: 1, LogPageSize: 11, Length: 64}}})
			return b.Bytes(), 0
		})
		im, err := rec.Finish(8)
		must(t, err)
		binary := make([]byte, 2*2048)
		cq.Put32(binary, 2048+60, 0x20010)
		im.Programs = []tracebuf.Program{{Name: "p", Binary: binary, Pages: 2}}
		im.Relocs = im.FindRelocs(func(int) []int { return []int{1} })
		f := tracebuf.NewFile("resident", []tracebuf.Part{{Image: *im}}, []tracebuf.Buffer{{Name: "x", Addr: 0x20000},
			{Name: "y", Addr: 0x30000}})
		if err := f.CheckMovable(0, 0x11); (err == nil) != movable {
			t.Errorf("type %d: %v", large, err)
		}
		if err := f.CheckMovable(0, 0x10); err != nil {
			t.Errorf("type %d, a buffer that ends before the word: %v", large, err)
		}
		if err := f.CheckMovable(1, 0x1000); err != nil {
			t.Errorf("type %d, another buffer: %v", large, err)
		}
	}
}

func TestAlignedPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := &tracebuf.Image{PageSize: 1024}
		align := rapid.SampledFrom([]int{16, 32, 64}).Draw(t, "align")
		at := rapid.SliceOfDistinct(rapid.Map(rapid.IntRange(0, 1023), func(i int) int { return 4 * i }),
			func(i int) int { return i }).Draw(t, "words")
		slices.Sort(at)
		hit := map[int]bool{}
		for _, o := range at {
			hit[o/align] = true
		}
		got, covered := im.AlignedPieces(at, align), 0
		for i, r := range got {
			covered += (r.End - r.Start) / align
			for o := r.Start; o < r.End; o += align {
				if !hit[o/align] {
					t.Fatalf("%v holds no word at %d", r, o)
				}
			}
			page := r.Start / im.PageSize
			joins := i > 0 && got[i-1].End == r.Start && (got[i-1].End-1)/im.PageSize == page
			if r.Start%align != 0 || r.End%align != 0 || (r.End-1)/im.PageSize != page || i > 0 && r.Start < got[i-1].End || joins {
				t.Fatalf("pieces are %v", got)
			}
		}
		if covered != len(hit) {
			t.Fatalf("%d units are covered, want %d", covered, len(hit))
		}
	})
}

func TestNewFile(t *testing.T) {
	f := spanFile(t, chip.Wormhole)
	bufs := f.Image.Buffers
	parts := f.Parts()
	parts[0].Image.Buffers = nil
	g := tracebuf.NewFile(f.Name, parts, bufs)
	g.Data, g.Results = f.Data, f.Results
	if !bytes.Equal(encode(t, f), encode(t, g)) {
		t.Error("the files differ")
	}
	g.Images()[1].L1End++
	if g.Others[0].Image.L1End != f.Others[0].Image.L1End+1 {
		t.Error("an image isn't the file's own")
	}
}
