package libttsim

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

// ErrNotRecord: a file isn't what a library wrote to Settings.Record, or the program was killed.
var ErrNotRecord = errors.New("not a recording of TT-NN")

// Step is what a host's store made a chip do until all cores of the machine waited.
type Step struct {
	Chip    int
	Stored  bool // the store was to this chip
	Fetched []Fetch
	emu.Track
	// Executed are instructions of the first command queue's processors since the first step
	// (emu.Chip.QueueExecuted).
	Executed [3]uint64
}

// Fetch is what the chip read from host memory at a bus address: commands of a queue.
type Fetch struct {
	Bus   uint64
	Bytes []byte
}

// recorder writes the steps of a machine to Settings.Record.
type recorder struct {
	file  *os.File
	out   *bufio.Writer
	gob   *gob.Encoder
	chips []*fetches
	err   error
}

// fetches is host memory for one chip.
type fetches struct {
	driver.DMA
	now []Fetch
}

func newRecorder(path, machine string) (*recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("libttsim: record: %w", err)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	r := &recorder{file: f, out: out, gob: gob.NewEncoder(out)}
	_, r.err = out.WriteString(RecordMagic)
	r.err = errors.Join(r.err, r.gob.Encode(machine))
	return r, nil
}

// memory returns host memory for the next chip.
func (r *recorder) memory(m driver.DMA) driver.DMA {
	if r == nil {
		return m
	}
	r.chips = append(r.chips, &fetches{DMA: m})
	return r.chips[len(r.chips)-1]
}

// ReadHost implements driver.DMA.
func (r *fetches) ReadHost(bus uint64, p []byte) error {
	if err := r.DMA.ReadHost(bus, p); err != nil {
		return err
	}
	n := len(r.now)
	if n == 0 || r.now[n-1].Bus+uint64(len(r.now[n-1].Bytes)) != bus {
		r.now, n = append(r.now, Fetch{Bus: bus}), n+1
	}
	f := &r.now[n-1]
	f.Bytes = append(f.Bytes, p...)
	return nil
}

func (r *recorder) step(chips []*emu.Chip, stored *emu.Chip) {
	if r == nil {
		return
	}
	for i, c := range chips {
		s := Step{Chip: i, Stored: c == stored, Fetched: r.chips[i].now, Track: c.TakeTrack()}
		if r.chips[i].now = nil; r.err == nil && len(s.Fetched)+len(s.Read)+len(s.Written)+len(s.Host) > 0 {
			s.Executed = c.QueueExecuted()
			r.err = r.gob.Encode(s)
		}
	}
}

func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	if err := errors.Join(r.err, r.out.Flush(), r.file.Close()); err != nil {
		return fmt.Errorf("libttsim: record: %w", err)
	}
	return nil
}

// RecordMagic begins what a library writes to Settings.Record.
const RecordMagic = "RPRTTNN2"

// ReadSteps reads it.
func ReadSteps(r io.Reader) (chip.Machine, []Step, error) {
	var machine string
	var steps []Step
	b := bufio.NewReader(r)
	magic := make([]byte, len(RecordMagic))
	if _, err := io.ReadFull(b, magic); err != nil || string(magic) != RecordMagic {
		return chip.Machine{}, nil, fmt.Errorf("libttsim: %w: it doesn't begin with %s", ErrNotRecord, RecordMagic)
	}
	d := gob.NewDecoder(b)
	err := d.Decode(&machine)
	for err == nil {
		var s Step
		if err = d.Decode(&s); err == nil {
			steps = append(steps, s)
		}
	}
	if err != io.EOF {
		return chip.Machine{}, nil, fmt.Errorf("libttsim: %w: %w", ErrNotRecord, err)
	}
	s := Settings{Machine: machine}
	spec, err := s.Spec()
	return spec, steps, err
}
