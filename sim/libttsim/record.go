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

// Step is what a host's store made the chip do until all its cores waited.
type Step struct {
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

// recorder writes the steps of a machine with one chip to Settings.Record.
type recorder struct {
	driver.DMA
	file *os.File
	out  *bufio.Writer
	gob  *gob.Encoder
	now  Step
	err  error
}

func newRecorder(path, machine string, memory driver.DMA) (*recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("libttsim: record: %w", err)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	r := &recorder{DMA: memory, file: f, out: out, gob: gob.NewEncoder(out)}
	_, r.err = out.WriteString(RecordMagic)
	r.err = errors.Join(r.err, r.gob.Encode(machine))
	return r, nil
}

// ReadHost implements driver.DMA.
func (r *recorder) ReadHost(bus uint64, p []byte) error {
	if err := r.DMA.ReadHost(bus, p); err != nil {
		return err
	}
	n := len(r.now.Fetched)
	if n == 0 || r.now.Fetched[n-1].Bus+uint64(len(r.now.Fetched[n-1].Bytes)) != bus {
		r.now.Fetched, n = append(r.now.Fetched, Fetch{Bus: bus}), n+1
	}
	f := &r.now.Fetched[n-1]
	f.Bytes = append(f.Bytes, p...)
	return nil
}

func (r *recorder) step(c *emu.Chip) {
	if r == nil || r.err != nil {
		return
	}
	if r.now.Track = c.TakeTrack(); len(r.now.Fetched)+len(r.now.Read)+len(r.now.Written) > 0 {
		r.now.Executed = c.QueueExecuted()
		r.err = r.gob.Encode(r.now)
	}
	r.now = Step{}
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
const RecordMagic = "RPRTTNN1"

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
