package digits

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
)

func layer(t *testing.T, bias int32, weights [4]int8, multiplier, shift, flags uint32) *Layer {
	t.Helper()
	le := binary.LittleEndian
	b := make([]byte, 192)
	for i, v := range []uint32{layerMagic, 4, 1, 16, multiplier, shift, flags, 64, 128, 192} {
		le.PutUint32(b[4*i:], v)
	}
	le.PutUint32(b[64:], uint32(bias))
	for i, w := range weights {
		b[128+i] = byte(w)
	}
	l, rest, err := unpackLayer(append(b, 1, 2, 3))
	devtest.Must(t, err)
	if !bytes.Equal(rest, []byte{1, 2, 3}) || !bytes.Equal(l.Pack(), b) {
		t.Errorf("packed again: %x, rest %x", l.Pack(), rest)
	}
	return l
}

func TestRequantisationRoundsHalfUpRectifiesAndSaturates(t *testing.T) {
	for _, tc := range []struct {
		bias        int32
		mult, shift uint32
		want        int8
		name        string
	}{
		{5, 1, 1, 3, "2.5 rounds up"},
		{1, 1, 2, 0, "a quarter rounds down"},
		{2, 1, 2, 1, "a half rounds up"},
		{-1, 1, 1, 0, "minus a half rounds to zero"},
		{-500, 1, 1, 0, "negative is rectified"},
		{254, 1, 1, 127, "127 exactly"},
		{255, 1, 1, 127, "127.5 rounds to 128 and saturates"},
		{1 << 20, 1, 1, 127, "far above saturates"},
		{1000, 550, 15, 17, "16.78 with a multiplier"},
	} {
		if got := int8(layer(t, tc.bias, [4]int8{}, tc.mult, tc.shift, 0).Forward(Page{})[0]); got != tc.want {
			t.Errorf("%s: %d times %d shift %d gives %d, want %d", tc.name, tc.bias, tc.mult, tc.shift, got, tc.want)
		}
	}
}

func TestActivationsAreSigned(t *testing.T) {
	l := layer(t, 1000, [4]int8{-128, 127, 1, -1}, 0, 0, flagScores)
	got := Scores(l.Forward(Page{0: 0x80, 1: 0xFF, 2: 3, 3: 4, 4: 99})) // bytes after the inputs are not read
	if want := [Classes]int32{1000 + 128*128 - 127 + 3 - 4}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func trained(t *testing.T) (n *Network, training, heldOut []Image) {
	t.Helper()
	images, err := Images()
	devtest.Must(t, err)
	n, err = Trained()
	devtest.Must(t, err)
	training, heldOut = Split(images)
	return n, training, heldOut
}

func TestTrainedNetworkReadsDigitsItHasNotSeen(t *testing.T) {
	n, _, heldOut := trained(t)
	right := 0
	for _, m := range heldOut {
		s := n.Forward(m.Pixels)
		if slices.Index(s[:], slices.Max(s[:])) == int(m.Label) {
			right++
		}
	}
	if right != 441 { // README.md
		t.Errorf("%d of %d right, want 441", right, len(heldOut))
	}
}

// The bound adds magnitudes, so that it holds for partial sums, too.
func TestTrainedNetworkFitsTheKernel(t *testing.T) {
	n, training, _ := trained(t)
	total, in := 0, Pixels
	for i, l := range n.Layers() {
		total += len(l.Pack())
		last := i == len(n.Layers())-1
		if l.in != in || l.scores != last || last && l.out != Classes || !last && l.out%16 != 0 ||
			(l.biasAt|l.weightsAt|len(l.Pack()))%64 != 0 {
			t.Errorf("layer %d: %d to %d", i, l.in, l.out)
		}
		in = l.out
		for o := range l.out {
			most := math.Abs(float64(int32(binary.LittleEndian.Uint32(l.packed[l.biasAt+4*o:]))))
			for _, w := range l.packed[l.weightsAt+o*l.in:][:l.in] {
				most += math.Abs(float64(int8(w))) * 128
			}
			if most > math.MaxInt32 || !l.scores && most*float64(l.multiplier)+float64(int64(1)<<(l.shift-1)) > math.MaxInt32 {
				t.Errorf("layer %d, output %d: sums up to %v overflow", i, o, most)
			}
		}
	}
	if total > 16<<10 {
		t.Errorf("%d bytes of packed layers, want at most 16 KiB", total)
	}
	for _, m := range training[:50] {
		p := m.Page()
		for i, l := range n.Layers() {
			p = l.Forward(p)
			if !l.scores && bytes.Trim(p[l.out:], "\x00") != nil {
				t.Fatalf("layer %d: page not padded with zeros: %v", i, p)
			}
		}
		if got := n.Forward(m.Pixels); got != Scores(p) {
			t.Fatalf("scores %v, by layers %v", got, Scores(p))
		}
	}
}

func TestSplitHoldsOutAQuarterOfEachLabel(t *testing.T) {
	_, training, heldOut := trained(t)
	var labels [2][Classes]int
	seen := map[Image]bool{}
	for i, part := range [][]Image{training, heldOut} {
		for _, m := range part {
			labels[i][m.Label]++
			seen[m] = true
		}
	}
	// The sums are the counts in the data set's description of its test part.
	want := [2][Classes]int{{134, 137, 133, 138, 136, 137, 136, 135, 131, 135}, {44, 45, 44, 45, 45, 45, 45, 44, 43, 45}}
	if diff := cmp.Diff(want, labels); diff != "" || len(seen) != 1797 {
		t.Errorf("%d images; of each label (-want +got):\n%s", len(seen), diff)
	}
}

func TestDecodeNoticesEveryChangedByte(t *testing.T) {
	for i := range weightsFile {
		b := bytes.Clone(weightsFile)
		b[i] ^= 0x10
		if _, err := decode(b); !errors.Is(err, ErrFormat) && (i < 20 || i >= headerBytes) {
			t.Fatalf("byte %d changed: %v, want %v", i, err, ErrFormat)
		}
		if _, err := decode(weightsFile[:i]); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut to %d bytes: %v, want %v", i, err, ErrFormat)
		}
	}
}

func TestKernelsLoadOnTheirProcessors(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		k, err := KernelsFor(arch)
		devtest.Must(t, err)
		for _, tc := range []struct {
			name       string
			file       []byte
			processors []chip.Processor
		}{
			{"reader", k.Reader, []chip.Processor{chip.BRISC}},
			{"dense", k.Dense, []chip.Processor{chip.TRISC0, chip.TRISC1, chip.TRISC2}},
			{"writer", k.Writer, []chip.Processor{chip.NCRISC}},
		} {
			im, err := kernels.Load(tc.file)
			if err != nil {
				t.Errorf("%v %s: %v", arch, tc.name, err)
				continue
			}
			if len(im.Text) > 4<<10 {
				t.Errorf("%v %s: %d bytes of text, want at most 4 KiB", arch, tc.name, len(im.Text))
			}
			for _, p := range tc.processors {
				if err := im.Fits(arch, p); err != nil {
					t.Errorf("%v %s: %v", arch, tc.name, err)
				}
			}
		}
	}
	if _, err := KernelsFor(chip.Arch(9)); err == nil {
		t.Error("kernels for an unknown architecture")
	}
}

// The innermost loop must fit the 512 bytes of instruction cache of Wormhole's TRISC1
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/README.md).
func TestInnermostLoopFitsTheInstructionCache(t *testing.T) {
	k, err := KernelsFor(chip.Wormhole)
	devtest.Must(t, err)
	f, err := elf.NewFile(bytes.NewReader(k.Dense))
	devtest.Must(t, err)
	symbols, err := f.Symbols()
	devtest.Must(t, err)
	found := false
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && strings.Contains(s.Name, "5block") {
			found = true
			if s.Size > 512 {
				t.Errorf("function %s has %d bytes, want at most 512", s.Name, s.Size)
			}
		}
	}
	if !found {
		t.Error("no function block: the loop is somewhere else now")
	}
}

func TestKernelHeaderAgreesWithTheHost(t *testing.T) {
	text, err := os.ReadFile("kernels/layout.h")
	devtest.Must(t, err)
	got := map[string]uint64{}
	for _, m := range regexp.MustCompile(`constexpr uint32_t (\w+) = (\w+);`).FindAllStringSubmatch(string(text), -1) {
		if got[m[1]], err = strconv.ParseUint(m[2], 0, 32); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]uint64{
		"kLanes": lanes, "kInputBuffer": inputBuffer, "kWeightsBuffer": weightsBuffer, "kOutputBuffer": outputBuffer,
		"kPageBytes": PageBytes, "kLayerMagic": layerMagic, "kFlagScores": flagScores,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-host +header):\n%s", diff)
	}
}

func TestSharesCoverEveryPageOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(0, 5000).Draw(t, "pages")
		cores := rapid.IntRange(1, 200).Draw(t, "cores")
		next, least, most := uint32(0), uint32(1<<31), uint32(0)
		for _, s := range Shares(pages, cores) {
			if s.First != next {
				t.Fatalf("share begins at %d, want %d", s.First, next)
			}
			next += s.Pages
			least, most = min(least, s.Pages), max(most, s.Pages)
		}
		if next != uint32(pages) || most-least > 1 {
			t.Fatalf("%d of %d pages shared, shares of %d to %d", next, pages, least, most)
		}
	})
}
