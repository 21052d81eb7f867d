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
	"github.com/reprise-tt/reprise/internal/sparse"
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
	// Executed are libttsim.Step.Executed after each replay.
	Executed [][3]uint64
	// Memory has the kernels.
	Memory metaltrace.Memory
	// Buffers are named in0, in1 and so on if they are inputs, out0 if they are results, w0 if the
	// host wrote them before. m0 is other memory that the trace uses.
	Buffers []tracebuf.Buffer
	// Data is what the buffers held before the first replay, Results what the results held after
	// it.
	Data, Results []tracebuf.Data

	first, last   int           // steps
	before        sparse.Memory // all memory before the first replay
	read, written sparse.Memory // by the first replay
	foreign       sparse.Memory // what programs outside of the trace have written since the last replay
	stale         sparse.Memory // what they had written before a replay
	tensors       []Tensor
}

type reader struct {
	Recording
	banks     []chip.Bank
	step      int
	replays   int
	now       sparse.Memory
	transfers []transfer
	notes     []note
}

// Read reads a recording, and the tensors that ttnn.Run.Tensors noted, if not nil. The error wraps
// ErrOther, ErrIncomplete, ErrNoTrace or cq.ErrRevision.
func Read(from, tensors io.Reader) (_ *Recording, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("recording: %w", err)
		}
	}()
	spec, steps, err := libttsim.ReadSteps(from)
	if err != nil {
		return nil, err
	}
	ch, err := chip.New(spec.Arch, spec.Chips[0].Harvesting)
	if err != nil {
		return nil, err
	}
	r := reader{Recording: Recording{Chip: ch}, banks: ch.DRAMBanks(), now: sparse.Memory{}}
	if tensors != nil {
		if r.notes, err = readNotes(tensors); err != nil {
			return nil, err
		}
	}
	var all []byte
	for _, s := range steps {
		for _, f := range s.Fetched {
			all = append(all, f.Bytes...)
		}
	}
	if len(all) == 0 {
		return nil, ErrNoTrace
	}
	v, _, err := cq.Detect(cq.Layout(ch.Arch()), all)
	if err != nil {
		return nil, err
	}
	for i, s := range steps {
		r.step = i
		if err := r.follow(s, v); err != nil {
			return nil, err
		}
	}
	if len(r.Traces) == 0 {
		return nil, ErrNoTrace
	}
	for _, t := range r.Traces {
		if err := r.buffers(t); err != nil {
			return nil, err
		}
	}
	return &r.Recording, nil
}

func (r *reader) follow(s libttsim.Step, v *cq.Revision) error {
	programs := false
	var replayed *Trace
	for _, f := range s.Fetched {
		commands, err := v.Read(cq.Layout(r.Chip.Arch()), f.Bytes)
		if err != nil {
			return err
		}
		for i := range commands {
			switch c := &commands[i]; c.Name {
			case "SEND_GO_SIGNAL":
				g, _ := c.Value("go")
				programs = programs || cq.GoWord(g).Signal() == cq.SignalGo
			case "WRITE_PAGED", "RELAY_PAGED", "EXEC_BUF":
				x, err := r.transfer(c)
				if err != nil {
					return err
				}
				if c.Name == "EXEC_BUF" {
					replayed = r.replay(x, s.Read)
					r.replays++
				} else {
					r.transfers = append(r.transfers, x)
				}
			}
		}
	}
	for _, t := range r.Traces {
		if t != replayed {
			t.note(s.Written, !programs && replayed == nil)
			continue
		}
		t.Executed = append(t.Executed, s.Executed)
		if t.Replays++; t.Replays == 1 {
			if err := r.begin(t, s.Read, s.Written); err != nil {
				return err
			}
		}
		t.stale.Put(t.foreign)
		t.foreign, t.last = sparse.Memory{}, r.step
	}
	r.now.Put(s.Written)
	return nil
}

// transfer returns the pages in DRAM that a command names.
func (r *reader) transfer(c *cq.Reading) (transfer, error) {
	value := func(name string) int { n, _ := c.Value(name); return int(n) }
	x := transfer{step: r.step, write: c.Name == "WRITE_PAGED", base: uint64(value("base")), page: value("page_size"),
		pages: value("start") + value("pages")}
	if c.Name == "EXEC_BUF" {
		x.page = 1 << value("log2_page")
	} else if value("memory") == 0 && value("flags")>>15 == 0 {
		return x, fmt.Errorf("%w: the host uses %d pages at %#x of L1, and tensors in L1 aren't followed", ErrIncomplete, x.pages, x.base)
	}
	if x.page%4 != 0 || x.end(r.banks) > r.banks[0].Size {
		return x, fmt.Errorf("%s of %d pages of %d B at %#x goes beyond DRAM", c.Name, x.pages, x.page, x.base)
	}
	return x, nil
}

// begin notes what a trace's first replay did, without the commands and kernels that it read.
func (r *reader) begin(t *Trace, read, written sparse.Memory) error {
	t.written, t.foreign, t.stale, t.read, t.before = written, sparse.Memory{}, sparse.Memory{}, sparse.Memory{}, sparse.Memory{}
	t.read.Put(read)
	t.before.Put(r.now)
	kernels := &memory{read, r.banks, func(bank int, addr uint64, n int) {
		for i := range (n + 3) / 4 {
			t.read.Delete(at(r.banks, bank, addr+uint64(4*i)))
		}
	}}
	err := metaltrace.ReadInterleaved(kernels, len(r.banks), t.Addr, t.PageSize, 0, t.Commands)
	if err == nil {
		_, err = metaltrace.Read(kernels, len(r.banks), cq.Layout(r.Chip.Arch()), t.Commands, "")
	}
	return err
}

// note follows what a step that isn't the trace's replay has written.
func (t *Trace) note(written sparse.Memory, byHost bool) {
	if !byHost {
		t.foreign.Put(written)
		return
	}
	for a := range written.All {
		t.foreign.Delete(a)
	}
}

func (t *Trace) incomplete(a uint64) error {
	return fmt.Errorf("%w: between two replays of the trace at %#x a program that isn't part of it writes what the trace reads, "+
		"such as %#x of DRAM controller %d: write inputs from the host, or make the program part of the trace", ErrIncomplete, t.Addr,
		a&(1<<40-1), a>>40)
}

// replay returns the trace at an address, a new one unless it has the same commands as before.
func (r *reader) replay(x transfer, read sparse.Memory) *Trace {
	commands, _ := x.content(r.banks, read)
	i := slices.IndexFunc(r.Traces, func(t *Trace) bool { return t.Addr == x.base && slices.Equal(t.Commands, commands) })
	if i >= 0 {
		return r.Traces[i]
	}
	t := &Trace{Addr: x.base, Pages: x.pages, PageSize: x.page, Commands: commands,
		Memory: &memory{Memory: read, banks: r.banks}, first: r.step, tensors: notedAt(r.notes, r.replays)}
	r.Traces = append(r.Traces, t)
	return t
}
