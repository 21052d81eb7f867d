package observe

import (
	"errors"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
)

const programEvery = time.Millisecond // between two readings of the rings, which hold a thousand programs of each queue

// ProgramLog collects when the programs of a device's queues run, without any command in the
// queues. Its methods may be called from any goroutine.
type ProgramLog struct {
	end  func()
	most int

	mu     sync.Mutex
	from   []*dispatch.ProgramTimes // by queue; nil where the firmware notes no times
	queues []queueLog
	err    error
}

type queueLog struct {
	times []dispatch.ProgramTime
	gaps  []programGap
	lost  int
}

// programGap is programs whose times were overwritten before they were read.
type programGap struct {
	before int // index in times of the program after them
	lost   int // programs lost so far, these included
}

// CollectPrograms begins to collect the times of the programs that the device starts from here on,
// and maybe of some before. tt-metal's firmware notes no times.
func CollectPrograms(dev *reprise.Device) (*ProgramLog, error) {
	p := &ProgramLog{most: mostSpans, queues: make([]queueLog, dev.Queues())}
	for id := range dev.Queues() {
		from, err := dev.Queue(id).ProgramTimes()
		if err != nil && !errors.Is(err, dispatch.ErrQueueFirmware) {
			return nil, err
		}
		p.from = append(p.from, from)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	p.end = sync.OnceFunc(func() { close(end); <-ended })
	go func() {
		defer close(ended)
		tick := time.NewTicker(programEvery)
		defer tick.Stop()
		for p.collect() {
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return p, nil
}

func (p *ProgramLog) collect() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, from := range p.from {
		q := &p.queues[id]
		if from == nil || p.err != nil {
			continue
		}
		had := len(q.times)
		var lost int
		q.times, lost, p.err = from.Append(q.times)
		if lost > 0 {
			q.lost += lost
			q.gaps = append(q.gaps, programGap{had, q.lost})
		}
		if over := len(q.times) - p.most; over > 0 {
			q.times = q.times[:p.most]
			q.lost += over
		}
	}
	return p.err == nil
}

// Stop reads the remaining times and ends the collection. The error is the first one of reading
// times, such as [dispatch.ErrTimesLost] after a Recover: earlier times are kept.
func (p *ProgramLog) Stop() error {
	p.end()
	p.collect()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from = nil
	return p.err
}

// Err returns the first error of reading times, nil without one.
func (p *ProgramLog) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// At returns the time of program n of a queue, counted from 0 by start; false if it isn't known to
// be done or was lost.
func (p *ProgramLog) At(queue, n int) (dispatch.ProgramTime, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.queues[queue]
	lost := 0
	for _, g := range q.gaps {
		if n < g.before+lost {
			break
		}
		if lost = g.lost; n < g.before+lost {
			return dispatch.ProgramTime{}, false
		}
	}
	if n -= lost; n >= len(q.times) {
		return dispatch.ProgramTime{}, false
	}
	return q.times[n], true
}

// Done returns how many programs of a queue are known to be done, lost ones included.
func (p *ProgramLog) Done(queue int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.queues[queue]
	n := len(q.times)
	if k := len(q.gaps); k > 0 {
		n += q.gaps[k-1].lost
	}
	return n
}

func (p *ProgramLog) take(queue int) (times []dispatch.ProgramTime, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queues[queue].times, p.queues[queue].lost
}
