// Package recording finds in what TT-NN did on an emulated chip (libttsim.Settings.Record) the
// traces that it replayed and all memory in DRAM that they need: inputs, which the host writes
// between two replays, results, which it reads after one, and everything else that a replay reads
// before it writes it, such as weights.
package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/sparse"
	"github.com/reprise-tt/reprise/sim/emu"
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
	Chips []*chip.Chip
	// Traces are in the order of their first replays on the first chip that has them. Each has a
	// part for each chip, nil on chips that don't replay it.
	Traces [][]*Trace

	links  []chip.Link
	before []libttsim.Step // the first replay
}

// Trace is a trace that the program replayed, on one chip.
type Trace struct {
	Addr            uint64 // in every DRAM bank
	Pages, PageSize int
	Replays         int
	Commands        []byte
	// SubDevices are the cores of each sub-device, nil if the device isn't divided.
	SubDevices [][]chip.Range
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
	// L1End is behind the L1 that the programs use below all buffers.
	L1End uint64

	first, last   int           // steps
	before        sparse.Memory // all memory before the first replay
	read, written sparse.Memory // by the first replay
	foreign       sparse.Memory // what programs outside of the trace have written since the last replay
	stale         sparse.Memory // what they had written before a replay
	tensors       []Tensor
}

// reader follows one chip.
type reader struct {
	Chip      *chip.Chip
	Traces    []*Trace      // in the order of their first replays
	dram, l1  *kind         // l1 is nil if the recording has no table of banks
	setup     sparse.Memory // of several chips: what the host stored outside of queues
	steps     []libttsim.Step
	turns     []int // of the steps, among those of all chips
	step      int
	replays   int
	now       sparse.Memory
	transfers []transfer
	notes     []note

	subDevices int
	division   [][]chip.Range // nil without, or if nothing says which workers they have
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
	var tensorNotes []note
	if tensors != nil {
		if tensorNotes, err = readNotes(tensors); err != nil {
			return nil, err
		}
	}
	out := &Recording{links: spec.Links}
	var chips []*reader
	for _, c := range spec.Chips {
		ch, err := chip.New(spec.Arch, c.Harvesting)
		if err != nil {
			return nil, err
		}
		out.Chips = append(out.Chips, ch)
		chips = append(chips, &reader{Chip: ch, dram: dram(ch), now: sparse.Memory{}, notes: tensorNotes})
	}
	var all []byte
	for i, s := range steps {
		if s.Chip < 0 || s.Chip >= len(chips) {
			return nil, fmt.Errorf("%w: a step of chip %d of %d", ErrOther, s.Chip, len(chips))
		}
		chips[s.Chip].add(s, i)
		for _, f := range s.Fetched {
			all = append(all, f.Bytes...)
		}
	}
	if len(all) == 0 {
		return nil, ErrNoTrace
	}
	v, _, err := cq.Detect(cq.Layout(spec.Arch), all)
	if err != nil {
		return nil, err
	}
	for i, r := range chips {
		r.l1 = r.findL1(i, steps)
		if len(chips) > 1 {
			r.setup = sparse.Memory{}
		}
		for i, s := range r.steps {
			r.step = i
			if err := r.follow(s, v); err != nil {
				return nil, err
			}
		}
	}
	if out.join(chips); len(out.Traces) == 0 {
		return nil, ErrNoTrace
	}
	for _, r := range chips {
		for _, t := range r.Traces {
			if err := r.buffers(t); err != nil {
				return nil, err
			}
		}
	}
	end := len(steps)
	for _, r := range chips {
		for _, t := range r.Traces {
			end = min(end, r.turns[t.first])
		}
	}
	out.before = steps[:end]
	return out, nil
}

// add adds a step, the turn-th of all chips. What the chip does while the host stores to another
// one belongs to its own last commands: a chip may wait for another's.
func (r *reader) add(s libttsim.Step, turn int) {
	if len(s.Fetched)+len(s.Read)+len(s.Written) == 0 {
		return
	}
	if s.Read == nil {
		s.Read = sparse.Memory{}
	}
	if s.Written == nil {
		s.Written = sparse.Memory{}
	}
	n := len(r.steps) - 1
	for !s.Stored && n >= 0 && len(r.steps[n].Fetched) == 0 {
		n--
	}
	if s.Stored || n < 0 {
		r.steps, r.turns = append(r.steps, s), append(r.turns, turn)
		return
	}
	last := &r.steps[n]
	last.Fetched = append(last.Fetched, s.Fetched...)
	s.Read.All(func(a uint64, v uint32) bool {
		_, written := last.Written.Get(a)
		if _, read := last.Read.Get(a); !written && !read {
			last.Read.Set(a, v)
		}
		return true
	})
	last.Written.Put(s.Written)
}

// join brings together the parts of each trace, which have one address on all chips.
func (r *Recording) join(chips []*reader) {
	for i, of := range chips {
		for _, t := range of.Traces {
			k := slices.IndexFunc(r.Traces, func(parts []*Trace) bool {
				return parts[i] == nil && slices.ContainsFunc(parts, func(p *Trace) bool { return p != nil && p.Addr == t.Addr })
			})
			if k < 0 {
				k = len(r.Traces)
				r.Traces = append(r.Traces, make([]*Trace, len(chips)))
			}
			r.Traces[k][i] = t
		}
	}
}

func (r *reader) follow(s libttsim.Step, v *cq.Revision) error {
	r.workers(s.Read)
	r.workers(s.Written)
	if r.setup != nil && len(s.Fetched) == 0 {
		r.setup.Put(s.Written)
	}
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
			case "SET_NUM_WORKER_SEMS":
				n, _ := c.Value("num")
				r.subDevices, r.division = min(int(n), cq.MaxSubDevices), nil
			case "WRITE_PACKED":
				if w := metaltrace.Packed(c, f.Bytes); w.Type == cq.PackedGoIndex {
					r.divide(&w)
				}
			case "WRITE_PAGED", "RELAY_PAGED", "WRITE_LINEAR", "RELAY_LINEAR", "EXEC_BUF":
				x, err := r.transfer(c)
				if err != nil {
					return err
				}
				if x.kind == nil {
					continue
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

// transfer is a host's read or write through a queue.
type transfer struct {
	extent
	step  int
	write bool
}

// transfer returns the pages that a command names, or none if it is for no buffer.
func (r *reader) transfer(c *cq.Reading) (x transfer, err error) {
	value := func(name string) int { n, _ := c.Value(name); return int(n) }
	x = transfer{step: r.step, write: strings.HasPrefix(c.Name, "WRITE")}
	x.kind, x.base, x.page, x.pages = r.dram, uint64(value("base")), value("page_size"), value("start")+value("pages")
	switch c.Name {
	case "EXEC_BUF":
		x.page = 1 << value("log2_page")
	case "WRITE_LINEAR", "RELAY_LINEAR":
		addr := uint64(value("addr"))
		xy, _ := r.split(uint32(value("noc")))
		core, worker := r.Chip.Logical(xy)
		x.kind = r.l1
		if !worker {
			x.kind = r.dram
			banks := r.Chip.DRAMBanks()
			core = chip.Core{X: slices.IndexFunc(banks, func(b chip.Bank) bool {
				return slices.Contains(b.Ports[:], xy) && addr-b.Offset < b.Size
			})}
			if core.X < 0 {
				return transfer{}, nil
			}
			addr -= banks[core.X].Offset
		} else if addr < emu.FirstL1 || r.l1 != nil && r.l1.bank(core) < 0 {
			return transfer{}, nil
		}
		if x.base, x.page = addr, value("length"); x.kind != nil {
			err = x.alone(core)
		}
	default:
		if value("memory") == 0 && value("flags")>>15 == 0 {
			x.kind = r.l1
		}
	}
	if x.kind == nil {
		return x, fmt.Errorf("%s to L1: %w: the recording doesn't have the table of its banks", c.Name, ErrOther)
	}
	if err == nil && (x.page%4 != 0 || x.end() > x.kind.size) {
		err = fmt.Errorf("%s of %d pages of %d B at %#x goes beyond a bank", c.Name, x.pages, x.page, x.base)
	}
	return x, err
}

// split returns the virtual coordinates in a word.
func (r *reader) split(word uint32) (xy chip.XY, ok bool) {
	xy.X, xy.Y, ok = cq.Layout(r.Chip.Arch()).SplitXY(word)
	return xy, ok
}

func (r *reader) kinds() []*kind {
	if r.l1 == nil {
		return []*kind{r.dram}
	}
	return []*kind{r.dram, r.l1}
}

// workers leaves out the L1 of tiles that have no bank, such as those of command queues.
func (r *reader) workers(m sparse.Memory) {
	maps.DeleteFunc(m, func(n uint64, _ *sparse.Block) bool {
		at := n * sparse.BlockSize
		return !slices.ContainsFunc(r.kinds(), func(k *kind) bool {
			bank, _ := k.place(at)
			return bank >= 0
		})
	})
}

// begin notes what a trace's first replay did, without the commands and kernels that it read.
func (r *reader) begin(t *Trace, read, written sparse.Memory) error {
	t.written, t.foreign, t.stale, t.read, t.before = written, sparse.Memory{}, sparse.Memory{}, sparse.Memory{}, sparse.Memory{}
	t.read.Put(read)
	t.before.Put(r.now)
	kernels := &memory{read, r.dram.banks, func(bank int, addr uint64, n int) {
		for i := range (n + 3) / 4 {
			t.read.Delete(r.dram.banks[bank] + addr + uint64(4*i))
		}
	}}
	err := metaltrace.ReadInterleaved(kernels, len(r.dram.banks), t.Addr, t.PageSize, 0, t.Commands)
	if err == nil {
		_, err = metaltrace.Read(kernels, len(r.dram.banks), cq.Layout(r.Chip.Arch()), t.Commands, "")
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

func (r *reader) incomplete(t *Trace, a uint64) error {
	return fmt.Errorf("%w: between two replays of the trace at %#x a program that isn't part of it writes what the trace reads, "+
		"such as %s: write inputs from the host, or make the program part of the trace", ErrIncomplete, t.Addr, r.place(a))
}

// replay returns the trace at an address, a new one unless it has the same commands as before.
func (r *reader) replay(x transfer, read sparse.Memory) *Trace {
	commands, _ := x.content(read)
	i := slices.IndexFunc(r.Traces, func(t *Trace) bool { return t.Addr == x.base && slices.Equal(t.Commands, commands) })
	if i >= 0 {
		return r.Traces[i]
	}
	t := &Trace{Addr: x.base, Pages: x.pages, PageSize: x.page, Commands: commands, SubDevices: r.division,
		Memory: &memory{Memory: read, banks: r.dram.banks}, first: r.step, tensors: notedAt(r.notes, r.replays)}
	r.Traces = append(r.Traces, t)
	return t
}

// divide notes the rectangles of each sub-device, whose workers listen to the go message of its
// number. Workers of none listen to another.
func (r *reader) divide(w *cq.WritePacked) {
	r.division = make([][]chip.Range, r.subDevices)
	rest := false
	for i, rect := range w.Rects {
		x0, y0, x1, y1, _ := cq.Layout(r.Chip.Arch()).SplitRect(rect.NOC)
		start, ok := r.Chip.Logical(chip.XY{X: x0, Y: y0})
		end, ok2 := r.Chip.Logical(chip.XY{X: x1, Y: y1})
		index := w.Slot(i)
		if !ok || !ok2 || index == nil {
			continue
		}
		if sub := binary.LittleEndian.Uint32(index); sub < uint32(r.subDevices) {
			r.division[sub] = append(r.division[sub], chip.Range{Start: start, End: end})
		} else {
			rest = true
		}
	}
	if r.subDevices == 1 && !rest { // the whole device
		r.division = nil
	}
}
