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

// Record adds what a kernel has printed to the timeline: it is a handler for print.Listen. The
// clocks of a chip's tiles all begin with its reset, and so count as one.
func (t *Timeline) Record(r print.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped += int(r.Lost)
	if r.Kernel == "" {
		return
	}
	if len(t.printed) >= t.most {
		t.dropped++
		return
	}
	t.printed = append(t.printed, r)
}

// Zones returns what kernels have recorded, by core, processor and start, longer ones first. It is
// complete once the Listener was drained and Stop has returned.
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
		e := newEvent(z.Text, "zone", z.HostStart, z.HostEnd, zoneProcess, len(tracks)-1)
		e.Args = map[string]any{"program": z.Program, "kernel": z.Kernel}
		if z.Zone {
			e.Args["cycles"] = z.Time - z.Start
		} else {
			e.Category, e.Phase, e.Duration = "print", "i", nil
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
