package ops_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

func TestMeshZones(t *testing.T) {
	b := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	im, err := kernels.Compile(b.ctx, kernels.Source{Path: "zones.c", Arch: chip.Blackhole, Zones: true, Text: `
#include "reprise/zone.h"
void kernel_main(void) {
    reprise_zone("BRISC-KERNEL");
}
`})
	if errors.Is(err, kernels.ErrNoCompiler) {
		t.Skip(err)
	}
	b.must(err)
	c := b.Mesh.BeginCapture(graph.Config{})
	at := chip.Core{X: 3, Y: 1}
	var want []string
	var listeners []*print.Listener
	for i, one := range b.mesh.Chips() {
		dev := one.Device
		l, err := print.Listen(dev.Debug(), c.Record(i), print.Options{})
		b.must(err)
		listeners = append(listeners, l)
		x, err := dev.Load(b.ctx, &reprise.Program{Name: "zoned",
			Kernels: []reprise.Kernel{{Name: "k", Image: im, Cores: []chip.Range{at.Range()}}}})
		b.must(err)
		for range i + 1 {
			b.must(dev.Queue(0).Run(b.ctx, x))
		}
		b.must(dev.Queue(0).Wait(b.ctx))
		xy, err := dev.Virtual(at)
		b.must(err)
		for range i + 1 {
			for _, kind := range []string{"ZONE_START", "ZONE_END"} {
				want = append(want, fmt.Sprintf("%d (%d,%d) BRISC BRISC-KERNEL %s zones.c:4", i, xy.X, xy.Y, kind))
			}
		}
		b.must(x.Release(b.ctx))
	}
	if c.Record(-1) != nil || c.Record(2) != nil {
		t.Error("there is a handler for a chip that the mesh doesn't have")
	}
	for _, l := range listeners {
		b.must(l.Close())
	}
	r := b.report(c)
	var log strings.Builder
	b.must(r.WriteDeviceLog(&log))
	head, rest, _ := strings.Cut(log.String(), "\n")
	rows, err := csv.NewReader(strings.NewReader(rest)).ReadAll()
	b.must(err)
	var got []string
	for _, f := range rows[1:] {
		got = append(got, fmt.Sprintf("%s (%s,%s) %s %s %s %s:%s", f[0], f[1], f[2], f[3], f[10], f[11], f[13], f[12]))
	}
	equal(t, want, got, head)
}
