package metaltrace

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

const (
	binaryPageLog = 11 // kernels in DRAM
	binaryPage    = 1 << binaryPageLog
	maxRelay      = 32 * binaryPage // half of the prefetcher's scratch memory
	maxRelaySubs  = 35
)

// FileOptions complete a trace's commands and kernels to a trace file.
type FileOptions struct {
	Name string
	// Target is the queue that the file is for. Its workers must be those of tt-metal's programs,
	// its layout that of the base firmware given to FindFirmware or Identify.
	Target tracebuf.Target
	// Buffers are the buffers of the programs, which tt-metal's trace doesn't name.
	Buffers       []tracebuf.Buffer
	Data, Results []tracebuf.Data
	// L1End is behind the L1 that the programs use below the buffers, if known: circular buffers.
	L1End uint64
	// Arguments become parameters of the file's trace.
	Arguments []Argument
}

// File makes a trace file of the trace, whose launches have been found. Commands get the pinned
// revision's form, kernels come from DRAM in each run, and go signals name the target's dispatch
// core; launch messages, arguments and configuration stay. The result passes tracebuf's validation;
// the error wraps an *ImportError, an *ArgumentError or a *tracebuf.FileError.
func (t *Trace) File(o FileOptions) (*tracebuf.File, error) {
	w := writer{trace: t, target: &o.Target, index: map[[sha256.Size]byte]int{}}
	rec := tracebuf.NewRecording(t.Layout)
	for i := range t.Steps {
		s := &t.Steps[i]
		if len(s.Launches) == 0 {
			return nil, errors.New("metaltrace: the launches of the trace were not looked for")
		}
		p := w.program(s)
		var err error
		rec.Add(s.Name(), p, func(dst []byte) ([]byte, uint8) {
			dst, err = w.step(dst, s, p)
			return dst, 0
		})
		if err != nil {
			return nil, err
		}
	}
	im, err := rec.Finish(o.Target.Banks)
	if err != nil {
		return nil, fmt.Errorf("metaltrace: %w", err)
	}
	im.Relocs, im.L1End, im.After = w.relocs, t.circularEnd(&o), im.StateAfter(&o.Target)
	for i := range w.programs {
		p := &w.programs[i]
		im.Programs = append(im.Programs, tracebuf.Program{Name: p.name, Binary: p.binary, Pages: len(p.binary) / binaryPage})
	}
	if im.Params, err = t.params(im, o.Buffers, o.Arguments); err != nil {
		return nil, err
	}
	f := tracebuf.NewFile(o.Name, []tracebuf.Part{{Target: o.Target, Image: *im}}, o.Buffers)
	f.Data, f.Results = o.Data, o.Results
	if err := f.Relocate([]tracebuf.Target{o.Target}); err != nil {
		return nil, fmt.Errorf("metaltrace: %w", err)
	}
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("metaltrace: the trace can't be replayed: %w", err)
	}
	return f, nil
}

// Circular buffers from the lowest L1 buffer on lie in a buffer.
func (t *Trace) circularEnd(o *FileOptions) uint64 {
	buffers := uint64(math.MaxUint64)
	for i := range o.Buffers {
		if b := &o.Buffers[i]; b.Kind != tracebuf.KindDRAM {
			buffers = min(buffers, b.Addr)
		}
	}
	end := o.L1End
	for i := range t.Steps {
		for k := range t.Steps[i].Launches {
			for _, c := range t.Steps[i].Launches[k].Circular {
				if uint64(c.Addr) < buffers {
					end = max(end, uint64(c.Addr)+uint64(c.Size))
				}
			}
		}
	}
	return end
}

type writer struct {
	trace    *Trace
	target   *tracebuf.Target
	programs []program
	index    map[[sha256.Size]byte]int
	relocs   []tracebuf.Reloc
}

type program struct {
	name   string
	binary []byte
	pages  map[[sha256.Size]byte]int
}

// Steps that start the same kernels on the same cores share a program.
func (w *writer) program(s *Step) int {
	h := sha256.New()
	for i := range s.Launches {
		l := &s.Launches[i]
		h.Write([]byte{'L', l.Start.X, l.Start.Y, l.End.X, l.End.Y, byte(len(l.Kernels))})
		for _, k := range l.Kernels {
			sum := sha256.Sum256(k.Text)
			h.Write(append(sum[:], byte(k.Processor)))
		}
	}
	key := [sha256.Size]byte(h.Sum(nil))
	i, ok := w.index[key]
	if !ok {
		i = len(w.programs)
		w.index[key] = i
		w.programs = append(w.programs, program{name: s.Name(), pages: map[[sha256.Size]byte]int{}})
	}
	return i
}

func (p *program) page(data []byte) int {
	key := sha256.Sum256(data)
	page, ok := p.pages[key]
	if !ok {
		page = len(p.binary) / binaryPage
		p.pages[key] = page
		p.binary = append(p.binary, data...)
		p.binary = append(p.binary, make([]byte, -len(p.binary)&(binaryPage-1))...)
	}
	return page
}

func (w *writer) step(dst []byte, s *Step, index int) ([]byte, error) {
	b := cq.NewBuilder(w.trace.Layout, dst)
	for i := range s.commands {
		c := &s.commands[i]
		switch cmd := c.cmd.(type) {
		case cq.SetWriteOffset:
			cmd.Offsets[2] = s.textOffset(i)
			b.SetWriteOffset(cmd)
		case cq.Wait:
			b.Wait(cq.Master, cmd)
		case cq.NotifySubordinate:
			b.NotifySubordinate(cmd)
		case cq.WritePacked:
			if c.header {
				b.WritePackedHeader(cmd)
			} else {
				b.WritePacked(cmd)
			}
		case cq.WritePackedLarge:
			if c.header {
				b.WritePackedLargeHeader(cmd)
			} else {
				b.WritePackedLarge(cmd)
			}
		case cq.SendGoSignal:
			b.SendGoSignal(cq.Subordinate, cmd)
		}
		if c.header {
			if err := w.relay(&b, c, index); err != nil {
				return dst, err
			}
		}
	}
	out, err := b.Finish()
	if err != nil {
		return dst, refuse(s.Offset, "SET_WRITE_OFFSET", err, "the program can't be written again")
	}
	return out, nil
}

// Older revisions have the offset of Ethernet cores at that index.
func (s *Step) textOffset(at int) uint32 {
	offsets := s.commands[at].cmd.(cq.SetWriteOffset).Offsets
	for _, next := range s.commands[at+1:] {
		index := uint16(0)
		switch c := next.cmd.(type) {
		case cq.SetWriteOffset:
			return offsets[1]
		case cq.WritePackedLarge:
			index = c.OffsetIndex
		case cq.WritePacked:
			index = c.OffsetIndex
		}
		if index == 2 {
			return offsets[2]
		}
	}
	return offsets[1]
}

func (w *writer) relay(b *cq.Builder, c *command, index int) error {
	p := &w.programs[index]
	var relay cq.RelayPagedPacked
	var pages []int
	for _, data := range c.blocks {
		page := p.page(data)
		for len(data) > 0 {
			n := min(len(data), maxRelay)
			relay.Subs = append(relay.Subs, cq.PagedSub{LogPageSize: binaryPageLog, Length: uint32(n)})
			pages = append(pages, page)
			data, page = data[n:], page+n/binaryPage
		}
	}
	if len(relay.Subs) > maxRelaySubs {
		return refuse(c.offset, c.cmd.ID().String(), ErrUnsupported, "its data are %d runs of bytes in DRAM, a command relays at most %d",
			len(relay.Subs), maxRelaySubs)
	}
	at := b.RelayPagedPacked(relay)
	for i, page := range pages {
		w.relocs = append(w.relocs, tracebuf.Reloc{At: at + cq.AtPagedSub(i), Program: index, Page: page})
	}
	return nil
}

// Write is tracebuf.EncodeAll that reads the file again: the file passes the checks of a stranger's
// file.
func Write(files ...*tracebuf.File) ([]byte, error) {
	var b bytes.Buffer
	if err := tracebuf.EncodeAll(&b, files); err != nil {
		return nil, fmt.Errorf("metaltrace: %w", err)
	}
	if _, err := tracebuf.DecodeAll(bytes.NewReader(b.Bytes())); err != nil {
		return nil, fmt.Errorf("metaltrace: %w", err)
	}
	return b.Bytes(), nil
}
