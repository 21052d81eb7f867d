package observe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/observe"
)

// Zones of kernels, which ran eagerly and in a trace, lie inside of their program's time, on a
// track for each processor.
func TestTimelineOfZones(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im, err := kernels.Compile(b.Ctx, kernels.Source{Path: "zones.c", Arch: b.Dev.Arch(), Zones: true, Prints: true, Text: `
#include "reprise/zone.h"
void kernel_main(void) {
    reprise_zone("outer");
    reprise_print("line");
    {
        reprise_zone("inner");
        uint32_t since = rp_wall_clock_low();
        while (rp_wall_clock_low() - since < 100) {
        }
    }
}
`})
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.Must(err)
		p := &reprise.Program{Name: "zoned"}
		for i, on := range []chip.Processor{chip.NCRISC, chip.TRISC1} {
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: fmt.Sprintf("k%d", i), Image: im, Processor: on,
				Cores: []chip.Range{chip.Single(2, 1)}})
		}
		x := b.Load(p)
		tr, err := b.Queue.Capture(b.Ctx, "zones", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		b.Must(err)
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		l, err := print.Listen(b.Dev.Debug(), line.Record, print.Options{})
		b.Must(err)
		b.Must(b.Queue.Run(b.Ctx, x))
		b.Must(tr.Replay(b.Ctx))
		b.Must(b.Queue.Wait(b.Ctx))
		b.Must(errors.Join(l.Close(), line.Stop(b.Ctx)))

		runs := line.Programs()
		if len(runs) != 2 {
			b.Fatalf("%d programs ran, want 2", len(runs))
		}
		var got []string
		for i, z := range line.Zones() {
			got = append(got, fmt.Sprintf("%v %s", z.Processor, z.Text))
			if in := runs[i%6/3]; z.Start < in.Start || z.Time > in.End || z.HostEnd < z.HostStart {
				b.Errorf("%v from %d to %d, its program from %d to %d", z, z.Start, z.Time, in.Start, in.End)
			}
		}
		var want []string
		for _, on := range []string{"NCRISC", "TRISC1"} {
			for range 2 {
				want = append(want, on+" outer", on+" line", on+" inner")
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			b.Errorf("zones:\n%s", d)
		}
		var file strings.Builder
		b.Must(line.WriteJSON(&file))
		var events struct {
			TraceEvents []struct {
				Name, Cat string
				Args      map[string]any
			}
		}
		b.Must(json.Unmarshal([]byte(file.String()), &events))
		tracks, zones := map[any]bool{}, 0
		for _, e := range events.TraceEvents {
			if e.Name == "thread_name" {
				tracks[e.Args["name"]] = true
			}
			if e.Cat == "zone" {
				zones++
			}
		}
		if !tracks["(2,1) NCRISC"] || !tracks["(2,1) TRISC1"] || zones != 8 {
			b.Errorf("the file has %d zones on tracks %v", zones, tracks)
		}
		b.Must(tr.Release(b.Ctx))
	})
}
