package print_test

import (
	"fmt"
	"slices"
	"testing"

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

func TestZones(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for path, text := range map[string]string{"kernel.c": zoneKernel, "metal.cpp": metalZoneKernel} {
			im := build(b, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(), Zones: true})
			l, got := listen(b, print.Options{})
			for p := range chip.Processor(chip.NumProcessors) {
				*got = nil
				run(b, program(im, p, chip.Single(1, 2)))
				b.Must(l.Drain())
				rs := *got
				printed(b, p, rs, "wait", "turn", "wait", "turn", "all")
				if len(rs) != 5 {
					b.Fatal(rs)
				}
				for i, r := range rs {
					if !r.Zone || r.Kernel != "kernel" || r.File != "./"+path || r.Line == 0 || r.Start >= r.Time {
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

func TestZonesInFullRing(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole(sim.Seed(1)))
	run(b, program(build(b, kernels.Source{Path: "full.c", Arch: b.Dev.Arch(), Zones: true, Prints: true, Text: `
#include "reprise/zone.h"
void kernel_main(void) {
    reprise_print("first");
    for (uint32_t i = 0; i < 1000; i++) {
        reprise_zone("short");
    }
}
`}), chip.BRISC, chip.Single(0, 0)))
	l, got := listen(b, print.Options{})
	b.Must(l.Close())
	zones, lost, printed := 0, 0, 0
	var cost []uint64
	for i, r := range *got {
		switch {
		case r.Zone:
			zones++
			if before := (*got)[i-1]; before.Zone {
				cost = append(cost, r.Time-before.Time)
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
	if d := cost[len(cost)/2]; d > 140 {
		t.Errorf("half of the zones took %d cycles or more with all that they cost: %d", d, cost)
	}
}

func TestZoneOfNothing(t *testing.T) {
	r := print.Record{Zone: true, Text: "a\nb", Start: 10, Time: 30, Processor: chip.TRISC0}
	if got, want := fmt.Sprint(r), "(0,0) TRISC0: zone a\uFFFDb, 20 cycles"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
