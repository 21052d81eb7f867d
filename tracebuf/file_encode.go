package tracebuf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"github.com/reprise-tt/reprise/tracebuf/flow"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

var le = binary.LittleEndian

// Sections of a trace file, in their order. The file of a trace of one device has each of them
// once, except: no tagDevices, any number of tagData and tagResult, and for each further part a
// tagPart with the sections from tagCommands to tagQueue without tagBuffers. The file of a trace
// over several devices has a tagDevices and those sections of each device. With control flow, a
// tagConds follows each tagQueue, and a part's has then a tagCallee for each callee with the
// sections of a further part.
const (
	tagDevices  = "DEVS"
	tagTarget   = "TRGT"
	tagCommands = "CMDS"
	tagPrograms = "PROG"
	tagSteps    = "STEP"
	tagRelocs   = "RELO"
	tagBuffers  = "BUFF"
	tagParams   = "PARM"
	tagQueue    = "QUEU"
	tagConds    = "COND"
	tagCallee   = "CALL"
	tagPart     = "PART"
	tagData     = "DATA"
	tagResult   = "RSLT"
)

// Sizes in bytes.
const (
	fileHead    = len(FileMagic) + 4 + 4 + 8 // magic, version, zero, length of the file
	sectionHead = 4 + 4 + 8                  // tag, zero, length of what follows
	dataHead    = 4 + 8                      // buffer, offset
)

type section struct {
	tag        string
	head, body []byte
}

// Encode is [EncodeAll] for a trace of one device.
func Encode(w io.Writer, f *File) error { return EncodeAll(w, []*File{f}) }

// EncodeAll writes a trace as one file: a File for each device, in the order of the capture, nil
// for a device on which nothing was recorded. All have the trace's name. The same trace gives the
// same bytes. It writes nothing that [DecodeAll] would refuse.
func EncodeAll(w io.Writer, files []*File) error {
	err := validateAll(files)
	if err == nil {
		version := versionOf(files)
		var sections []section
		if len(files) > 1 {
			sections = append(sections, section{tag: tagDevices, head: encodeDevices(files)})
		}
		for _, f := range files {
			if f != nil {
				sections = append(sections, f.sections(version)...)
			}
		}
		err = writeSections(w, version, sections)
	}
	if err != nil {
		return fmt.Errorf("tracebuf: encode: %w", err)
	}
	return nil
}

func versionOf(files []*File) uint32 {
	switch {
	case slices.ContainsFunc(files, func(f *File) bool { return f != nil && f.hasControl() }):
		return controlVersion
	case len(files) > 1:
		return devicesVersion
	}
	return deviceVersion
}

func (f *File) sections(version uint32) []section {
	out := append([]section{{tag: tagTarget, head: f.encodeTarget()}}, f.Image.sections(version, f.Image.encodeBuffers())...)
	for i := range f.Others {
		out = append(out, section{tag: tagPart, head: f.Others[i].Target.encodeQueue(nil)})
		out = append(out, f.Others[i].Image.sections(version, nil)...)
	}
	return appendData(appendData(out, tagData, f.Data), tagResult, f.Results)
}

func writeSections(w io.Writer, version uint32, sections []section) error {
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
	head = le.AppendUint32(le.AppendUint32(head, version), 0)
	put(le.AppendUint64(head, size))
	for _, s := range sections {
		put(le.AppendUint64(le.AppendUint32([]byte(s.tag), 0), uint64(len(s.head)+len(s.body))))
		put(s.head)
		put(s.body)
	}
	put(sum.Sum(nil))
	return err
}

func encodeDevices(files []*File) []byte {
	var parts []uint32
	for i, f := range files {
		if f != nil {
			parts = append(parts, uint32(i))
		}
	}
	b := le.AppendUint32(le.AppendUint32(nil, uint32(len(files))), uint32(len(parts)))
	for _, i := range parts {
		b = le.AppendUint32(b, i)
	}
	return b
}

// sections returns the sections of a part and its callees. buffers is nil for all parts but the
// first.
func (im *Image) sections(version uint32, buffers []byte) []section {
	out := []section{
		{tag: tagCommands, head: le.AppendUint32(nil, uint32(im.PageSize)), body: im.Bytes[:im.Size]},
		{tag: tagPrograms, head: im.encodePrograms()},
	}
	if im.prints() {
		out = append(out, section{tag: tagPrints, head: im.encodePrints()})
	}
	out = append(out, section{tag: tagSteps, head: im.encodeSteps()}, section{tag: tagRelocs, head: im.encodeRelocs()})
	if buffers != nil {
		out = append(out, section{tag: tagBuffers, head: buffers})
	}
	out = append(out, section{tag: tagParams, head: im.encodeParams()},
		section{tag: tagQueue, head: le.AppendUint64(nil, im.L1End), body: im.After})
	if version >= controlVersion {
		out = append(out, section{tag: tagConds, head: im.encodeConds()})
	}
	for i := range im.Callees {
		c := &im.Callees[i]
		out = append(out, section{tag: tagCallee, head: le.AppendUint64(appendName(nil, c.Name), c.Addr)})
		out = append(out, c.Image.sections(version, nil)...)
	}
	return out
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

func appendRange(b []byte, r chip.Range) []byte {
	for _, v := range []int{r.Start.X, r.Start.Y, r.End.X, r.End.Y} {
		b = le.AppendUint16(b, uint16(v))
	}
	return b
}

// layoutMark separates the protocol revision from the revision of the workers' base firmware, if
// that isn't this runtime's own.
const layoutMark = " workers "

func (f *File) encodeTarget() []byte {
	t := &f.Target
	b := t.encodeQueue([]byte{byte(t.Arch), byte(t.Banks)})
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, t.Harvesting.Tensix), t.Harvesting.DRAM), t.Harvesting.Ethernet)
	b = append(b, t.Firmware[:]...)
	revision := t.Revision
	if t.Layout != "" {
		revision += layoutMark + t.Layout
	}
	return appendName(appendName(b, revision), f.Name)
}

func (t *Target) encodeQueue(b []byte) []byte {
	b = appendRange(appendXY(b, t.Dispatch), t.Workers)
	return le.AppendUint32(append(b, byte(t.Queue)), t.Word)
}

func (im *Image) encodePrograms() []byte {
	b := le.AppendUint32(nil, uint32(len(im.Programs)))
	for i := range im.Programs {
		p := &im.Programs[i]
		b = le.AppendUint64(appendName(b, p.Name), p.Addr)
		b = le.AppendUint32(le.AppendUint32(b, uint32(p.Pages)), uint32(len(p.Binary)))
		b = append(b, p.Binary...)
	}
	return b
}

// encodeSteps leaves offsets out: each step begins where the previous one ends.
func (im *Image) encodeSteps() []byte {
	b := le.AppendUint32(nil, uint32(len(im.Steps)))
	for i := range im.Steps {
		s := &im.Steps[i]
		b = le.AppendUint32(le.AppendUint32(appendName(b, s.Name), uint32(s.Program)), uint32(s.Size))
		if s.Program == NoProgram {
			kind, queue, number := byte(s.Edge.Kind), byte(s.Edge.Queue), s.Edge.Number
			if c := &s.Control; c.Kind != flow.None {
				kind, queue, number = byte(c.Kind)+controlMark, 0, controlNumber(c)
			}
			b = le.AppendUint32(append(b, kind, queue), number)
		}
	}
	return b
}

func (im *Image) encodeRelocs() []byte {
	b := le.AppendUint32(nil, uint32(len(im.Relocs)))
	for _, r := range im.Relocs {
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, uint32(r.At)), uint32(r.Program)), uint32(r.Page))
	}
	return b
}

func (im *Image) encodeBuffers() []byte {
	b := le.AppendUint32(nil, uint32(len(im.Buffers)))
	for i := range im.Buffers {
		u := &im.Buffers[i]
		out := byte(0)
		if u.Output {
			out = 1
		}
		b = append(appendName(b, u.Name), u.Kind, out)
		b = le.AppendUint64(le.AppendUint64(b, u.Addr), uint64(u.Size))
		b = le.AppendUint32(le.AppendUint32(b, uint32(u.PageSize)), uint32(u.Stride))
		b = u.Sharding.encode(b)
	}
	return b
}

func (s *Sharding) encode(b []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	b = append(b, s.Layout, s.Orientation, s.Strategy, byte(len(s.Tensor)))
	for _, shape := range [][]int{s.Tensor, s.Shard} {
		for _, n := range shape {
			b = le.AppendUint64(b, uint64(n))
		}
	}
	b = le.AppendUint16(b, uint16(len(s.Cores)))
	for _, r := range s.Cores {
		b = appendRange(b, r)
	}
	return b
}

func (im *Image) encodeParams() []byte {
	b := le.AppendUint32(nil, uint32(len(im.Params)))
	for i := range im.Params {
		p := &im.Params[i]
		b = le.AppendUint32(append(appendName(b, p.Name), byte(p.Kind)), p.Value)
		if p.Kind == BufferAddr {
			b = le.AppendUint64(le.AppendUint64(le.AppendUint32(b, uint32(p.Buffer)), uint64(p.First)), uint64(p.Pages))
		}
		b = le.AppendUint32(b, uint32(len(p.At)))
		for _, at := range p.At {
			b = le.AppendUint32(b, uint32(at))
		}
	}
	return b
}

func IsFile(head []byte) bool { return bytes.HasPrefix(head, []byte(FileMagic)) }
