package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/tracebuf"
)

// timesJSON says where the device's time goes in the replays, in cycles of its clock.
type timesJSON struct {
	ClockMHz float64           `json:"clock_mhz,omitempty"` // absent where the device doesn't tell
	Dropped  int               `json:"dropped,omitempty"`   // programs without a time
	Queues   []queueTimeJSON   `json:"queues"`
	Programs []programTimeJSON `json:"programs"` // the longest first
}

type queueTimeJSON struct {
	Queue   int    `json:"queue"`
	Cycles  uint64 `json:"cycles"`
	Between uint64 `json:"cycles_between_programs"` // fetching commands, waiting for others
}

// programTimeJSON is about all runs of one program on a queue. A program's time begins when earlier
// ones are done, and so includes its launch.
type programTimeJSON struct {
	Name    string  `json:"name"`
	Queue   int     `json:"queue"`
	First   int     `json:"first"` // place of its first run; 0 with control flow
	Runs    int     `json:"runs"`
	Cycles  uint64  `json:"cycles"`
	Longest uint64  `json:"longest_cycles"`
	Share   float64 `json:"share"` // of its queue's cycles
}

// timed runs do and adds up the device's times of programs.
func (r *traceRun) timed(ctx context.Context, do func() error) (line *observe.Timeline, err error) {
	if line, err = observe.StartTimeline(ctx, r.dev); err != nil {
		return nil, err
	}
	if err := errors.Join(do(), line.Stop(ctx)); err != nil {
		return nil, err
	}
	out := &timesJSON{Dropped: line.Dropped()}
	if out.ClockMHz, err = r.dev.AIClock(ctx); err != nil && !errors.Is(err, dispatch.ErrNoClock) {
		return nil, err
	}
	for _, s := range line.Spans() {
		if s.Queue < 0 || s.Object != r.Trace {
			continue
		}
		i := slices.IndexFunc(out.Queues, func(q queueTimeJSON) bool { return q.Queue == s.Queue })
		if i < 0 {
			i = len(out.Queues)
			out.Queues = append(out.Queues, queueTimeJSON{Queue: s.Queue})
		}
		out.Queues[i].Cycles += s.EndCycles - s.StartCycles
	}
	out.addPrograms(line.Programs(), r.places(out.Dropped))
	if len(out.Programs) == 0 {
		return nil, fmt.Errorf("trace run: %s notes no times of programs: leave --times and --timeline out", r.out.Device)
	}
	r.out.Times = out
	return line, nil
}

// places returns the place of each program's first run, for each run of a replay, by queue: none
// where control flow decides what runs, or runs are missing.
func (r *traceRun) places(dropped int) map[int][]int {
	out := map[int][]int{}
	for _, part := range r.Parts() {
		if _, ok := observe.ReplayedPrograms(part); !ok || dropped > 0 {
			continue
		}
		first, runs := map[int]int{}, 0
		for _, s := range part.Steps {
			if s.Program == tracebuf.NoProgram {
				continue
			}
			if _, ok := first[s.Program]; !ok {
				first[s.Program] = runs
			}
			out[part.Queue.ID()] = append(out[part.Queue.ID()], first[s.Program])
			runs++
		}
	}
	return out
}

func (t *timesJSON) addPrograms(spans []observe.ProgramSpan, places map[int][]int) {
	for i := range t.Queues {
		q := &t.Queues[i]
		q.Between = q.Cycles
		runs := 0
		for _, s := range spans {
			if s.Queue != q.Queue {
				continue
			}
			first := 0
			if at := places[q.Queue]; len(at) > 0 {
				first = at[runs%len(at)]
				runs++
			}
			k := slices.IndexFunc(t.Programs, func(p programTimeJSON) bool {
				return p.Name == s.Name && p.Queue == s.Queue && p.First == first
			})
			if k < 0 {
				k = len(t.Programs)
				t.Programs = append(t.Programs, programTimeJSON{Name: s.Name, Queue: s.Queue, First: first})
			}
			p, n := &t.Programs[k], s.End-s.Start
			p.Runs, p.Cycles, p.Longest = p.Runs+1, p.Cycles+n, max(p.Longest, n)
			p.Share = float64(p.Cycles) / float64(q.Cycles)
			q.Between -= min(n, q.Between)
		}
	}
	slices.SortStableFunc(t.Programs, func(a, b programTimeJSON) int { return cmp.Compare(b.Cycles, a.Cycles) })
}

func (t *timesJSON) print(w cli.Text, replays int) {
	p := &t.Programs[0]
	w.F("\nbottleneck: %s takes %.1f %% of queue %d's time\n\n", p.name(), 100*p.Share, p.Queue)
	time := func(cycles uint64) string {
		if t.ClockMHz == 0 {
			return tables.Count(float64(cycles)) + " cycles"
		}
		return tables.Duration(float64(cycles) * 1e3 / t.ClockMHz)
	}
	table := w.Table()
	table.Head("program", "queue", "runs", "in a replay", "share", "mean", "longest")
	for _, p := range t.Programs {
		table.Row(p.name(), p.Queue, p.Runs, time(p.Cycles/uint64(replays)), fmt.Sprintf("%.1f %%", 100*p.Share),
			time(p.Cycles/uint64(p.Runs)), time(p.Longest))
	}
	for _, q := range t.Queues {
		share := fmt.Sprintf("%.1f %%", 100*float64(q.Between)/float64(q.Cycles))
		table.Row("between programs", q.Queue, "-", time(q.Between/uint64(replays)), share, "-", "-")
	}
	table.Flush()
	if t.Dropped > 0 {
		w.F("%s more ran than times were read in time\n", cli.Count(t.Dropped, "program"))
	}
}

func (p *programTimeJSON) name() string {
	return fmt.Sprintf("%d %s", p.First, cmp.Or(tracebuf.Printable(p.Name), "unknown"))
}
