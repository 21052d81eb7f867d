package tracebuf

import (
	"github.com/reprise-tt/reprise/allocator"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// sections is the rest of a file, or the sections to write.
type sections struct {
	b     []byte
	write bool
	out   []section
	err   error
}

// more reports whether a section comes next; have says so for a file that is written.
func (s *sections) more(tag string, have bool) bool {
	if s.write {
		return have
	}
	return s.err == nil && len(s.b) >= sectionHead && string(s.b[:4]) == tag
}

func (s *sections) code(tag string, do func(*coder)) {
	if s.err != nil {
		return
	}
	c := coder{part: "section " + tag, write: s.write}
	if s.write {
		c.b = make([]byte, 0, 512)
		do(&c)
		s.out = append(s.out, section{tag: tag, head: c.b, body: c.body})
		return
	}
	if len(s.b) < sectionHead {
		s.err = invalid(c.part, "%d bytes are left, a section has at least %d", len(s.b), sectionHead)
		return
	}
	n := le.Uint64(s.b[8:])
	if found := string(s.b[:4]); found != tag || le.Uint32(s.b[4:]) != 0 {
		s.err = invalid(c.part, "there is a section %q in its place", found)
		return
	}
	if s.b = s.b[sectionHead:]; n > uint64(len(s.b)) {
		s.err = invalid(c.part, "its length is %d, %d bytes are left", n, len(s.b))
		return
	}
	c.b = s.b[:n:n]
	do(&c)
	if c.err == nil && len(c.b) > 0 {
		c.fail("%d bytes are left over", len(c.b))
	}
	s.b, s.err = s.b[n:], c.err
}

func repeated[T any](s *sections, tag string, most int, list *[]T, entry func(*T)) {
	for i := 0; s.more(tag, i < len(*list)); i++ {
		if i == most {
			s.err = invalid("section "+tag, "there are more than %d", most)
			return
		}
		if !s.write {
			*list = append(*list, *new(T))
		}
		entry(&(*list)[i])
	}
}

func (s *sections) device(f *File) {
	s.code(tagTarget, f.target)
	if s.more(tagSubDevices, len(f.Target.SubDevices) > 0) {
		s.code(tagSubDevices, func(c *coder) {
			list(c, &f.Target.SubDevices, 1, 2, func(set *[]chip.Range) { list(c, set, 2, 8, c.cores) })
		})
	}
	if s.more(tagSetup, f.Setup != nil) {
		s.code(tagSetup, f.setup)
	}
	s.part(f, &f.Target, &f.Image, true)
	repeated(s, tagPart, maxParts, &f.Others, func(p *Part) {
		if !s.write {
			p.Target = f.Target
		}
		s.code(tagPart, func(c *coder) { c.queue(&p.Target) })
		s.part(f, &p.Target, &p.Image, false)
	})
	data := func(tag string) func(*Data) {
		return func(d *Data) {
			s.code(tag, func(c *coder) { u32(c, &d.Buffer); c.size(&d.Offset); c.rest(&d.Bytes) })
		}
	}
	repeated(s, tagData, maxFile, &f.Data, data(tagData))
	repeated(s, tagResult, maxFile, &f.Results, data(tagResult))
}

func (s *sections) part(f *File, t *Target, im *Image, first bool) {
	s.sections(f, t, im, first)
	repeated(s, tagCallee, maxCallees, &im.Callees, func(c *Callee) {
		s.code(tagCallee, func(r *coder) { r.name(&c.Name); u64(r, &c.Addr) })
		s.sections(f, t, &c.Image, false)
	})
}

func (s *sections) sections(f *File, t *Target, im *Image, first bool) {
	s.code(tagCommands, func(c *coder) { im.commands(c, cq.Layout(t.Arch)) })
	s.code(tagPrograms, im.programs)
	if s.more(tagPrints, slices.ContainsFunc(im.Programs, func(p Program) bool { return len(p.Prints) > 0 })) {
		s.code(tagPrints, im.prints)
	}
	s.code(tagSteps, im.steps)
	s.code(tagRelocs, func(c *coder) {
		list(c, &im.Relocs, 4, 12, func(r *Reloc) { u32(c, &r.At); u32(c, &r.Program); u32(c, &r.Page) })
	})
	if first {
		s.code(tagBuffers, im.buffers)
		if s.more(tagTensors, slices.ContainsFunc(im.Buffers, func(b Buffer) bool { return b.Tensor != nil })) {
			s.code(tagTensors, im.tensors)
		}
	}
	s.code(tagParams, im.params)
	s.code(tagQueue, im.queue)
	if s.more(tagChanges, len(im.Changes) > 0) {
		s.code(tagChanges, func(c *coder) {
			list(c, &im.Changes, 4, 7, func(ch *Change) {
				if u32(c, &ch.Step); ch.Step >= len(im.Steps) {
					c.fail("a change of step %d of %d", ch.Step, len(im.Steps))
				}
				if u8(c, &ch.Kind); ch.Kind < Joined || ch.Kind > Inlined {
					c.fail("a change of kind %d, which doesn't exist", uint8(ch.Kind))
				}
				c.name(&ch.What)
			})
		})
	}
	if !s.write {
		im.readControl()
	}
	if s.more(tagConds, len(im.Conds) > 0) {
		s.code(tagConds, func(c *coder) {
			list(c, &im.Conds, 4, 16, func(d *Cond) { u32(c, &d.At); u32(c, &d.Buffer); c.size(&d.Offset) })
		})
	}
}

// coder reads the values of a section, or writes them. After an error it reads zeros.
type coder struct {
	b     []byte
	body  []byte // written after b
	write bool
	part  string
	err   error
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err, c.b = invalid(c.part, format, args...), nil
	}
}

func (c *coder) take(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.b)) {
		c.fail("it ends in the middle of a value: %d bytes are left, want %d", len(c.b), n)
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

type integer interface {
	~int | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func number[T integer](c *coder, v *T, size int) {
	var w [8]byte
	if c.write {
		le.PutUint64(w[:], uint64(*v))
		c.b = append(c.b, w[:size]...)
		return
	}
	copy(w[:], c.take(uint64(size)))
	*v = T(le.Uint64(w[:]))
}

func u8[T integer](c *coder, v *T)  { number(c, v, 1) }
func u32[T integer](c *coder, v *T) { number(c, v, 4) }
func u64[T integer](c *coder, v *T) { number(c, v, 8) }

func (c *coder) size(v *int) {
	if u64(c, v); uint64(*v) > maxFile && !c.write {
		c.fail("a size or offset is %#x, beyond all limits", *v)
		*v = 0
	}
}

func (c *coder) name(s *string) { sized(c, s, 2) }

func (c *coder) flag(v *bool) {
	n := uint8(0)
	if *v {
		n = 1
	}
	if u8(c, &n); n > 1 {
		c.fail("flags are %#x, only bit 0 is known", n)
	}
	*v = n == 1
}

func (c *coder) bytes(b *[]byte) { sized(c, b, 4) }

// sized codes a number of bytes in digits bytes, and then these.
func sized[T ~string | ~[]byte](c *coder, v *T, digits int) {
	n := len(*v)
	if number(c, &n, digits); c.write {
		c.b = append(c.b, *v...)
	} else {
		*v = T(c.take(uint64(n)))
	}
}

func (c *coder) rest(b *[]byte) {
	if c.write {
		c.body = *b
	} else {
		*b = c.take(uint64(len(c.b)))
	}
}

// list codes the number of entries in digits bytes, and the entries of at least least bytes.
func list[T any](c *coder, s *[]T, digits, least int, entry func(*T)) {
	n := len(*s)
	number(c, &n, digits)
	if !c.write {
		if n > len(c.b)/least {
			c.fail("%d entries of at least %d bytes in %d bytes", n, least, len(c.b))
		}
		if c.err != nil || n == 0 {
			return
		}
		*s = make([]T, n)
	}
	for i := range *s {
		if entry(&(*s)[i]); c.err != nil {
			return
		}
	}
}

func (c *coder) xy(xy *chip.XY) { u8(c, &xy.X); u8(c, &xy.Y) }

func (c *coder) cores(r *chip.Range) {
	for _, v := range []*int{&r.Start.X, &r.Start.Y, &r.End.X, &r.End.Y} {
		number(c, v, 2)
	}
}

// devices codes which devices of a capture have a part: a File for each, nil for the others.
func (c *coder) devices(files *[]*File) {
	all := len(*files)
	if u32(c, &all); all < 2 || all > maxDevices {
		c.fail("the trace is over %d devices, want 2 to %d", all, maxDevices)
		return
	}
	var parts []int
	for i, f := range *files {
		if f != nil {
			parts = append(parts, i)
		}
	}
	list(c, &parts, 4, 4, func(i *int) { u32(c, i) })
	if c.write {
		return
	}
	*files = make([]*File, all)
	last := -1
	for _, i := range parts {
		if i <= last || i >= all {
			c.fail("device %d of %d follows device %d", i, all, last)
			return
		}
		(*files)[i], last = &File{}, i
	}
}

// layoutMark separates the protocol revision from the revision of the workers' base firmware, if
// that isn't this runtime's own.
const layoutMark = " workers "

func (f *File) target(c *coder) {
	t := &f.Target
	u8(c, &t.Arch)
	u8(c, &t.Banks)
	c.queue(t)
	u32(c, &t.Harvesting.Tensix)
	u32(c, &t.Harvesting.DRAM)
	u32(c, &t.Harvesting.Ethernet)
	for i := range t.Firmware {
		u8(c, &t.Firmware[i])
	}
	revision := t.Revision
	if t.Layout != "" {
		revision += layoutMark + t.Layout
	}
	c.name(&revision)
	if protocol, layout, ok := strings.Cut(revision, layoutMark); ok && layout != "" {
		t.Revision, t.Layout = protocol, layout
	} else {
		t.Revision = revision
	}
	c.name(&f.Name)
}

func (c *coder) queue(t *Target) {
	c.xy(&t.Dispatch)
	c.cores(&t.Workers)
	u8(c, &t.Queue)
	u32(c, &t.Word)
}

func (im *Image) commands(c *coder, l cq.Layout) {
	u32(c, &im.PageSize)
	if c.write {
		c.body = im.Bytes[:im.Size]
		return
	}
	im.Layout = l
	if !isPageSize(im.PageSize) {
		c.fail(badPageSize, im.PageSize)
		return
	}
	im.Size = len(c.b)
	if im.Size > maxCommands {
		c.fail("%d bytes of commands, at most %d are possible", im.Size, maxCommands)
		return
	}
	im.Bytes = make([]byte, roundUp(im.Size, im.PageSize))
	copy(im.Bytes, c.take(uint64(im.Size)))
}

func (im *Image) programs(c *coder) {
	list(c, &im.Programs, 4, 2+8+4+4, func(p *Program) { c.name(&p.Name); u64(c, &p.Addr); u32(c, &p.Pages); c.bytes(&p.Binary) })
}

func (im *Image) prints(c *coder) {
	type entry struct {
		program int
		print.Program
	}
	var all []entry
	if c.write {
		for i, p := range im.Programs {
			for _, r := range p.Prints {
				all = append(all, entry{i, r})
			}
		}
	}
	list(c, &all, 4, 4+4+4+4, func(e *entry) {
		u32(c, &e.program)
		u32(c, &e.ID)
		list(c, &e.Cores, 4, 8, c.cores)
		list(c, &e.Kernels, 4, 1+2+4, func(k *print.Kernel) { u8(c, &k.Processor); c.name(&k.Name); c.bytes(&k.Formats) })
	})
	for i := 0; i < len(all) && !c.write && c.err == nil; i++ {
		e := &all[i]
		if e.program >= len(im.Programs) {
			c.fail("program %d of %d prints", e.program, len(im.Programs))
			return
		}
		p := &im.Programs[e.program]
		e.Name = p.Name
		p.Prints = append(p.Prints, e.Program)
	}
}

// steps leaves offsets out: each step begins where the previous one ends.
func (im *Image) steps(c *coder) {
	at := 0
	list(c, &im.Steps, 4, 2+4+4, func(s *Step) {
		c.name(&s.Name)
		u32(c, &s.Program)
		u32(c, &s.Size)
		if uint32(s.Program) == 1<<32-1 {
			c.withoutProgram(s)
		}
		if !c.write {
			s.Offset = at
			at += s.Size
		}
	})
}

// controlMark is added to the kind of a step of control flow, where edges have theirs.
const controlMark = 16

func controlNumber(c *flow.Control) uint32 {
	switch c.Kind {
	case flow.Kernels:
		return uint32(c.Program)
	case flow.Call:
		return uint32(c.Callee)
	}
	return 0
}

func (c *coder) withoutProgram(s *Step) {
	kind, queue, number := uint8(s.Edge.Kind), uint8(s.Edge.Queue), s.Edge.Number
	if s.Control.Kind != flow.None {
		kind, queue, number = uint8(s.Control.Kind)+controlMark, 0, controlNumber(&s.Control)
	}
	u8(c, &kind)
	u8(c, &queue)
	u32(c, &number)
	if c.write {
		return
	}
	s.Program = NoProgram
	if kind < controlMark {
		s.Edge = Edge{Kind: EdgeKind(kind), Queue: int(queue), Number: number}
		return
	}
	s.Control.Kind = flow.Kind(kind - controlMark)
	switch s.Control.Kind {
	case flow.Kernels:
		s.Control.Program = int(number)
	case flow.Call:
		s.Control.Callee = int(number)
	}
	if queue != 0 || number != controlNumber(&s.Control) || s.Control.Kind == flow.None {
		c.fail("step %q has kind %d, queue %d and number %d", s.Name, kind, queue, number)
	}
}

func (im *Image) readControl() {
	var open []int // loops
	for i := range im.Steps {
		s := &im.Steps[i]
		switch s.Control.Kind {
		case flow.Loop, flow.End, flow.Branch:
		default:
			continue
		}
		if end := s.Offset + s.Size; s.Offset < 0 || s.Size < 0 || end > len(im.Bytes) {
			return
		}
		c, _, err := cq.Decode(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size])
		if err != nil {
			continue
		}
		s.Control = s.Control.Decode(c, open, im.stepAt)
		open = flow.OpenLoops(open, c)
	}
}

// stepAt returns the number of steps for their end, and -1 for offsets inside of steps.
func (im *Image) stepAt(at uint32) int {
	i, found := slices.BinarySearchFunc(im.Steps, int(at), func(s Step, at int) int { return s.Offset - at })
	if n := len(im.Steps); !found && (n == 0 || im.Steps[n-1].Offset+im.Steps[n-1].Size != int(at)) {
		return -1
	}
	return i
}

func (im *Image) buffers(c *coder) {
	list(c, &im.Buffers, 4, 2+2+8+8+4, func(b *Buffer) {
		c.name(&b.Name)
		u8(c, &b.Kind)
		c.flag(&b.Output)
		u64(c, &b.Addr)
		c.size(&b.Size)
		u32(c, &b.PageSize)
		u32(c, &b.Stride)
		c.sharding(&b.Sharding)
	})
}

func (im *Image) tensors(c *coder) {
	some := false
	for i := range im.Buffers {
		b := &im.Buffers[i]
		there := b.Tensor != nil
		if c.flag(&there); !there {
			continue
		}
		if !c.write {
			b.Tensor = &Tensor{}
		}
		t := b.Tensor
		some = true
		for _, f := range []*bool{&t.Tiles, &t.Input, &t.Transposed} {
			c.flag(f)
		}
		c.name(&t.DType)
		c.name(&t.Weight)
		list(c, &t.Shape, 1, 8, c.size)
	}
	if !some {
		c.fail("it describes no tensor")
	}
}

func (c *coder) sharding(of **allocator.ShardSpec) {
	s := *of
	if s == nil {
		s = &allocator.ShardSpec{}
	}
	if u8(c, &s.Layout); s.Layout == 0 {
		return
	}
	*of = s
	u8(c, &s.Orientation)
	u8(c, &s.Strategy)
	rank := len(s.Tensor)
	if u8(c, &rank); rank > maxRank {
		c.fail("a shape has %d dimensions, at most %d are possible", rank, maxRank)
		return
	}
	for _, shape := range []*[]int{&s.Tensor, &s.Shard} {
		if !c.write {
			*shape = make([]int, rank)
		}
		for i := range *shape {
			c.size(&(*shape)[i])
		}
	}
	list(c, &s.Cores, 2, 8, c.cores)
}

func (im *Image) params(c *coder) {
	list(c, &im.Params, 4, 2+1+4+4, func(p *Param) {
		c.name(&p.Name)
		u8(c, &p.Kind)
		u32(c, &p.Value)
		if p.Kind == BufferAddr {
			u32(c, &p.Buffer)
			c.size(&p.First)
			c.size(&p.Pages)
		}
		list(c, &p.At, 4, 4, func(at *int) { u32(c, at) })
	})
}

func (im *Image) queue(c *coder) {
	u64(c, &im.L1End)
	if len(c.b) > maxAfter && !c.write {
		c.fail("the state of a queue has %d bytes, at most %d are possible", len(c.b), maxAfter)
	}
	c.rest(&im.After)
}

func (f *File) setup(c *coder) {
	if !c.write {
		f.Setup = &Setup{}
	}
	list(c, &f.Setup.Links, 2, 16, func(l *chip.Link) { u32(c, &l.Chip); u32(c, &l.Channel); u32(c, &l.PeerChip); u32(c, &l.PeerChannel) })
	list(c, &f.Setup.Ops, 4, 4+1+2+8+4, func(o *SetupOp) {
		u32(c, &o.Turn)
		c.flag(&o.Wait)
		list(c, &o.Tiles, 2, 2, c.xy)
		u64(c, &o.Addr)
		c.bytes(&o.Bytes)
	})
}
