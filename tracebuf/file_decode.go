package tracebuf

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Decode reads a trace file, which must end where r does, and checks it completely: what it returns is a trace that a
// recorder could have made, with commands that the target's firmware takes and that write to nothing but the workers'
// kernel memory. (What the kernels do is theirs to say.) Errors are ErrNotTrace, ErrVersion, ErrDamaged, ErrInvalid or
// those of r. The memory it takes is a small multiple of the bytes that r delivers, whatever they claim.
func Decode(r io.Reader) (*File, error) {
	body, err := readFile(r)
	if err != nil {
		return nil, fmt.Errorf("tracebuf: decode: %w", err)
	}
	f := &File{}
	if err := f.sections(body); err != nil {
		return nil, fmt.Errorf("tracebuf: decode: %w", err)
	}
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("tracebuf: decode: %w", err)
	}
	return f, nil
}

// readFile returns the sections of a file whose checksum is right.
func readFile(r io.Reader) ([]byte, error) {
	head := make([]byte, fileHead)
	n, err := io.ReadFull(r, head)
	switch {
	case !IsFile(head[:n]):
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it begins with %q, want %q", ErrNotTrace, head[:min(n, len(FileMagic))], FileMagic)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, damaged("head", "it has %d bytes, want %d", n, fileHead)
	case err != nil:
		return nil, err
	}
	if v := le.Uint32(head[8:]); v != FileVersion {
		return nil, fmt.Errorf("%w: it is version %d, this program reads version %d", ErrVersion, v, FileVersion)
	}
	size := le.Uint64(head[16:])
	if size < uint64(fileHead+sha256.Size) || size > maxFile || le.Uint32(head[12:]) != 0 {
		return nil, damaged("head", "the file's length is given as %d, want %d to %d", size, fileHead+sha256.Size, uint64(maxFile))
	}
	body, err := readN(r, int(size)-fileHead)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, damaged("end", "the file has %d bytes and began as one of %d: it was cut off; copy it again", fileHead+len(body), size)
	}
	if err != nil {
		return nil, err
	}
	var more [1]byte
	if _, err := io.ReadFull(r, more[:]); err == nil {
		return nil, damaged("end", "there are bytes behind the end of the file at %d", size)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(head)
	body, want := body[:len(body)-sha256.Size], body[len(body)-sha256.Size:]
	sum.Write(body)
	if got := sum.Sum(nil); string(got) != string(want) {
		return nil, damaged("checksum", "it is %x..., the bytes give %x...: they were changed; copy the file again", want[:6], got[:6])
	}
	return body, nil
}

// readN reads n bytes. It returns those that there are with an io.ErrUnexpectedEOF if there are fewer. It never holds
// more than twice what it has read, whatever n claims.
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

// sections reads all sections. Their bytes are those that were written, so what is wrong here is the writer's doing.
func (f *File) sections(b []byte) error {
	parse := []struct {
		tag string
		do  func(*reader)
	}{
		{tagTarget, f.target}, {tagCommands, f.commands}, {tagPrograms, f.programs}, {tagSteps, f.steps},
		{tagRelocs, f.relocs}, {tagBuffers, f.buffers}, {tagParams, f.params}, {tagQueue, f.queue},
		{tagData, func(r *reader) { f.Data = append(f.Data, r.data()) }},
		{tagResult, func(r *reader) { f.Results = append(f.Results, r.data()) }},
	}
	const once = 8 // of them are there, the others any number of times
	for i := 0; i < once || len(b) > 0; {
		p := &parse[i]
		if i >= once && i+1 < len(parse) && string(b[:min(4, len(b))]) == parse[i+1].tag {
			i++
			continue
		}
		if i < once {
			i++
		}
		if len(b) < sectionHead {
			return invalid("section "+p.tag, "%d bytes are left, a section has at least %d", len(b), sectionHead)
		}
		n := le.Uint64(b[8:])
		if tag := string(b[:4]); tag != p.tag || le.Uint32(b[4:]) != 0 {
			return invalid("section "+p.tag, "there is a section %q in its place", tag)
		}
		if b = b[sectionHead:]; n > uint64(len(b)) {
			return invalid("section "+p.tag, "its length is %d, %d bytes are left", n, len(b))
		}
		r := reader{b: b[:n:n], part: "section " + p.tag}
		p.do(&r)
		if r.err == nil && len(r.b) > 0 {
			r.fail("%d bytes are left over", len(r.b))
		}
		if r.err != nil {
			return r.err
		}
		b = b[n:]
	}
	return nil
}

// reader takes values from the bytes of a section. After the first error it returns zeros.
type reader struct {
	b    []byte
	part string
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err, r.b = invalid(r.part, format, args...), nil
	}
}

func (r *reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)) {
		r.fail("it ends inside of a value: %d bytes are left, want %d", len(r.b), n)
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// number takes an unsigned number of n bytes.
func (r *reader) number(n uint64) uint64 {
	var w [8]byte
	copy(w[:], r.take(n))
	return le.Uint64(w[:])
}

func (r *reader) u8() uint8    { return uint8(r.number(1)) }
func (r *reader) u16() int     { return int(r.number(2)) }
func (r *reader) u32() int     { return int(r.number(4)) }
func (r *reader) name() string { return string(r.take(r.number(2))) }

// size takes a 64-bit number that has to be a size or an offset.
func (r *reader) size() int {
	v := r.number(8)
	if v > maxFile {
		r.fail("a size or offset is %#x, beyond all limits", v)
		return 0
	}
	return int(v)
}

// count takes the number of entries, of which each has at least size bytes.
func (r *reader) count(size int) int {
	n := r.u32()
	if n > len(r.b)/size {
		r.fail("%d entries of at least %d bytes in %d bytes", n, size, len(r.b))
		return 0
	}
	return n
}

func (f *File) target(r *reader) {
	t := &f.Target
	t.Arch, t.Banks = chip.Arch(r.u8()), int(r.u8())
	t.Dispatch = chip.XY{X: r.u8(), Y: r.u8()}
	t.Workers.Start = chip.Core{X: r.u16(), Y: r.u16()}
	t.Workers.End = chip.Core{X: r.u16(), Y: r.u16()}
	t.Harvesting = chip.Harvesting{Tensix: uint32(r.number(4)), DRAM: uint32(r.number(4)), Ethernet: uint32(r.number(4))}
	copy(t.Firmware[:], r.take(uint64(len(t.Firmware))))
	t.Revision, f.Name = r.name(), r.name()
}

func (f *File) commands(r *reader) {
	im := &f.Image
	im.Layout, im.PageSize = cq.Layout(f.Target.Arch), r.u32()
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

func (f *File) programs(r *reader) {
	for range r.count(2 + 8 + 4 + 4) {
		p := Program{Name: r.name(), Addr: r.number(8), Pages: r.u32()}
		p.Binary = r.take(r.number(4))
		f.Image.Programs = append(f.Image.Programs, p)
	}
}

func (f *File) steps(r *reader) {
	at := 0
	for range r.count(2 + 4 + 4) {
		s := Step{Name: r.name(), Program: r.u32(), Offset: at, Size: r.u32()}
		at += s.Size
		f.Image.Steps = append(f.Image.Steps, s)
	}
}

func (f *File) relocs(r *reader) {
	n := r.count(12)
	f.Image.Relocs = slices.Grow(f.Image.Relocs, n)
	for range n {
		f.Image.Relocs = append(f.Image.Relocs, Reloc{At: r.u32(), Program: r.u32(), Page: r.u32()})
	}
}

func (f *File) buffers(r *reader) {
	for range r.count(2 + 2 + 8 + 8 + 4) {
		b := Buffer{Name: r.name(), Kind: r.u8()}
		out := r.u8()
		if out > 1 {
			r.fail("flags of buffer %d are %#x, only bit 0 is known", len(f.Image.Buffers), out)
		}
		b.Output, b.Addr, b.Size, b.PageSize = out == 1, r.number(8), r.size(), r.u32()
		f.Image.Buffers = append(f.Image.Buffers, b)
	}
}

func (f *File) params(r *reader) {
	for range r.count(2 + 1 + 4 + 4) {
		p := Param{Name: r.name(), Kind: ParamKind(r.u8()), Value: uint32(r.number(4))}
		n := r.count(4)
		p.At = make([]int, n)
		for i := range p.At {
			p.At[i] = r.u32()
		}
		f.Image.Params = append(f.Image.Params, p)
	}
}

func (f *File) queue(r *reader) {
	f.Image.L1End = r.number(8)
	if len(r.b) > maxAfter {
		r.fail("the state of a queue has %d bytes, at most %d are possible", len(r.b), maxAfter)
	}
	f.Image.After = r.take(uint64(len(r.b)))
}

func (r *reader) data() Data {
	d := Data{Buffer: r.u32(), Offset: r.size()}
	d.Bytes = r.take(uint64(len(r.b)))
	return d
}
