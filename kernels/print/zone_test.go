package print_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/sim"
)

const zoneKernel = `
#include "reprise/zone.h"

void kernel_main(void) {
    reprise_zone("all");
    for (uint32_t i = 0; i < 2; i++) {
        reprise_zone("turn");
        reprise_zone_begin(wait, "wait");
        uint32_t since = rp_wall_clock_low();
        while (rp_wall_clock_low() - since < 500) {
        }
        reprise_zone_end(wait);
    }
}
`

const metalZoneKernel = `
#include "tools/profiler/kernel_profiler.hpp"
#include "reprise/kernel.h"

void kernel_main() {
    DeviceZoneScopedN("all");
    for (uint32_t i = 0; i < 2; i++) {
        DeviceZoneScopedN("turn");
        {
            DeviceZoneScopedN("wait");
            uint32_t since = rp_wall_clock_low();
            while (rp_wall_clock_low() - since < 500) {
            }
        }
    }
}
`

func compileZones(b *devtest.Bench, path, text string, prints bool) *kernels.Image {
	b.Helper()
	var warnings strings.Builder
	im, err := kernels.Compile(b.Ctx, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(), Zones: true, Prints: prints,
		Warnings: &warnings})
	if errors.Is(err, kernels.ErrNoCompiler) {
		b.Skip(err)
	}
	b.Must(err)
	if warnings.Len() > 0 {
		b.Error(warnings.String())
	}
	return im
}

func TestZones(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for path, text := range map[string]string{"kernel.c": zoneKernel, "metal.cpp": metalZoneKernel} {
			im := compileZones(b, path, text, false)
			l, got := listen(b, print.Options{})
			for p := range chip.Processor(chip.NumProcessors) {
				x := b.Load(&reprise.Program{Name: "timed",
					Kernels: []reprise.Kernel{{Name: "zones", Image: im, Processor: p, Cores: []chip.Range{chip.Single(1, 2)}}}})
				b.Must(l.Drain())
				*got = nil
				b.Must(b.Queue.Run(b.Ctx, x))
				b.Must(b.Queue.Wait(b.Ctx))
				b.Must(l.Drain())
				rs := *got
				if d := cmp.Diff([]string{"wait", "turn", "wait", "turn", "all"}, texts(rs)); d != "" {
					b.Fatalf("%s on %v:\n%s", path, p, d)
				}
				for i, r := range rs {
					if !r.Zone || r.Kernel != "zones" || r.File != "./"+path || r.Line == 0 || r.Start >= r.Time {
						b.Errorf("zone %+v", r)
					}
					for _, in := range map[int][]int{1: {0}, 3: {2}, 4: {1, 3}}[i] {
						if rs[in].Start < r.Start || rs[in].Time > r.Time {
							b.Errorf("%v isn't in %v", rs[in], r)
						}
					}
					if n := r.Time - r.Start; r.Text == "wait" && n < 500 {
						b.Errorf("a wait of 500 cycles took %d", n)
					}
				}
				if rs[1].Time > rs[3].Start {
					b.Errorf("the second turn begins before the first one ends: %v, %v", rs[1], rs[3])
				}
			}
			b.Must(l.Close())
		}
	})
}

func TestZonesNoCost(t *testing.T) {
	build := func(text string) *kernels.Image {
		im, err := kernels.Compile(t.Context(), kernels.Source{Path: "k.c", Text: text, Arch: chip.Blackhole})
		if errors.Is(err, kernels.ErrNoCompiler) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return im
	}
	var without []string
	for line := range strings.Lines(strings.ReplaceAll(zoneKernel, "reprise/zone.h", "reprise/kernel.h")) {
		if !strings.Contains(line, "reprise_zone") {
			without = append(without, line)
		}
	}
	got, want := build(zoneKernel), build(strings.Join(without, ""))
	if !bytes.Equal(got.Text, want.Text) || got.DataSize != want.DataSize || got.BSSSize != want.BSSSize || got.Formats != nil {
		t.Errorf("with zones it has %d B of text and %d B of formats, want %d and none", len(got.Text), len(got.Formats), len(want.Text))
	}
}

func TestZonesInFullRing(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole(sim.Seed(1)))
	im := compileZones(b, "full.c", `
#include "reprise/zone.h"
void kernel_main(void) {
    reprise_print("first");
    for (uint32_t i = 0; i < 1000; i++) {
        reprise_zone("short");
    }
}
`, true)
	x := b.Load(&reprise.Program{Name: "full", Kernels: []reprise.Kernel{{Name: "full", Image: im, Cores: []chip.Range{chip.Single(0, 0)}}}})
	b.Must(b.Queue.Run(b.Ctx, x))
	b.Must(b.Queue.Wait(b.Ctx))
	l, got := listen(b, print.Options{})
	b.Must(l.Close())
	zones, lost, printed := 0, 0, 0
	var cost, inside []uint64
	for i, r := range *got {
		switch {
		case r.Zone:
			zones++
			if before := (*got)[i-1]; before.Zone {
				cost = append(cost, r.Time-before.Time)
				inside = append(inside, r.Time-r.Start)
			}
		case r.Lost > 0:
			lost += int(r.Lost)
		case r.Text == "first":
			printed++
		default:
			t.Error(r)
		}
	}
	if zones < 30 || zones+lost != 1000 || printed != 1 {
		t.Fatalf("%d zones, %d lost and %d lines", zones, lost, printed)
	}
	// Where a core's slice ends, the clock of the emulator goes on by the longest slice of any
	// core, so a zone there is longer.
	slices.Sort(cost)
	slices.Sort(inside)
	if d := cost[len(cost)/2]; d > 140 {
		t.Errorf("half of the zones took %d cycles or more with all that they cost: %d", d, cost)
	}
	t.Logf("a zone costs %d cycles, %d of them inside", cost[len(cost)/2], inside[len(inside)/2])
}

func TestZoneOfNothing(t *testing.T) {
	r := print.Record{Zone: true, Text: "a\nb", Start: 10, Time: 30, Processor: chip.TRISC0}
	if got, want := fmt.Sprint(r), "(0,0) TRISC0: zone a\uFFFDb, 20 cycles"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
