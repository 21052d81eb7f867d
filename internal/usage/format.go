package usage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Version is the version of the layout. A reader refuses others.
const Version = 1

// Size is a log's size in bytes: one page on every supported system.
const Size = 4096

// The layout, in bytes from the start of the file, little-endian. The magic number is stored last,
// and the header never changes afterwards. A record is a cache line of its own, so an update
// touches one line.
const (
	atMagic     = 0   // 8 bytes
	atVersion   = 8   // u32
	atSize      = 12  // u32, Size
	atPID       = 16  // u32
	atFlags     = 20  // u32
	atStart     = 24  // u64: start time of the process in ticks since boot (proc(5), stat field 22); 0 is unknown
	atNamespace = 32  // u64: inode of the namespace of the process id; 0 is unknown
	atOpened    = 40  // i64: when the log was made, in ns since 1970
	atNUMA      = 48  // i32: memory node of the device, negative if it isn't known
	atCommand   = 64  // text, 64 bytes
	atName      = 128 // text, 128 bytes
	atPCI       = 256 // text, 32 bytes
	atSerial    = 288 // text, 32 bytes
	atArch      = 320 // text, 32 bytes
	atRecords   = 512 // numKinds records

	magic        = 0x45474153_55505254 // "TRPUSAGE"
	flagEmulated = 1 << 0

	recordSize = 64
	// A record has u64 words. The sequence is odd during an update, and otherwise twice the number
	// of updates.
	atSequence  = 0
	atCapacity  = 8
	atAllocated = 16
	atPeak      = 24
	atExtents   = 32
)

// Kind is a kind of device memory, with the values of tt-metal's BufferType.
type Kind uint8

// The kinds.
const (
	DRAM    Kind = 0
	L1      Kind = 1
	L1Small Kind = 3
	Trace   Kind = 4

	numKinds = 5
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{DRAM, L1, L1Small, Trace} }

// String returns tt-metal's name: DRAM, L1, L1_SMALL or TRACE.
func (k Kind) String() string {
	switch k {
	case DRAM:
		return "DRAM"
	case L1:
		return "L1"
	case L1Small:
		return "L1_SMALL"
	case Trace:
		return "TRACE"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func (k Kind) valid() bool { return k == DRAM || k == L1 || k == L1Small || k == Trace }

// Value is the use of one kind of memory, in bytes over all banks.
type Value struct {
	// Capacity is the limit. DRAM and Trace share it where traces have no region of their own.
	Capacity  uint64
	Allocated uint64
	Peak      uint64 // the most that was ever allocated at once
	Extents   uint64 // number of live buffers, or traces
}

// Device describes a log's device. Long text is cut.
type Device struct {
	Name     string // as it was opened: a device node, "emulated blackhole 0"
	PCI      string // PCI address, "0000:01:00.0"
	Serial   string // the board's serial number, "" if it isn't known
	Arch     string // "blackhole"
	NUMANode int    // memory node of the device; negative if it isn't known
	Emulated bool   // private to the process: the same name in another process is another device
}

// Entry is the contents of a log.
type Entry struct {
	PID       int       // in the process's own namespace
	Start     uint64    // start time of the process in ticks since boot; 0 is unknown
	Namespace uint64    // inode of the namespace of PID; 0 is unknown
	Opened    time.Time // when the device was opened
	Command   string    // name of the program
	Device    Device
	Memory    []Record // of each kind that the device has, by Kind

	Path string // of the log
	UID  int    // owner of the file, from the system and not from the log
	// Foreign says that PID belongs to another PID namespace.
	Foreign bool
}

// Record is one kind's memory.
type Record struct {
	Kind Kind
	Value
	Updates uint64 // how often it changed
	// Torn says that the writer was inside an update during the whole read: the numbers may be of
	// different updates.
	Torn bool
}

// Decode decodes the untrusted bytes of a log. The error wraps [ErrFormat].
func Decode(b []byte) (*Entry, error) {
	le := binary.LittleEndian
	switch {
	case len(b) != Size:
		return nil, fmt.Errorf("usage: decode: %w: it has %d B, a log has %d", ErrFormat, len(b), Size)
	case le.Uint64(b[atMagic:]) != magic:
		return nil, fmt.Errorf("usage: decode: %w: it starts with % x", ErrFormat, b[:8])
	case le.Uint32(b[atVersion:]) != Version || le.Uint32(b[atSize:]) != Size:
		return nil, fmt.Errorf("usage: decode: %w: version %d of %d B, this program reads version %d of %d B",
			ErrFormat, le.Uint32(b[atVersion:]), le.Uint32(b[atSize:]), Version, Size)
	}
	pid := le.Uint32(b[atPID:])
	if pid == 0 || pid > 1<<30 {
		return nil, fmt.Errorf("usage: decode: %w: process %d", ErrFormat, pid)
	}
	e := &Entry{
		PID: int(pid), Start: le.Uint64(b[atStart:]), Namespace: le.Uint64(b[atNamespace:]),
		Opened:  time.Unix(0, int64(le.Uint64(b[atOpened:]))),
		Command: text(b[atCommand:atName]),
		Device: Device{
			Name: text(b[atName:atPCI]), PCI: text(b[atPCI:atSerial]), Serial: text(b[atSerial:atArch]), Arch: text(b[atArch : atArch+32]),
			NUMANode: int(int32(le.Uint32(b[atNUMA:]))), Emulated: le.Uint32(b[atFlags:])&flagEmulated != 0,
		},
	}
	for _, k := range Kinds() {
		r := b[atRecords+int(k)*recordSize:][:recordSize]
		seq := le.Uint64(r[atSequence:])
		if seq == 0 {
			continue // never set: the device doesn't have it
		}
		e.Memory = append(e.Memory, Record{
			Kind: k, Updates: seq / 2, Torn: seq&1 != 0,
			Value: Value{Capacity: le.Uint64(r[atCapacity:]), Allocated: le.Uint64(r[atAllocated:]),
				Peak: le.Uint64(r[atPeak:]), Extents: le.Uint64(r[atExtents:])},
		})
	}
	return e, nil
}

// encode writes the header of a log without the magic number.
func (e *Entry) encode(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b[atVersion:], Version)
	le.PutUint32(b[atSize:], Size)
	le.PutUint32(b[atPID:], uint32(e.PID))
	if e.Device.Emulated {
		le.PutUint32(b[atFlags:], flagEmulated)
	}
	le.PutUint64(b[atStart:], e.Start)
	le.PutUint64(b[atNamespace:], e.Namespace)
	le.PutUint64(b[atOpened:], uint64(e.Opened.UnixNano()))
	le.PutUint32(b[atNUMA:], uint32(int32(e.Device.NUMANode)))
	copy(b[atCommand:atName], e.Command)
	copy(b[atName:atPCI], e.Device.Name)
	copy(b[atPCI:atSerial], e.Device.PCI)
	copy(b[atSerial:atArch], e.Device.Serial)
	copy(b[atArch:atArch+32], e.Device.Arch)
}

// text returns a field's text up to the first zero, made printable.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	for cut := 0; cut < utf8.UTFMax-1 && len(b) > 0; cut++ { // a character that was cut in half
		if r, n := utf8.DecodeLastRune(b); r != utf8.RuneError || n != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(b))
}
