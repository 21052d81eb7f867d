package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// EngineSpan is a time in which each sample found a thread of a worker's Tensix engines waiting for
// the same condition.
type EngineSpan struct {
	Worker     chip.Core
	Thread     int           // 0 unpacks, 1 computes, 2 packs
	Wait       string        // the waiting instruction and its condition, in words
	Start, End time.Duration // of the first and the last sample, since StartTimeline
}

type engineThread struct {
	worker chip.Core
	thread int
}

// SampleEngines samples every interval until Stop what the threads of these workers' engines wait
// for, for [Timeline.EngineSpans]. Only an emulated device can tell; otherwise, and for a core
// outside of the chip, the error is that of [dispatch.Debug.EngineWait].
func (t *Timeline) SampleEngines(interval time.Duration, workers ...chip.Core) error {
	if interval <= 0 {
		return fmt.Errorf("observe: sample engines every %v: want an interval above 0", interval)
	}
	if len(workers) == 0 {
		return fmt.Errorf("observe: sample engines: no worker is named")
	}
	var threads []engineThread
	for _, w := range workers {
		for i := range 3 {
			threads = append(threads, engineThread{w, i})
		}
		if _, err := t.dev.Debug().EngineWait(w, 0); err != nil {
			return fmt.Errorf("observe: sample engines: %w", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return fmt.Errorf("observe: sample engines: the timeline has stopped")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		open := make([]int, len(threads)) // index + 1 of the span that each thread is in, 0 if it doesn't wait
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.sample(threads, open)
			}
		}
	})
	t.samplers = append(t.samplers, func() {
		cancel()
		done.Wait()
	})
	return nil
}

func (t *Timeline) sample(threads []engineThread, open []int) {
	for i, th := range threads {
		wait, err := t.dev.Debug().EngineWait(th.worker, th.thread)
		now := time.Since(t.began)
		t.mu.Lock()
		t.noteLocked(err)
		switch {
		case wait == "":
			open[i] = 0
		case open[i] > 0 && t.engines[open[i]-1].Wait == wait:
			t.engines[open[i]-1].End = now
		case len(t.engines) == t.most:
			t.dropped++
		default:
			t.engines = append(t.engines, EngineSpan{th.worker, th.thread, wait, now, now})
			open[i] = len(t.engines)
		}
		t.mu.Unlock()
	}
}

// EngineSpans returns the samples of [Timeline.SampleEngines] by worker, thread and time. It is
// complete once Stop has returned.
func (t *Timeline) EngineSpans() []EngineSpan {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.engines)
	slices.SortStableFunc(out, func(a, b EngineSpan) int {
		return cmp.Or(a.Worker.Compare(b.Worker), cmp.Compare(a.Thread, b.Thread))
	})
	return out
}

func (t *Timeline) engineEvents() (tracks, body []traceEvent) {
	names := [3]string{"unpack", "math", "pack"}
	var last engineThread
	for i, s := range t.EngineSpans() {
		if th := (engineThread{s.Worker, s.Thread}); i == 0 || th != last {
			if i == 0 {
				tracks = append(tracks, meta("process_name", engineProcess, 0, "Tensix engines"))
			}
			last = th
			tracks = append(tracks, meta("thread_name", engineProcess, len(tracks), fmt.Sprintf("worker %v %s", s.Worker, names[s.Thread])))
		}
		body = append(body, newEvent(s.Wait, "engine", s.Start, s.End, engineProcess, len(tracks)-1))
	}
	return tracks, body
}
