package tracebuf

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/reprise-tt/reprise/allocator"
	"math"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Pages of the DRAM buffers with programs' kernels. Source: tt-metal device_command.hpp (2^11 B).
const (
	binaryPageLog = 11
	binaryPage    = 1 << binaryPageLog
)

// Validate checks that a recorder could have made the trace for its target. The target exists, and
// the steps tile the commands. The firmware takes every command; it writes only to the
// kernel-config memory and launch messages of workers, and waits only for completions of earlier
// steps. Relocations name all DRAM that the commands read; patch points name words of runtime
// arguments. Edges name each other's dispatch cores and words, and have no cycle. Errors match
// ErrInvalid and are a *FileError.
func (f *File) Validate() error {
	ch, err := f.checkTarget()
	if err != nil {
		return err
	}
	if err := f.checkNames(); err != nil {
		return err
	}
	parts := f.Parts()
	if err := cmp.Or(checkParts(parts, ch), f.checkSetup(ch)); err != nil {
		return err
	}
	for i := range f.Image.Buffers {
		b := &f.Image.Buffers[i]
		if err := b.check(fmt.Sprintf("buffer %d %q", i, b.Name), ch); err != nil {
			return err
		}
	}
	for i := range parts {
		if err := f.validatePart(parts, i, ch); err != nil {
			if len(parts) == 1 {
				return err
			}
			return within(fmt.Sprintf("queue %d", parts[i].Target.Queue), err)
		}
	}
	if len(parts) > 1 {
		if _, err := Order(parts); err != nil {
			return invalid("edges", "%v", err)
		}
	}
	if err := f.checkData("data", f.Data); err != nil {
		return err
	}
	return f.checkData("result", f.Results)
}

func validateAll(files []*File) error {
	if len(files) == 1 && files[0] != nil {
		return cmp.Or(files[0].Validate(), checkLinks(files))
	}
	first := slices.IndexFunc(files, func(f *File) bool { return f != nil })
	if first < 0 || len(files) > maxDevices {
		return invalid("devices", "%d devices, want 1 to %d, of which at least one has a part", len(files), maxDevices)
	}
	for i, f := range files {
		if f == nil {
			continue
		}
		if f.Name != files[first].Name {
			return invalid(fmt.Sprintf("device %d", i), "the trace's name is %q, on device %d it is %q", f.Name, first, files[first].Name)
		}
		if err := f.Validate(); err != nil {
			return within(fmt.Sprintf("device %d", i), err)
		}
	}
	return checkLinks(files)
}

func within(whole string, err error) error {
	e, ok := errors.AsType[*FileError](err)
	if !ok {
		return err
	}
	c := *e
	c.Part = whole + ", " + e.Part
	return &c
}

func (f *File) validatePart(parts []Part, i int, ch *chip.Chip) error {
	p := &parts[i]
	if n := len(p.Image.Callees); n > maxCallees {
		return invalid("calls", "the part calls %d traces, at most %d are possible", n, maxCallees)
	}
	var shapes []shape
	for k := range p.Image.Callees {
		c := &p.Image.Callees[k]
		sh, err := f.validateCallee(p, c, shapes, ch)
		if err != nil {
			return within(fmt.Sprintf("callee %d %s", k, Printable(c.Name)), err)
		}
		shapes = append(shapes, sh)
	}
	var peers []Peer
	for k := range parts {
		if k != i {
			o := &parts[k]
			peers = append(peers, Peer{Dispatcher: o.Target.dispatcher(), Recorded: o.Image.Recorded()})
		}
	}
	if _, err := f.validateImage(p, &p.Image, peers, shapes, ch); err != nil {
		return err
	}
	for k := range p.Image.Callees {
		if !p.Image.calls(k) {
			return invalid("calls", "no step calls trace %d %s", k, Printable(p.Image.Callees[k].Name))
		}
	}
	return nil
}

func (im *Image) calls(callee int) bool {
	is := func(s Step) bool { return s.Control.Kind == flow.Call && s.Control.Callee == callee }
	return slices.ContainsFunc(im.Steps, is) || slices.ContainsFunc(im.Callees,
		func(c Callee) bool { return slices.ContainsFunc(c.Image.Steps, is) })
}

func (f *File) validateCallee(p *Part, c *Callee, shapes []shape, ch *chip.Chip) (shape, error) {
	im := &c.Image
	if len(im.Buffers) > 0 || len(im.Callees) > 0 {
		return shape{}, invalid("commands", "it has buffers and callees of its own: those of all belong to the part")
	}
	sh, err := f.validateImage(p, im, nil, shapes, ch)
	if err != nil {
		return sh, err
	}
	banks := ch.DRAMBanks()
	rows := uint64((im.Pages() + len(banks) - 1) / len(banks))
	if c.Addr%uint64(ch.Params().Align.DRAM()) != 0 || c.Addr > banks[0].Size || rows*uint64(im.PageSize) > banks[0].Size-c.Addr {
		return sh, invalid("commands", "they lie at %#x, which isn't an address of so many bytes in a bank of %#x", c.Addr, banks[0].Size)
	}
	return sh, nil
}

// The image may call callees with these shapes.
func (f *File) validateImage(p *Part, im *Image, peers []Peer, shapes []shape, ch *chip.Chip) (shape, error) {
	if im.Layout != cq.Layout(f.Target.Arch) {
		return shape{}, invalid("commands", "their layout is %v, the target is %v", im.Layout, f.Target.Arch)
	}
	if err := im.checkShape(); err != nil {
		return shape{}, err
	}
	if err := im.checkPrograms(ch, p.Target.Workers); err != nil {
		return shape{}, err
	}
	w := walker{im: im, target: &p.Target, ch: ch, l1: &p.Target.layout().L1, peers: peers, buffers: f.Image.Buffers}
	w.nest.callees, w.nest.shapes = p.Image.Callees, shapes
	if err := w.walk(); err != nil {
		return shape{}, err
	}
	w.nest.shape.texts = w.texts
	return w.nest.shape, w.checkParams(f.Image.Buffers)
}

func checkParts(parts []Part, ch *chip.Chip) error {
	if len(parts) > maxParts {
		return invalid("parts", "%d parts, at most %d are possible", len(parts), maxParts)
	}
	for i := range parts {
		t := &parts[i].Target
		part := fmt.Sprintf("queue %d", t.Queue)
		if all := ch.All(); t.Workers.Empty() || !all.Contains(t.Workers.Start) || !all.Contains(t.Workers.End) {
			return invalid("target", "the workers %v, the chip has %v", t.Workers, all)
		}
		if c, ok := ch.Logical(t.Dispatch); !ok || t.Workers.Contains(c) {
			return invalid("target", "%v is no core that a dispatcher can run on", t.Dispatch)
		}
		if t.Queue < 0 || t.Queue > math.MaxUint8 {
			return invalid(part, "it is no number of a queue")
		}
		if one := len(parts) == 1; one != (t.Word == 0) || t.Word%cq.L1Align != 0 || t.Word >= ch.Params().L1Size {
			return invalid(part, "its recordings are counted at %#x, want a multiple of 16 in L1, or 0 in a trace of one queue", t.Word)
		}
		if i > 0 && len(parts[i].Image.Buffers) > 0 {
			return invalid(part, "it has buffers: those of all parts belong to the first")
		}
		for k := range parts[:i] {
			o := &parts[k].Target
			if o.Queue == t.Queue || o.Word == t.Word || o.Dispatch == t.Dispatch || o.Workers.Overlaps(t.Workers) {
				return invalid(part, "its number, its workers %v, its dispatch core %v and its word %#x must be its own; queue %d has %v, %v and %#x",
					t.Workers, t.Dispatch, t.Word, o.Queue, o.Workers, o.Dispatch, o.Word)
			}
		}
	}
	return nil
}

func (f *File) checkTarget() (*chip.Chip, error) {
	t := &f.Target
	if !t.Arch.Valid() {
		return nil, invalid("target", "architecture %d, want 1 (Wormhole) or 2 (Blackhole)", uint8(t.Arch))
	}
	if t.Revision != cq.Pinned {
		return nil, invalid("target", "protocol revision %q, this program runs %q only", t.Revision, cq.Pinned)
	}
	if t.layout() == nil || t.Layout == abi.Own(t.Arch).Revision.Name {
		return nil, invalid("target", "the workers run base firmware of revision %q, which this program doesn't know", t.Layout)
	}
	ch, err := chip.New(t.Arch, t.Harvesting)
	if err != nil {
		return nil, &FileError{Part: "target", What: err.Error(), Err: err}
	}
	if n := len(ch.DRAMBanks()); t.Banks != n {
		return nil, invalid("target", "%d DRAM banks, the chip has %d", t.Banks, n)
	}
	return ch, nil
}

func (f *File) checkNames() error {
	if err := checkName("trace", f.Name); err != nil {
		return err
	}
	for _, im := range f.everyImage() {
		if err := cmp.Or(
			checkEach("callee", im.Callees, func(c *Callee) string { return c.Name }),
			checkEach("program", im.Programs, func(p *Program) string { return p.Name }),
			checkEach("step", im.Steps, func(s *Step) string { return s.Name }),
			checkEach("buffer", im.Buffers, func(b *Buffer) string { return b.Name }),
			checkEach("patch point", im.Params, func(p *Param) string { return p.Name }),
		); err != nil {
			return err
		}
	}
	return nil
}

func checkEach[T any](what string, list []T, name func(*T) string) error {
	for i := range list {
		if n := name(&list[i]); len(n) > maxName {
			return checkName(fmt.Sprintf("%s %d", what, i), n)
		}
	}
	return nil
}

func checkName(part, s string) error {
	if len(s) > maxName {
		return invalid(part, "its name has %d bytes, at most %d are possible: give it a shorter one", len(s), maxName)
	}
	return nil
}

func (im *Image) checkShape() error {
	if !im.Layout.Valid() {
		return invalid("commands", "their layout is %d", uint8(im.Layout))
	}
	if !isPageSize(im.PageSize) {
		return invalid("commands", badPageSize, im.PageSize)
	}
	end := im.Layout.Stride(2 * cq.HeaderSize) // of the EXEC_BUF_END
	if im.Size < end || im.Size > maxCommands || len(im.Bytes) != roundUp(im.Size, im.PageSize) {
		return invalid("commands", "%d bytes in %d of memory with pages of %d", im.Size, len(im.Bytes), im.PageSize)
	}
	if i := slices.IndexFunc(im.Bytes[im.Size:], func(b byte) bool { return b != 0 }); i >= 0 {
		return invalid(where(im.Size+i), "bytes after the last command aren't zero")
	}
	if len(im.Steps) == 0 {
		return invalid("steps", "there are none")
	}
	at := 0
	for i, s := range im.Steps {
		fail := func(format string, args ...any) error { return invalid(fmt.Sprintf("step %d", i), format, args...) }
		c, none := &s.Control, s.Program == NoProgram
		switch {
		case s.Offset != at || s.Size <= 0 || s.Size > im.Size-at:
			return fail("%d bytes at %#x of %#x, want it at %#x, where the step before ends", s.Size, s.Offset, im.Size, at)
		case !none && (s.Program < 0 || s.Program >= len(im.Programs)):
			return fail("it runs program %d of %d", s.Program, len(im.Programs))
		case none && c.Kind != flow.None:
			if c.Kind > flow.Divide || s.Edge != (Edge{}) || c.Program < 0 || c.Program > 0 && c.Program >= len(im.Programs) ||
				c.Kind == flow.Kernels && len(im.Programs) == 0 {
				return fail("it is a %v with the kernels of program %d of %d, and a %v edge", c.Kind, c.Program, len(im.Programs), s.Edge.Kind)
			}
		case s.Control != (flow.Control{}):
			return fail("it runs program %d and goes to step %d", s.Program, c.Target)
		case none != (s.Edge.Kind != EdgeNone) || s.Edge.Kind > EdgeEnd || s.Edge.Queue < 0 || s.Edge.Queue > math.MaxUint8 ||
			!none && s.Edge != (Edge{}):
			return fail("it runs program %d and is a %v edge", s.Program, s.Edge.Kind)
		}
		at += s.Size
	}
	if at != im.Size-end {
		return invalid("steps", "they end at %#x, the commands without their EXEC_BUF_END at %#x", at, im.Size-end)
	}
	return nil
}

func (im *Image) checkPrograms(ch *chip.Chip, workers chip.Range) error {
	banks := ch.DRAMBanks()
	align := uint64(ch.Params().Align.DRAM())
	for i := range im.Programs {
		p := &im.Programs[i]
		part := fmt.Sprintf("program %d %q", i, p.Name)
		if err := p.checkPrints(part, workers); err != nil {
			return err
		}
		if p.Pages < 0 || len(p.Binary) != p.Pages*binaryPage {
			return invalid(part, "kernels of %d bytes in %d pages of %d bytes", len(p.Binary), p.Pages, binaryPage)
		}
		rows := uint64((p.Pages + len(banks) - 1) / len(banks))
		if p.Addr%align != 0 || p.Addr > banks[0].Size || rows*binaryPage > banks[0].Size-p.Addr {
			return invalid(part, "its kernels lie at %#x, which isn't a multiple of %d inside of a bank of %#x bytes", p.Addr, align, banks[0].Size)
		}
	}
	if len(im.After) > maxAfter {
		return invalid("queue state", "%d bytes, at most %d are possible", len(im.After), maxAfter)
	}
	if end := uint64(ch.Params().L1Size); im.L1End > end {
		return invalid("circular buffers", "they end at %#x, L1 ends at %#x", im.L1End, end)
	}
	return nil
}

func (b *Buffer) check(part string, ch *chip.Chip) error {
	start, end, banks := uint64(1), uint64(ch.Params().L1Size), ch.All().Size()
	switch b.Kind {
	case KindDRAM:
		end, banks = ch.DRAMBanks()[0].Size, len(ch.DRAMBanks())
	case KindL1:
	case KindL1Small:
		if b.Sharding == nil {
			return invalid(part, "it is in L1 small, which is for sharded buffers only")
		}
	default:
		return invalid(part, "kind %d, want 0 (DRAM), 1 (L1) or 3 (L1 small)", b.Kind)
	}
	if b.PageSize <= 0 || b.PageSize > math.MaxUint32 || b.Size <= 0 || b.Size > maxFile || b.Size%b.PageSize != 0 ||
		b.Stride < b.PageSize ||
		b.Stride > math.MaxUint32 {
		return invalid(part, "%d bytes in pages of %d, %d bytes apart", b.Size, b.PageSize, b.Stride)
	}
	if t := b.Tensor; t != nil {
		n := 1
		for _, d := range t.Shape {
			if d < 1 || d > maxFile/n {
				return invalid(part, "it holds a tensor of shape %v", t.Shape)
			}
			n *= d
		}
		if len(t.Shape) > maxRank || t.DType == "" || len(t.DType)+len(t.Weight) > maxName {
			return invalid(part, "it holds a tensor of %d dimensions, of type %.20q, from %.20q", len(t.Shape), t.DType, t.Weight)
		}
	}
	rows := (b.Pages() + banks - 1) / banks
	if b.Sharding != nil {
		var err error
		if rows, err = checkSharding(part, b, ch); err != nil {
			return err
		}
	}
	if b.Addr < start || b.Addr >= end || uint64(rows) > (end-b.Addr)/uint64(b.Stride) {
		return invalid(part, "%d bytes in pages of %d at %#x, memory ends at %#x", b.Size, b.PageSize, b.Addr, end)
	}
	return nil
}

// checkSharding returns the pages of each core.
func checkSharding(part string, b *Buffer, ch *chip.Chip) (int, error) {
	grid := ch.All()
	if b.Kind == KindDRAM {
		grid = chip.Range{End: chip.Core{X: len(ch.DRAMBanks()) - 1}}
	}
	for _, r := range b.Sharding.Cores {
		if !grid.Contains(r.Start) || !grid.Contains(r.End) {
			return 0, invalid(part, "it has shards on the cores %v, the chip has %v", r, grid)
		}
	}
	if n := len(b.Sharding.Tensor); n > maxRank {
		return 0, invalid(part, "it has %d dimensions, at most %d are possible", n, maxRank)
	}
	d, err := allocator.NewDistribution(*b.Sharding)
	if err != nil {
		return 0, invalid(part, "%v", err)
	}
	if d.Pages() != b.Pages() {
		return 0, invalid(part, "a shape of %v pages, it has %d", b.Sharding.Tensor, b.Pages())
	}
	return d.CorePages(), nil
}

func (f *File) checkData(what string, data []Data) error {
	last, end := 0, 0
	for i := range data {
		d := &data[i]
		part := fmt.Sprintf("%s %d", what, i)
		if d.Buffer < 0 || d.Buffer >= len(f.Image.Buffers) {
			return invalid(part, "for buffer %d of %d", d.Buffer, len(f.Image.Buffers))
		}
		if what == "result" && !f.Image.Buffers[d.Buffer].Output {
			return invalid(part, "for buffer %q, which isn't marked as an output", f.Image.Buffers[d.Buffer].Name)
		}
		if d.Buffer != last {
			if d.Buffer < last {
				return invalid(part, "for buffer %d after data for buffer %d", d.Buffer, last)
			}
			last, end = d.Buffer, 0
		}
		size := f.Image.Buffers[d.Buffer].Size
		if d.Offset < end || len(d.Bytes) == 0 || d.Offset > size || len(d.Bytes) > size-d.Offset {
			return invalid(part, "%d bytes at %d of buffer %q, which has %d; the data before it end at %d", len(d.Bytes), d.Offset,
				f.Image.Buffers[d.Buffer].Name, size, end)
		}
		end = d.Offset + len(d.Bytes)
	}
	return nil
}

func (p *Program) checkPrints(part string, workers chip.Range) error {
	for i := range p.Prints {
		r := p.Prints[i]
		for _, c := range r.Cores {
			if c.Start.X > c.End.X || c.Start.Y > c.End.Y || !workers.Contains(c.Start) || !workers.Contains(c.End) {
				return invalid(part, "it prints on cores %v, the queue has %v", c, workers)
			}
		}
		if len(r.Kernels) == 0 || len(r.Kernels) > chip.NumProcessors {
			return invalid(part, "%d kernels of a core print, there are %d processors", len(r.Kernels), chip.NumProcessors)
		}
		for _, k := range r.Kernels {
			if k.Processor >= chip.NumProcessors || len(k.Name) > maxName {
				return invalid(part, "a kernel on processor %d with a name of %d bytes prints", k.Processor, len(k.Name))
			}
		}
		id := r.ID
		if r.Identify(); r.ID != id || r.Name != p.Name {
			return invalid(part, "what it prints has the name %#x, want %#x", id, r.ID)
		}
	}
	return nil
}

func where(at int) string { return fmt.Sprintf("commands at +%#x", at) }

const maxChannels = 16

// checkSetup permits the L1 and registers of Ethernet tiles, and of workers the tables of tt-metal
// and the first page of buffers.
func (f *File) checkSetup(ch *chip.Chip) error {
	turn := 0
	for i, o := range f.SetupOps() {
		part := fmt.Sprintf("setup, operation %d", i)
		n := len(o.Bytes)
		if o.Turn < turn || len(o.Tiles) == 0 || n == 0 || n%4 != 0 || o.Addr%4 != 0 || o.Wait && n != 4 {
			return invalid(part, "%d B at %#x of %d tiles at turn %d, after turn %d: want words and rising turns", n, o.Addr, len(o.Tiles),
				o.Turn, turn)
		}
		turn = o.Turn
		for _, raw := range o.Tiles {
			if !f.mayStore(ch, raw, o.Addr, uint64(n)) {
				return invalid(part, "%d B at %#x of %v", n, o.Addr, raw)
			}
		}
	}
	return nil
}

func (f *File) mayStore(ch *chip.Chip, raw chip.XY, addr, n uint64) bool {
	in := func(start, end uint64) bool { return addr >= start && addr < end && n <= end-addr }
	switch t := ch.Tile(raw); {
	case t.Harvested:
		return false
	case t.Kind == chip.Ethernet:
		return in(0, uint64(ch.Params().EthernetL1Size)) || in(0xFFB00000, 1<<32)
	}
	if core, ok := ch.LogicalOf(raw); !ok || !f.Target.Workers.Contains(core) {
		return false
	}
	start, end := f.Target.layout().KernelTables()
	return in(uint64(start), uint64(end)) || slices.ContainsFunc(f.Image.Buffers, func(b Buffer) bool {
		return b.Kind == KindL1 && in(b.Addr, b.Addr+uint64(b.Stride))
	})
}

// checkLinks checks that the links of each device lead to others.
func checkLinks(files []*File) error {
	for i, f := range files {
		if f == nil || f.Setup == nil {
			continue
		}
		for _, l := range f.Setup.Links {
			if l.Chip != i || l.PeerChip == i || l.PeerChip >= len(files) || max(l.Channel, l.PeerChannel) >= maxChannels {
				return invalid(fmt.Sprintf("device %d, setup", i), "the link %v of %d devices", l, len(files))
			}
		}
	}
	return nil
}
