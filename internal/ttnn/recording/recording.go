// Package recording finds in what TT-NN did on an emulated chip (libttsim.Settings.Record) the
// traces that it replayed and all memory in DRAM that they need: inputs, which the host writes
// between two replays, results, which it reads after one, and everything else that a replay reads
// before it writes it, such as weights.
package recording

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

var (
	// ErrIncomplete: memory that a trace needs isn't the same in all replays, and no input.
	ErrIncomplete = errors.New("the recording doesn't have all that the trace needs")
	// ErrNoTrace: the program replayed no trace.
	ErrNoTrace = errors.New("the program replayed no trace")
)

// ErrOther: a file isn't a recording.
var ErrOther = libttsim.ErrNotRecord

// Recording is what a program did.
type Recording struct {
	Chip   *chip.Chip
	Traces []*Trace // in the order of their first replays
}

// Trace is a trace that the program replayed.
type Trace struct {
	Addr            uint64 // in every DRAM bank
	Pages, PageSize int
	Replays         int
	Commands        []byte
	// Memory has the kernels.
	Memory metaltrace.Memory
	// Buffers are named in0, in1 and so on if they are inputs, out0 if they are results, w0 if the
	// host wrote them and the trace only reads them. m0 is other memory of the trace.
	Buffers []tracebuf.Buffer
	// Data are what the buffers held before the first replay, Results what the results held after it.
	Data, Results []tracebuf.Data

	first, last   int   // steps
	spoiled       error // what a later replay would read was written by something else
	read, written memory
}

type reader struct {
	Recording
	banks     banks
	step      int
	transfers []transfer
}

// Read reads a recording. The error wraps ErrIncomplete, ErrNoTrace or cq.ErrRevision.
func Read(r io.Reader) (*Recording, error) {
	spec, steps, err := libttsim.ReadSteps(r)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	ch, err := chip.New(spec.Arch, spec.Chips[0].Harvesting)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	rd := reader{Recording: Recording{Chip: ch}, banks: ch.DRAMBanks()}
	revision, err := rd.revision(steps)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	for i, s := range steps {
		rd.step = i
		if err := rd.follow(s, revision); err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
	}
	if len(rd.Traces) == 0 {
		return nil, fmt.Errorf("recording: %w", ErrNoTrace)
	}
	for _, t := range rd.Traces {
		rd.buffers(t)
	}
	return &rd.Recording, nil
}

// revision returns the only one in which all commands are valid.
func (r *reader) revision(steps []libttsim.Step) (*cq.Revision, error) {
	e := &cq.RevisionError{}
	var found *cq.Revision
	for _, v := range cq.Revisions() {
		err := func() error {
			for _, s := range steps {
				for _, f := range s.Fetched {
					if _, err := v.Read(cq.Layout(r.Chip.Arch()), f.Bytes); err != nil {
						return err
					}
				}
			}
			return nil
		}()
		if err != nil {
			e.Refused = append(e.Refused, cq.RefusedRevision{Name: v.Name, Err: err})
			continue
		}
		found, e.Accepted = v, append(e.Accepted, v.Name)
	}
	if found == nil {
		return nil, e
	}
	return found, nil // the newest: older ones that read all of it read it alike
}

func (r *reader) follow(s libttsim.Step, v *cq.Revision) error {
	read, written := r.banks.used(s.Used)
	programs := 0
	var replayed *Trace
	for _, f := range s.Fetched {
		commands, err := v.Read(cq.Layout(r.Chip.Arch()), f.Bytes)
		if err != nil {
			return err
		}
		for i := range commands {
			c := &commands[i]
			value := func(name string) int { n, _ := c.Value(name); return int(n) }
			switch c.Name {
			case "WRITE_PAGED":
				if value("memory") == 0 {
					return fmt.Errorf("%w: the host writes %d pages at %#x of L1, and tensors in L1 aren't followed", ErrIncomplete,
						value("pages"), value("base"))
				}
				r.transfers = append(r.transfers, transfer{r.step, true, uint64(value("base")), value("page_size"), value("start") + value("pages")})
			case "RELAY_PAGED":
				r.transfers = append(r.transfers, transfer{r.step, false, uint64(value("base")), value("page_size"), value("start") + value("pages")})
			case "SEND_GO_SIGNAL":
				if cq.GoWord(value("go")).Signal() == cq.SignalGo {
					programs++
				}
			case "EXEC_BUF":
				replayed = r.replay(uint64(value("base")), 1<<value("log2_page"), value("pages"), read)
			}
		}
	}
	if programs == 0 && replayed == nil {
		return nil
	}
	for _, t := range r.Traces {
		if t != replayed {
			t.spoil(written)
			continue
		}
		if t.spoiled != nil {
			return t.spoiled
		}
		if t.Replays++; t.Replays == 1 {
			if err := r.begin(t, read, written); err != nil {
				return err
			}
		}
		t.last = r.step
	}
	return nil
}

// begin notes what a trace's first replay did, without the commands and kernels that it read.
func (r *reader) begin(t *Trace, read, written memory) error {
	kernels := &watched{memory: read}
	if _, err := metaltrace.Read(kernels, len(r.banks), cq.Layout(r.Chip.Arch()), t.Commands, ""); err != nil {
		return err
	}
	t.read, t.written = memory{}, written
	for at, b := range read {
		copied := *b
		t.read[at] = &copied
	}
	for p := range t.Pages {
		t.read.drop(p%len(r.banks), t.Addr+uint64(p/len(r.banks)*t.PageSize), t.PageSize)
	}
	for _, s := range kernels.seen {
		t.read.drop(s.bank, s.addr, s.n)
	}
	return nil
}

// spoil notes that a program which isn't of the trace has written what the trace reads.
func (t *Trace) spoil(written memory) {
	if t.spoiled != nil {
		return
	}
	written.all(func(bank int, addr uint64, _ uint32) bool {
		if _, ok := t.read.get(bank, addr); ok {
			t.spoiled = fmt.Errorf("%w: between two replays of the trace at %#x a program that isn't part of it writes what the trace reads, "+
				"such as %#x of DRAM bank %d: write inputs from the host, or make the program part of the trace", ErrIncomplete, t.Addr, addr, bank)
		}
		return t.spoiled == nil
	})
}

// replay returns the trace at an address, a new one unless it has the same commands as before.
func (r *reader) replay(addr uint64, page, pages int, read memory) *Trace {
	commands, _ := read.interleaved(len(r.banks), addr, page, page, page*pages)
	i := slices.IndexFunc(r.Traces, func(t *Trace) bool { return t.Addr == addr && slices.Equal(t.Commands, commands) })
	if i >= 0 {
		return r.Traces[i]
	}
	t := &Trace{Addr: addr, Pages: pages, PageSize: page, Commands: commands, Memory: read, first: r.step}
	r.Traces = append(r.Traces, t)
	return t
}
