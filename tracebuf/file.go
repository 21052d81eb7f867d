package tracebuf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// File is a trace, or its part on one of several devices, with everything that another device of
// the same kind needs to run it. docs/trace-file.md describes the bytes.
type File struct {
	Name   string
	Target Target
	Image  Image
	Setup  *Setup // nil for none
	// Others are the parts on other queues.
	Others []Part
	// Data of buffers before the first replay, by buffer and offset. Others keep their contents.
	Data []Data
	// Results of a replay on Data, in the same order.
	Results []Data
}

// Target is the properties of a device and a queue that a trace depends on: see [Target.Match].
type Target struct {
	Arch       chip.Arch
	Harvesting chip.Harvesting // decides coordinates and the number of DRAM banks
	Workers    chip.Range      // logical
	Banks      int             // of DRAM
	Dispatch   chip.XY         // virtual
	Queue      int
	Word       uint32   // as a Dispatcher's; 0 in a trace of one queue
	Firmware   [32]byte // SHA-256
	Revision   string   // as package cq names it
	// SubDevices are those that the trace was recorded with; nil without any.
	SubDevices [][]chip.Range
	// Layout of the workers' base firmware, as package abi names it; empty for this runtime's own.
	Layout string
}

// Data is a part of a buffer's content.
type Data struct {
	Buffer int // index in Image.Buffers
	Offset int // in the buffer, in bytes
	Bytes  []byte
}

// FileMagic begins every trace file.
const FileMagic = "RPRTRACE"

// FileVersion is the version of trace files that EncodeAll writes and DecodeAll reads.
const FileVersion = 5

// Limits of a trace file keep sums from overflowing.
const (
	maxFile     = 1 << 38 // bytes
	maxCommands = 1 << 30 // bytes: a trace's DRAM is named by 32-bit addresses
	maxName     = 4096    // bytes
	maxAfter    = 4096    // bytes
	maxParts    = 8       // queues of a device
	maxDevices  = 1024    // of a trace
	maxRank     = 16
	maxCallees  = 256 // of a part
)

var (
	// ErrNotTrace: the file doesn't begin with FileMagic.
	ErrNotTrace = errors.New("not a trace file")
	// ErrVersion: this release doesn't read the file's version.
	ErrVersion = errors.New("unknown version of trace files")
	// ErrDamaged: the file was changed or cut off.
	ErrDamaged = errors.New("the trace file is damaged")
	// ErrInvalid is returned, as a *FileError with the reason, for a trace that no recorder makes.
	ErrInvalid = errors.New("not a trace that can be run")
	// ErrSeveralDevices is returned by Decode: use DecodeAll.
	ErrSeveralDevices = errors.New("the trace is over several devices")
	// ErrTarget: the trace is of another kind of device.
	ErrTarget = errors.New("the trace is for another kind of device")
)

// FileError names the wrong part of a trace. It matches ErrInvalid or ErrDamaged.
type FileError struct {
	Part string // "commands at +0x1c0", "program 3 \"dense\"", "section PROG"
	What string
	Err  error // ErrInvalid or ErrDamaged, or the error of package cq that tells more
}

func (e *FileError) Error() string { return fmt.Sprintf("%s: %s", e.Part, e.What) }

func (e *FileError) Is(err error) bool { return err == ErrInvalid && e.Err != ErrDamaged }

func (e *FileError) Unwrap() error { return e.Err }

func invalid(part, format string, args ...any) error {
	return &FileError{Part: part, What: fmt.Sprintf(format, args...), Err: ErrInvalid}
}

func damaged(part, format string, args ...any) error {
	return &FileError{Part: part, What: fmt.Sprintf(format, args...), Err: ErrDamaged}
}

// TargetError names a property in which a device differs from that of the recording. It matches
// ErrTarget.
type TargetError struct {
	What        string
	Trace, Here string
	Do          string // such as "record it again here"
}

func (e *TargetError) Error() string {
	return fmt.Sprintf("%v: its %s is %s, this device's is %s; %s", ErrTarget, e.What, e.Trace, e.Here, e.Do)
}

func (e *TargetError) Unwrap() error { return ErrTarget }

// NewFile returns a file of a trace whose first part gives the file's target.
func NewFile(name string, parts []Part, buffers []Buffer) *File {
	f := &File{Name: name, Target: parts[0].Target, Image: parts[0].Image, Others: parts[1:]}
	f.Image.Buffers = buffers
	return f
}

// Images are the file's own.
func (f *File) Images() []*Image {
	out := []*Image{&f.Image}
	for i := range f.Others {
		out = append(out, &f.Others[i].Image)
	}
	return out
}

func (f *File) everyImage() []*Image {
	var out []*Image
	for _, im := range f.Images() {
		out = append(out, im)
		for i := range im.Callees {
			out = append(out, &im.Callees[i].Image)
		}
	}
	return out
}

// Parts are one for each queue. The first is Target and Image.
func (f *File) Parts() []Part {
	return append([]Part{{Target: f.Target, Image: f.Image}}, f.Others...)
}

// Match returns a *TargetError unless a trace for t runs on a queue with the properties here. The
// queue's number and its dispatch core may differ: see [File.Relocate].
func (t *Target) Match(here *Target) error {
	diff := func(what string, trace, dev any) error {
		return &TargetError{what, fmt.Sprint(trace), fmt.Sprint(dev), "record it again here"}
	}
	switch {
	case t.Arch != here.Arch:
		return diff("architecture", t.Arch, here.Arch)
	case t.Revision != here.Revision:
		return diff("protocol revision", t.Revision, here.Revision)
	case t.workersRevision() != here.workersRevision():
		return diff("base firmware of the workers", workersRun(t.Layout), workersRun(here.Layout))
	case t.Harvesting.Tensix != here.Harvesting.Tensix, t.Harvesting.DRAM != here.Harvesting.DRAM: // no trace uses Ethernet tiles
		return diff("harvesting", harvesting(t.Harvesting), harvesting(here.Harvesting))
	case t.Workers != here.Workers:
		return diff("grid of workers", t.Workers, here.Workers)
	case t.Banks != here.Banks:
		return diff("number of DRAM banks", t.Banks, here.Banks)
	case t.Firmware != here.Firmware:
		return diff("firmware", fmt.Sprintf("%x", t.Firmware), fmt.Sprintf("%x", here.Firmware))
	case !slices.EqualFunc(t.SubDevices, here.SubDevices, slices.Equal[[]chip.Range]):
		return &TargetError{"division into sub-devices", fmt.Sprint(t.SubDevices), fmt.Sprint(here.SubDevices),
			"load the trace's, or clear them"}
	}
	return nil
}

func workersRun(layout string) string {
	if layout == "" {
		return "this runtime's own"
	}
	return "that of tt-metal, revision " + layout
}

// workersRevision names the layout as abi does now.
func (t *Target) workersRevision() string {
	if l := t.layout(); l != nil {
		return l.Revision.Name
	}
	return t.Layout
}

func (t *Target) layout() *abi.Layout {
	if t.Layout == "" {
		return abi.Own(t.Arch)
	}
	return abi.Of(t.Layout, t.Arch)
}

func harvesting(h chip.Harvesting) string {
	return fmt.Sprintf("Tensix %#x, DRAM %#x, Ethernet %#x", h.Tensix, h.DRAM, h.Ethernet)
}

// SetupOps returns the operations; none for nil.
func (f *File) SetupOps() []SetupOp {
	if f == nil || f.Setup == nil {
		return nil
	}
	return f.Setup.Ops
}
