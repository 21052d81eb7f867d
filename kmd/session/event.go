package session

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// Kind is a kind of event.
type Kind uint8

// A blob is bytes that later events refer to.
const (
	kindBlob Kind = iota + 1
	KindOpen
	KindClose
	KindIoctl
	KindMmap
	KindUnmap
	KindLoad
	KindStore
	KindRead
	KindWrite
	KindFault
	KindDevice
	kindEnd
)

var kindNames = [...]string{kindBlob: "blob", KindOpen: "open", KindClose: "close", KindIoctl: "ioctl", KindMmap: "mmap",
	KindUnmap: "munmap",
	KindLoad:  "load", KindStore: "store", KindRead: "read", KindWrite: "write", KindFault: "fault", KindDevice: "device", kindEnd: "end"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Event is one interaction of host and driver.
type Event struct {
	Kind Kind `json:"kind"`
	// At is the event's end in nanoseconds since the start. Task is 0, or 1 during
	// Recorder.Concurrent.
	At   uint64 `json:"at_ns"`
	Task uint64 `json:"task,omitempty"`
	// Files and mappings are numbered from 0 in the order of opening.
	File uint64 `json:"file"`
	Map  uint64 `json:"map,omitempty"`
	// Off is the offset of an access or a mapping, Size its bytes, Value the loaded or stored value
	// or open's flags; for Fault and Device the host's polls since its last change, 0 if it is
	// idle; for a mapping and its end 1 for a buffer of the driver.
	Off   uint64 `json:"offset,omitempty"`
	Size  uint64 `json:"size,omitempty"`
	Value uint64 `json:"value,omitempty"`
	// Request is an ioctl, In its argument before and Data after it, with pin numbers for
	// addresses. Data is also the bytes of a Read or Write.
	Request uint32 `json:"request,omitempty"`
	In      []byte `json:"in,omitempty"`
	Data    []byte `json:"data,omitempty"`
	// Errno is the driver's answer, 0 for success; Text is an error without an errno, or a fault.
	Errno uint64 `json:"errno,omitempty"`
	Text  string `json:"text,omitempty"`
	// Host is the host's writes to pinned memory before the event, Device the device's by its end.
	Host   []Delta `json:"host,omitempty"`
	Device []Delta `json:"device,omitempty"`
}

// Delta is a changed piece of pinned memory.
type Delta struct {
	Pin  uint64 `json:"pin"` // number of the pin or the driver's buffer, from 0 in their order; the first of overlapping ones
	Off  uint64 `json:"offset"`
	Data []byte `json:"data"`
}

// isQuery reports from the host's arguments whether an event may change nothing, and so may come
// more or less often. A host maps a register to check for a card, so mapping device memory is one.
func (e *Event) isQuery() bool {
	switch {
	case e.Kind == KindMmap || e.Kind == KindUnmap:
		return e.Value == 0
	case e.Kind != KindIoctl:
		return e.isLoad()
	}
	switch e.Request {
	case kabi.IoctlGetDeviceInfo, kabi.IoctlGetDriverInfo, kabi.IoctlQueryMappings, kabi.IoctlConfigureTLB, kabi.IoctlNOCRead:
		return true
	case kabi.IoctlSMCMessage:
		return decode[kabi.SMCMessage](e.In).Flags == kabi.SMCPoll
	case kabi.IoctlLockCtl:
		return decode[kabi.LockCtlIn](e.In).Flags != kabi.LockRelease
	}
	return false
}

// decode returns a part of a request's argument; missing bytes are zero.
func decode[T kabi.Part](arg []byte) (part T) {
	part, _, _ = kabi.Decode[T](arg)
	return part
}

func output[In, Out kabi.Part](arg []byte) Out {
	return decode[Out](arg[min(kabi.Size[In](), len(arg)):])
}

func (e *Event) isChange() bool {
	if e.Kind == KindDevice || e.Kind == KindFault {
		return false
	}
	if e.Kind != KindIoctl || e.Request != kabi.IoctlLockCtl {
		return !e.isQuery()
	}
	in, out := decode[kabi.LockCtlIn](e.In), output[kabi.LockCtlIn, kabi.LockCtlOut](e.Data)
	return in.Flags == kabi.LockRelease || in.Flags != kabi.LockTest && out.Value != 0
}

func (e *Event) task() uint64 { return min(e.Task, 1) }

func (e *Event) isLoad() bool { return e.Kind == KindLoad || e.Kind == KindRead }

func (e *Event) isRelease() bool {
	return e.Kind == KindUnmap || e.Kind == KindIoctl && (e.Request == kabi.IoctlUnpinPages || e.Request == kabi.IoctlFreeTLB)
}

func (e *Event) carriesWrites() bool { return e.isChange() && e.Kind != KindOpen && !e.isQuery() }

// String describes the event in one line.
func (e *Event) String() string {
	var b strings.Builder
	if e.Kind == KindDevice {
		return "the device wrote " + deltas(e.Device)
	}
	fmt.Fprintf(&b, "file %d: %v", e.File, e.Kind)
	switch e.Kind {
	case KindOpen:
		fmt.Fprintf(&b, " flags %#x", e.Value)
	case KindIoctl:
		fmt.Fprintf(&b, " %s(%s)", kabi.RequestName(e.Request), short(e.In))
	case KindMmap:
		fmt.Fprintf(&b, " %#x B at %#x as mapping %d", e.Size, e.Off, e.Map)
	case KindUnmap:
		fmt.Fprintf(&b, " mapping %d", e.Map)
	case KindLoad, KindStore:
		fmt.Fprintf(&b, " %d bits at %#x of mapping %d: %#x", 8*e.Size, e.Off, e.Map, e.Value)
	case KindRead, KindWrite:
		fmt.Fprintf(&b, " %d B at %#x of mapping %d: %s", e.Size, e.Off, e.Map, short(e.Data))
	}
	if e.Errno != 0 {
		fmt.Fprintf(&b, " = %v", syscall.Errno(e.Errno))
	} else if e.Kind == KindIoctl && e.Text == "" {
		fmt.Fprintf(&b, " = %s", short(e.Data))
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	if len(e.Host) > 0 {
		fmt.Fprintf(&b, "; host wrote %s", deltas(e.Host))
	}
	if len(e.Device) > 0 {
		fmt.Fprintf(&b, "; device wrote %s", deltas(e.Device))
	}
	return b.String()
}

func deltas(ds []Delta) string {
	const shown = 3
	var b strings.Builder
	for i, d := range ds {
		if i == shown {
			fmt.Fprintf(&b, " and %d pieces more", len(ds)-shown)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d B at %#x of pin %d (%s)", len(d.Data), d.Off, d.Pin, short(d.Data))
	}
	return b.String()
}

func short(p []byte) string {
	const shown = 24
	if len(p) > shown {
		return fmt.Sprintf("%x... %d B", p[:shown], len(p))
	}
	return fmt.Sprintf("%x", p)
}

// Print writes the recording as text, one line for each event.
func (s *Session) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s: %d events\n", s.Target, len(s.Events))
	for i := range s.Events {
		fmt.Fprintf(out, "%6d  %v\n", i, &s.Events[i])
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("session: print: %w", err)
	}
	return nil
}
