package tracebuf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

var le = binary.LittleEndian

// Sections of a trace file, in their order. The file of a trace of one device has each of them
// once, except: no tagDevices, any number of tagData and tagResult, and for each further part a
// tagPart with the sections from tagCommands to tagQueue without tagBuffers and tagTensors. The
// file of a trace over several devices has a tagDevices and those sections of each device. A part
// has a tagCallee for each callee with the sections of a further part.
const (
	tagDevices    = "DEVS"
	tagTarget     = "TRGT"
	tagSubDevices = "SUBD" // if there are any
	tagSetup      = "SETU" // if there is any
	tagCommands   = "CMDS"
	tagPrograms   = "PROG"
	tagPrints     = "PRNT" // if there are any
	tagSteps      = "STEP"
	tagRelocs     = "RELO"
	tagBuffers    = "BUFF"
	tagTensors    = "TNSR" // if there are any
	tagParams     = "PARM"
	tagQueue      = "QUEU"
	tagChanges    = "CHNG" // if there are any
	tagConds      = "COND" // if there are any
	tagCallee     = "CALL"
	tagPart       = "PART"
	tagData       = "DATA"
	tagResult     = "RSLT"
)

const (
	fileHead    = len(FileMagic) + 4 + 4 + 8 // magic, version, zero, length of the file
	sectionHead = 4 + 4 + 8                  // tag, zero, length of what follows
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
		s := sections{write: true}
		if len(files) > 1 {
			s.code(tagDevices, func(c *coder) { c.devices(&files) })
		}
		for _, f := range files {
			if f != nil {
				s.device(f)
			}
		}
		err = writeSections(w, s.out)
	}
	if err != nil {
		return fmt.Errorf("tracebuf: encode: %w", err)
	}
	return nil
}

func writeSections(w io.Writer, sections []section) error {
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
	return err
}

// IsFile reports whether a file begins as a trace file.
func IsFile(head []byte) bool { return bytes.HasPrefix(head, []byte(FileMagic)) }
