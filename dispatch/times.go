package dispatch

import (
	"encoding/binary"
	"errors"

	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// ProgramTime is when a program ran, in cycles of the queue's clock ([Queue.Clock]).
type ProgramTime struct {
	Start uint64 // the programs before were done, and it was started
	// End is when its workers were done: the Start of the next program if that was waiting,
	// otherwise a few instructions late.
	End uint64
}

// ErrTimesLost is returned after a restart of the queue, which forgets the times of programs.
var ErrTimesLost = errors.New("the queue was restarted, which forgets them: begin to read times anew")

// ProgramTimes reads when a queue's programs run, without commands. It is not safe for concurrent
// use.
type ProgramTimes struct {
	q      *Queue
	next   uint32 // number of the first program not yet returned
	starts uint64 // of the queue
}

// ProgramTimes reads the times of the programs that are started from here on, and perhaps of some
// already in the queue. tt-metal's firmware notes no times: [ErrQueueFirmware].
func (q *Queue) ProgramTimes() (*ProgramTimes, error) {
	p := &ProgramTimes{q: q}
	err := p.inside(func() error {
		p.starts = q.Starts()
		var head [4]byte
		if err := p.read(0, head[:]); err != nil {
			return err
		}
		p.next = binary.LittleEndian.Uint32(head[:])
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Append appends the times of the programs started since the last call, in the order of their
// starts. lost programs before the first one were overwritten in the ring of 1,024. The newest
// program is left out until it is done.
func (p *ProgramTimes) Append(dst []ProgramTime) (_ []ProgramTime, lost int, err error) {
	err = p.inside(func() error {
		if p.q.Starts() != p.starts {
			return ErrTimesLost
		}
		dst, lost, err = p.append(dst)
		return err
	})
	return dst, lost, err
}

func (p *ProgramTimes) append(dst []ProgramTime) (_ []ProgramTime, lost int, err error) {
	le := binary.LittleEndian
	var head [4]byte
	if err := p.read(0, head[:]); err != nil {
		return dst, 0, err
	}
	started := le.Uint32(head[:])
	n := started - p.next
	if int32(n) <= 0 {
		return dst, 0, nil
	}
	// The slot after the newest may be written while the ring is read.
	first := started - min(n, memmap.TimesEntries-1)
	b := make([]byte, memmap.TimesStride*(started-first))
	if err := p.ring(first, b); err != nil {
		return dst, 0, err
	}
	if err := p.read(0, head[:]); err != nil {
		return dst, 0, err
	}
	if whole := le.Uint32(head[:]) - (memmap.TimesEntries - 1); int32(whole-first) > 0 {
		gone := min(whole-first, started-first)
		first += gone
		b = b[memmap.TimesStride*gone:]
	}
	lost = int(first - p.next)
	p.next = first
	for ; len(b) > 0; b = b[memmap.TimesStride:] {
		t := ProgramTime{Start: le.Uint64(b), End: le.Uint64(b[8:])}
		last := len(b) == memmap.TimesStride
		switch {
		case t.End >= t.Start:
		case last:
			return dst, lost, nil // not known to be done
		default:
			t.End = le.Uint64(b[memmap.TimesStride:])
		}
		dst = append(dst, t)
		p.next++
	}
	return dst, lost, nil
}

func (p *ProgramTimes) ring(first uint32, b []byte) error {
	for len(b) > 0 {
		at := first % memmap.TimesEntries
		n := min(uint32(len(b)), (memmap.TimesEntries-at)*memmap.TimesStride)
		if err := p.read(memmap.TimesHeader+memmap.TimesStride*at, b[:n]); err != nil {
			return err
		}
		first, b = first+n/memmap.TimesStride, b[n:]
	}
	return nil
}

func (p *ProgramTimes) read(off uint32, b []byte) error {
	return p.q.d.kd.Read(p.q.dispatcher.At, uint64(p.q.d.ctl.Times+off), b)
}

func (p *ProgramTimes) inside(f func() error) error {
	return p.q.beside("times of programs", func() error {
		if p.q.d.ctl.Times == 0 {
			return ErrQueueFirmware
		}
		return f()
	})
}
