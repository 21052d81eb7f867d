package digits

import (
	"bytes"
	"debug/elf"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
)

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
