package tracebuf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/reprise-tt/reprise/chip"
)

var le = binary.LittleEndian

// Sections of a trace file, in their order. A file has each of them once, but for any number of tagData and tagResult.
const (
	tagTarget   = "TRGT"
	tagCommands = "CMDS"
	tagPrograms = "PROG"
	tagSteps    = "STEP"
	tagRelocs   = "RELO"
	tagBuffers  = "BUFF"
	tagParams   = "PARM"
	tagQueue    = "QUEU"
	tagData     = "DATA"
	tagResult   = "RSLT"
)

// Sizes in bytes.
const (
	fileHead    = len(FileMagic) + 4 + 4 + 8 // magic, version, zero, length of the file
	sectionHead = 4 + 4 + 8                  // tag, zero, length of what follows
	dataHead    = 4 + 8                      // buffer, offset
)

// section is one section as it is written: head, then body.
type section struct {
	tag        string
	head, body []byte
}

// Encode writes a trace file. The same trace gives the same bytes. It writes nothing that Decode would refuse.
func Encode(w io.Writer, f *File) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("tracebuf: encode: %w", err)
	}
	sections := []section{
		{tag: tagTarget, head: f.encodeTarget()},
		{tag: tagCommands, head: le.AppendUint32(nil, uint32(f.Image.PageSize)), body: f.Image.Bytes[:f.Image.Size]},
		{tag: tagPrograms, head: f.encodePrograms()},
		{tag: tagSteps, head: f.encodeSteps()},
		{tag: tagRelocs, head: f.encodeRelocs()},
		{tag: tagBuffers, head: f.encodeBuffers()},
		{tag: tagParams, head: f.encodeParams()},
		{tag: tagQueue, head: le.AppendUint64(nil, f.Image.L1End), body: f.Image.After},
	}
	sections = appendData(appendData(sections, tagData, f.Data), tagResult, f.Results)
	size := uint64(fileHead + sha256.Size)
	for _, s := range sections {
		size += uint64(sectionHead + len(s.head) + len(s.body))
	}
	sum := sha256.New()
	var err error
	put := func(b []byte) {
		if err == nil {
			sum.Write(b) // never fails
			_, err = w.Write(b)
		}
	}
	head := append([]byte(FileMagic), make([]byte, 0, fileHead)...)
	head = le.AppendUint32(le.AppendUint32(head, FileVersion), 0)
	put(le.AppendUint64(head, size))
	for _, s := range sections {
		put(le.AppendUint64(le.AppendUint32([]byte(s.tag), 0), uint64(len(s.head)+len(s.body))))
		put(s.head)
		put(s.body)
	}
	put(sum.Sum(nil))
	if err != nil {
		return fmt.Errorf("tracebuf: encode: %w", err)
	}
	return nil
}

func appendData(to []section, tag string, data []Data) []section {
	for i := range data {
		d := &data[i]
		to = append(to, section{tag: tag, head: le.AppendUint64(le.AppendUint32(nil, uint32(d.Buffer)), uint64(d.Offset)), body: d.Bytes})
	}
	return to
}

func appendName(b []byte, s string) []byte { return append(le.AppendUint16(b, uint16(len(s))), s...) }

func appendXY(b []byte, c chip.XY) []byte { return append(b, c.X, c.Y) }

func (f *File) encodeTarget() []byte {
	t := &f.Target
	b := appendXY([]byte{byte(t.Arch), byte(t.Banks)}, t.Dispatch)
	for _, v := range []int{t.Workers.Start.X, t.Workers.Start.Y, t.Workers.End.X, t.Workers.End.Y} {
		b = le.AppendUint16(b, uint16(v))
	}
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, t.Harvesting.Tensix), t.Harvesting.DRAM), t.Harvesting.Ethernet)
	b = append(b, t.Firmware[:]...)
	return appendName(appendName(b, t.Revision), f.Name)
}

func (f *File) encodePrograms() []byte {
	b := le.AppendUint32(nil, uint32(len(f.Image.Programs)))
	for i := range f.Image.Programs {
		p := &f.Image.Programs[i]
		b = le.AppendUint64(appendName(b, p.Name), p.Addr)
		b = le.AppendUint32(le.AppendUint32(b, uint32(p.Pages)), uint32(len(p.Binary)))
		b = append(b, p.Binary...)
	}
	return b
}

// encodeSteps leaves the offsets out: steps lie one behind the other.
func (f *File) encodeSteps() []byte {
	b := le.AppendUint32(nil, uint32(len(f.Image.Steps)))
	for _, s := range f.Image.Steps {
		b = le.AppendUint32(le.AppendUint32(appendName(b, s.Name), uint32(s.Program)), uint32(s.Size))
	}
	return b
}

func (f *File) encodeRelocs() []byte {
	b := le.AppendUint32(nil, uint32(len(f.Image.Relocs)))
	for _, r := range f.Image.Relocs {
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, uint32(r.At)), uint32(r.Program)), uint32(r.Page))
	}
	return b
}

func (f *File) encodeBuffers() []byte {
	b := le.AppendUint32(nil, uint32(len(f.Image.Buffers)))
	for _, u := range f.Image.Buffers {
		out := byte(0)
		if u.Output {
			out = 1
		}
		b = append(appendName(b, u.Name), u.Kind, out)
		b = le.AppendUint64(le.AppendUint64(b, u.Addr), uint64(u.Size))
		b = le.AppendUint32(b, uint32(u.PageSize))
	}
	return b
}

func (f *File) encodeParams() []byte {
	b := le.AppendUint32(nil, uint32(len(f.Image.Params)))
	for _, p := range f.Image.Params {
		b = append(appendName(b, p.Name), byte(p.Kind))
		b = le.AppendUint32(le.AppendUint32(b, p.Value), uint32(len(p.At)))
		for _, at := range p.At {
			b = le.AppendUint32(b, uint32(at))
		}
	}
	return b
}

// IsFile says whether the first bytes of a file are those of a trace file.
func IsFile(head []byte) bool { return bytes.HasPrefix(head, []byte(FileMagic)) }
