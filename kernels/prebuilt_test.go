package kernels

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
)

var names = []string{Add, Blank, Copy, CopyReader, CopyWriter, Exchange, Move, MulticastSend, MulticastWait, PingPong, Spin, Store,
	StreamEcho, StreamSink, StreamSource}

var computeNames = []string{SumBF16, SumFP32}

func TestPrebuilt(t *testing.T) {
	for _, arch := range arches {
		for _, name := range names {
			im, err := Prebuilt(arch, name)
			if err != nil {
				t.Error(err)
				continue
			}
			if im.Arch != arch {
				t.Errorf("%s for %v: compiled for %v", name, arch, im.Arch)
			}
			for p := range chip.Processor(chip.NumProcessors) {
				if err := im.Fits(arch, p); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			// Wormhole's fence must not be executed (tt-isa-documentation
			// WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md); without it Blackhole's cores
			// would poll their own data cache.
			fence := false
			for i := 0; i < len(im.Text); i += 4 {
				fence = fence || im.Text[i]&0x7F == 0x0F
			}
			if fence != (arch == chip.Blackhole) {
				t.Errorf("%s for %v: fences %v", name, arch, fence)
			}
		}
	}
	if _, err := Prebuilt(chip.Wormhole, "none"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestPrebuiltCompute(t *testing.T) {
	for _, arch := range arches {
		for _, name := range computeNames {
			c, err := PrebuiltCompute(arch, name)
			if err != nil {
				t.Error(err)
				continue
			}
			for i, im := range c.Images() {
				if err := im.Fits(arch, chip.TRISC0+chip.Processor(i)); err != nil || im.Arch != arch {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if _, err := PrebuiltCompute(chip.Wormhole, Add); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestPrebuiltNames(t *testing.T) {
	for _, arch := range arches {
		got := slices.Sorted(maps.Keys(PrebuiltFiles(arch)))
		want := slices.Clone(names)
		for _, name := range computeNames {
			want = append(want, name+".math", name+".pack", name+".unpack")
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: (-names +images)\n%s", arch, diff)
		}
	}
}
