package tracebuf

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Decode is [DecodeAll] for the trace of one device; for others it returns ErrSeveralDevices.
func Decode(r io.Reader) (*File, error) {
	files, err := DecodeAll(r)
	if err != nil {
		return nil, err
	}
	if len(files) > 1 {
		return nil, fmt.Errorf("tracebuf: decode: %w: there are %d", ErrSeveralDevices, len(files))
	}
	return files[0], nil
}

// DecodeAll reads a trace file, which must end where r does, and checks it completely. The result
// is a trace that a recorder could have made: the target's firmware takes all commands, and these
// write only to the workers' kernel memory. Kernels are not checked. There is a File for each
// device, in the order of the capture, nil for a device on which nothing was recorded. Errors are
// ErrNotTrace, ErrVersion, ErrDamaged, ErrInvalid or those of r. Memory is a small multiple of the
// bytes that r delivers, whatever the file claims.
func DecodeAll(r io.Reader) ([]*File, error) {
	body, version, err := readFile(r)
	if err != nil {
		return nil, fmt.Errorf("tracebuf: decode: %w", err)
	}
	files, err := decodeSections(body, version)
	if err == nil {
		err = validateAll(files)
	}
	if err != nil {
		return nil, fmt.Errorf("tracebuf: decode: %w", err)
	}
	return files, nil
}

// readFile checks the checksum of a file and returns its sections and version.
func readFile(r io.Reader) ([]byte, int, error) {
	head := make([]byte, fileHead)
	n, err := io.ReadFull(r, head)
	switch {
	case !IsFile(head[:n]):
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, 0, err
		}
		return nil, 0, fmt.Errorf("%w: it begins with %q, want %q", ErrNotTrace, head[:min(n, len(FileMagic))], FileMagic)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, 0, damaged("head", "it has %d bytes, want %d", n, fileHead)
	case err != nil:
		return nil, 0, err
	}
	version := le.Uint32(head[8:])
	if version < oldestVersion || version > FileVersion {
		return nil, 0, fmt.Errorf("%w: it is version %d, this program reads versions %d to %d", ErrVersion, version, oldestVersion, FileVersion)
	}
	size := le.Uint64(head[16:])
	if size < uint64(fileHead+sha256.Size) || size > maxFile || le.Uint32(head[12:]) != 0 {
		return nil, 0, damaged("head", "the file's length is given as %d, want %d to %d", size, fileHead+sha256.Size, uint64(maxFile))
	}
	body, err := readN(r, int(size)-fileHead)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, 0, damaged("end", "the file has %d bytes and began as one of %d: it was cut off; copy it again", fileHead+len(body), size)
	}
	if err != nil {
		return nil, 0, err
	}
	var more [1]byte
	if _, err := io.ReadFull(r, more[:]); err == nil {
		return nil, 0, damaged("end", "bytes follow the end of the file at %d", size)
	} else if !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	sum := sha256.New()
	sum.Write(head)
	body, want := body[:len(body)-sha256.Size], body[len(body)-sha256.Size:]
	sum.Write(body)
	if got := sum.Sum(nil); string(got) != string(want) {
		return nil, 0, damaged("checksum", "it is %x..., the bytes give %x...: they were changed; copy the file again", want[:6], got[:6])
	}
	return body, int(version), nil
}

// readN reads n bytes, or those up to the end of r and io.ErrUnexpectedEOF. It never allocates more
// than twice what it has read, whatever n claims.
func readN(r io.Reader, n int) ([]byte, error) {
	const first = 1 << 20
	b := make([]byte, 0, min(n, first))
	for len(b) < n {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(n-len(b), len(b)))
		}
		m, err := io.ReadFull(r, b[len(b):min(cap(b), n)])
		b = b[:len(b)+m]
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// decodeSections reads all sections. The checksum is right, so errors are the writer's.
func decodeSections(b []byte, version int) ([]*File, error) {
	s := sections{b: b, version: version}
	var files []*File
	if version < devicesVersion || version == controlVersion && !s.at(tagDevices) {
		files = []*File{s.device()}
	} else {
		s.take(tagDevices, func(r *reader) { files = r.devices() })
		for i := range files {
			if files[i] != nil {
				files[i] = s.device()
			}
		}
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	if version == controlVersion && versionOf(files) != controlVersion {
		return nil, invalid("steps", "none is of control flow, which files of version %d have", version)
	}
	return files, nil
}

func (s *sections) device() *File {
	f := &File{}
	s.take(tagTarget, f.target)
	s.part(f, &f.Target, &f.Image, true)
	s.callees(f, &f.Target, &f.Image)
	for s.version > 1 && s.at(tagPart) {
		if len(f.Others) == maxParts {
			s.err = invalid("section "+tagPart, "there are more than %d", maxParts)
			break
		}
		f.Others = append(f.Others, Part{Target: f.Target})
		p := &f.Others[len(f.Others)-1]
		s.take(tagPart, func(r *reader) { r.queue(&p.Target); r.queueWord(&p.Target) })
		s.part(f, &p.Target, &p.Image, false)
		s.callees(f, &p.Target, &p.Image)
	}
	for s.at(tagData) {
		s.take(tagData, func(r *reader) { f.Data = append(f.Data, r.data()) })
	}
	for s.at(tagResult) {
		s.take(tagResult, func(r *reader) { f.Results = append(f.Results, r.data()) })
	}
	return f
}

// sections is the rest of a file. After the first error nothing more is read.
type sections struct {
	b       []byte
	version int
	err     error
}

func (s *sections) at(tag string) bool {
	return s.err == nil && len(s.b) >= sectionHead && string(s.b[:4]) == tag
}

// end returns the first error, or an error if sections are left.
func (s *sections) end() error {
	if s.err == nil && len(s.b) > 0 {
		return invalid("end", "%d bytes follow the last section, which begin with %q", len(s.b), s.b[:min(len(s.b), 4)])
	}
	return s.err
}

func (s *sections) take(tag string, do func(*reader)) {
	if s.err != nil {
		return
	}
	part := "section " + tag
	if len(s.b) < sectionHead {
		s.err = invalid(part, "%d bytes are left, a section has at least %d", len(s.b), sectionHead)
		return
	}
	n := le.Uint64(s.b[8:])
	if found := string(s.b[:4]); found != tag || le.Uint32(s.b[4:]) != 0 {
		s.err = invalid(part, "there is a section %q in its place", found)
		return
	}
	if s.b = s.b[sectionHead:]; n > uint64(len(s.b)) {
		s.err = invalid(part, "its length is %d, %d bytes are left", n, len(s.b))
		return
	}
	r := reader{b: s.b[:n:n], part: part, version: s.version}
	do(&r)
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes are left over", len(r.b))
	}
	s.b, s.err = s.b[n:], r.err
}

// part reads the sections of one queue, for the first one with the trace's buffers.
func (s *sections) part(f *File, t *Target, im *Image, first bool) {
	s.take(tagCommands, func(r *reader) { im.commands(r, cq.Layout(t.Arch)) })
	s.take(tagPrograms, im.programs)
	if s.at(tagPrints) {
		s.take(tagPrints, im.readPrints)
	}
	s.take(tagSteps, im.steps)
	s.take(tagRelocs, im.relocs)
	if first {
		s.take(tagBuffers, func(r *reader) { im.buffers(r, t.Arch) })
	}
	s.take(tagParams, func(r *reader) { im.params(r, f.Image.Buffers) })
	s.take(tagQueue, im.queue)
	if s.version < controlVersion {
		return
	}
	im.readControl()
	s.take(tagConds, im.conds)
}

func (s *sections) callees(f *File, t *Target, im *Image) {
	for s.at(tagCallee) {
		if s.version < controlVersion || len(im.Callees) == maxCallees {
			s.err = invalid("section "+tagCallee, "there are more than %d, or the version has none", maxCallees)
			return
		}
		var c Callee
		s.take(tagCallee, func(r *reader) { c.Name, c.Addr = r.name(), r.number(8) })
		s.part(f, t, &c.Image, false)
		im.Callees = append(im.Callees, c)
	}
}

// reader reads values from a section. After the first error it returns zeros.
type reader struct {
	b       []byte
	part    string
	version int
	err     error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err, r.b = invalid(r.part, format, args...), nil
	}
}

func (r *reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)) {
		r.fail("it ends in the middle of a value: %d bytes are left, want %d", len(r.b), n)
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) number(n uint64) uint64 {
	var w [8]byte
	copy(w[:], r.take(n))
	return le.Uint64(w[:])
}

func (r *reader) u8() uint8    { return uint8(r.number(1)) }
func (r *reader) u16() int     { return int(r.number(2)) }
func (r *reader) u32() int     { return int(r.number(4)) }
func (r *reader) name() string { return string(r.take(r.number(2))) }

func (r *reader) cores() chip.Range {
	return chip.Range{Start: chip.Core{X: r.u16(), Y: r.u16()}, End: chip.Core{X: r.u16(), Y: r.u16()}}
}

// size reads a 64-bit size or offset.
func (r *reader) size() int {
	v := r.number(8)
	if v > maxFile {
		r.fail("a size or offset is %#x, beyond all limits", v)
		return 0
	}
	return int(v)
}

// count reads a number of entries of at least size bytes each.
func (r *reader) count(size int) int {
	n := r.u32()
	if n > len(r.b)/size {
		r.fail("%d entries of at least %d bytes in %d bytes", n, size, len(r.b))
		return 0
	}
	return n
}

// devices returns a File for each device of a capture with a part and nil for the others.
func (r *reader) devices() []*File {
	all := r.u32()
	if all < 2 || all > maxDevices {
		r.fail("the trace is over %d devices, want 2 to %d", all, maxDevices)
		return nil
	}
	files, last := make([]*File, all), -1
	for range r.count(4) {
		i := r.u32()
		if i <= last || i >= all {
			r.fail("device %d of %d follows device %d", i, all, last)
			return nil
		}
		files[i], last = &File{}, i
	}
	return files
}

func (f *File) target(r *reader) {
	t := &f.Target
	t.Arch, t.Banks = chip.Arch(r.u8()), int(r.u8())
	r.queue(t)
	if r.version > 1 {
		r.queueWord(t)
	}
	t.Harvesting = chip.Harvesting{Tensix: uint32(r.number(4)), DRAM: uint32(r.number(4)), Ethernet: uint32(r.number(4))}
	copy(t.Firmware[:], r.take(uint64(len(t.Firmware))))
	t.Revision = r.name()
	if protocol, layout, ok := strings.Cut(t.Revision, layoutMark); ok && layout != "" {
		t.Revision, t.Layout = protocol, layout
	}
	f.Name = r.name()
}

// queue reads the properties that differ between the parts of a trace, as far as version 1 has
// them.
func (r *reader) queue(t *Target) {
	t.Dispatch = chip.XY{X: r.u8(), Y: r.u8()}
	t.Workers = r.cores()
}

func (r *reader) queueWord(t *Target) { t.Queue, t.Word = int(r.u8()), uint32(r.number(4)) }

func (im *Image) commands(r *reader, l cq.Layout) {
	im.Layout, im.PageSize = l, r.u32()
	if im.PageSize < minPageSize || im.PageSize > maxPageSize || im.PageSize&(im.PageSize-1) != 0 {
		r.fail("pages of %d bytes, want 1024, 2048 or 4096", im.PageSize)
		return
	}
	im.Size = len(r.b)
	if im.Size > maxCommands {
		r.fail("%d bytes of commands, at most %d are possible", im.Size, maxCommands)
		return
	}
	im.Bytes = make([]byte, roundUp(im.Size, im.PageSize))
	copy(im.Bytes, r.take(uint64(im.Size)))
}

func (im *Image) programs(r *reader) {
	for range r.count(2 + 8 + 4 + 4) {
		p := Program{Name: r.name(), Addr: r.number(8), Pages: r.u32()}
		p.Binary = r.take(r.number(4))
		im.Programs = append(im.Programs, p)
	}
}

func (im *Image) steps(r *reader) {
	at := 0
	for range r.count(2 + 4 + 4) {
		s := Step{Name: r.name(), Program: r.u32(), Offset: at, Size: r.u32()}
		if r.version > 1 && uint32(s.Program) == 1<<32-1 {
			r.withoutProgram(&s)
		}
		at += s.Size
		im.Steps = append(im.Steps, s)
	}
}

func (im *Image) relocs(r *reader) {
	n := r.count(12)
	im.Relocs = slices.Grow(im.Relocs, n)
	for range n {
		im.Relocs = append(im.Relocs, Reloc{At: r.u32(), Program: r.u32(), Page: r.u32()})
	}
}

// Buffers of version 1 have the alignment of their memory, and are interleaved over all banks.
func (im *Image) buffers(r *reader, a chip.Arch) {
	for range r.count(2 + 2 + 8 + 8 + 4) {
		b := Buffer{Name: r.name(), Kind: r.u8()}
		out := r.u8()
		if out > 1 {
			r.fail("flags of buffer %d are %#x, only bit 0 is known", len(im.Buffers), out)
		}
		b.Output, b.Addr, b.Size, b.PageSize = out == 1, r.number(8), r.size(), r.u32()
		if r.version > 1 {
			b.Stride, b.Sharding = r.u32(), r.sharding()
		} else if a.Valid() {
			align := int(a.Params().Align.DRAM())
			if b.Kind != KindDRAM {
				align = int(a.Params().Align.L1)
			}
			b.Stride = roundUp(b.PageSize, align)
		}
		im.Buffers = append(im.Buffers, b)
	}
}

func (r *reader) sharding() *Sharding {
	layout := r.u8()
	if layout == 0 {
		return nil
	}
	s := &Sharding{Layout: layout, Orientation: r.u8(), Strategy: r.u8()}
	rank := r.u8()
	if rank > maxRank {
		r.fail("a shape has %d dimensions, at most %d are possible", rank, maxRank)
		return s
	}
	for _, shape := range []*[]int{&s.Tensor, &s.Shard} {
		for range rank {
			*shape = append(*shape, r.size())
		}
	}
	n := r.u16()
	if n > len(r.b)/8 {
		r.fail("%d ranges of cores in %d bytes", n, len(r.b))
		return s
	}
	for range n {
		s.Cores = append(s.Cores, r.cores())
	}
	return s
}

// Address parameters of version 1 stand for the whole of the one buffer at the address.
func (im *Image) params(r *reader, buffers []Buffer) {
	for range r.count(2 + 1 + 4 + 4) {
		p := Param{Name: r.name(), Kind: ParamKind(r.u8()), Value: uint32(r.number(4))}
		switch {
		case p.Kind != BufferAddr:
		case r.version > 1:
			p.Buffer, p.First, p.Pages = r.u32(), r.size(), r.size()
		default:
			there := func(b Buffer) bool { return b.Addr == uint64(p.Value) }
			if p.Buffer = slices.IndexFunc(buffers, there); p.Buffer < 0 {
				break
			}
			p.Pages = buffers[p.Buffer].Pages()
			if i := slices.IndexFunc(buffers[p.Buffer+1:], there); i >= 0 {
				r.fail("patch point %q is the address of both %q and %q, and version 1 doesn't tell which one is meant: save the trace again", p.Name,
					buffers[p.Buffer].Name, buffers[p.Buffer+1+i].Name)
			}
		}
		n := r.count(4)
		p.At = make([]int, n)
		for i := range p.At {
			p.At[i] = r.u32()
		}
		im.Params = append(im.Params, p)
	}
}

func (im *Image) queue(r *reader) {
	im.L1End = r.number(8)
	if len(r.b) > maxAfter {
		r.fail("the state of a queue has %d bytes, at most %d are possible", len(r.b), maxAfter)
	}
	im.After = r.take(uint64(len(r.b)))
}

func (r *reader) data() Data {
	d := Data{Buffer: r.u32(), Offset: r.size()}
	d.Bytes = r.take(uint64(len(r.b)))
	return d
}
