package observe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

// ZoneSpan is a zone of a kernel (reprise/zone.h), or a printed line, which has no duration.
type ZoneSpan struct {
	print.Record
	HostStart, HostEnd time.Duration // since StartTimeline
}

// Record adds what a kernel has printed to the timeline: it is a handler for print.Listen. Zones
// and lines get a track for each processor of a core. The clocks of a chip's tiles all begin with
// its reset, and so count as one.
func (t *Timeline) Record(r print.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Lost > 0 {
		t.dropped += int(r.Lost)
	}
	if r.Kernel == "" { // a note of the Listener
		return
	}
	if len(t.printed) >= t.most {
		t.dropped++
		return
	}
	t.printed = append(t.printed, r)
}

// Zones returns what kernels have recorded, by core and processor, in the order of their starts,
// longer ones first. It is complete once the Listener was drained and Stop has returned.
func (t *Timeline) Zones() []ZoneSpan {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]ZoneSpan, len(t.printed))
	for i, r := range t.printed {
		if !r.Zone {
			r.Start = r.Time
		}
		out[i] = ZoneSpan{Record: r, HostStart: t.hostTimeLocked(r.Start), HostEnd: t.hostTimeLocked(r.Time)}
	}
	slices.SortStableFunc(out, func(a, b ZoneSpan) int {
		return cmp.Or(cmp.Compare(a.Core.X, b.Core.X), cmp.Compare(a.Core.Y, b.Core.Y), cmp.Compare(a.Processor, b.Processor),
			cmp.Compare(a.Start, b.Start), cmp.Compare(b.Time, a.Time))
	})
	return out
}

func (t *Timeline) zoneEvents() (tracks, body []traceEvent) {
	type place struct {
		core chip.Core
		on   chip.Processor
	}
	var last place
	for i, z := range t.Zones() {
		if at := (place{z.Core, z.Processor}); i == 0 || at != last {
			last = at
			tracks = append(tracks, meta("thread_name", zoneProcess, len(tracks), fmt.Sprintf("%v %v", at.core, at.on)))
		}
		e := traceEvent{Name: z.Text, Category: "zone", Phase: "X", Time: micros(z.HostStart), Process: zoneProcess, Thread: len(tracks) - 1,
			Args: map[string]any{"program": z.Program, "kernel": z.Kernel}}
		if z.Zone {
			d := micros(z.HostEnd - z.HostStart)
			e.Duration, e.Args["cycles"] = &d, z.Time-z.Start
		} else {
			e.Category, e.Phase = "print", "i"
		}
		if z.File != "" {
			e.Args["source"] = fmt.Sprintf("%s:%d", z.File, z.Line)
		}
		body = append(body, e)
	}
	if len(tracks) > 0 {
		tracks = append(tracks, meta("process_name", zoneProcess, 0, t.dev.Name()+": kernels"))
	}
	return tracks, body
}
