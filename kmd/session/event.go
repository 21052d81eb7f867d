package session

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
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
	Kind Kind   `json:"kind"`
	At   uint64 `json:"at_ns"` // the event's end in nanoseconds since the start
	// Files and mappings are numbered from 0 in the order of opening.
	File uint64 `json:"file"`
	Map  uint64 `json:"map,omitempty"`
	// Off is the offset of an access or a mapping, Size its bytes, Value the loaded or stored value
	// or open's flags; for Fault and Device the host's polls since its last change, 0 if it is
	// idle.
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
	Pin  uint64 `json:"pin"` // number of the pin, from 0 in their order; the first of overlapping ones
	Off  uint64 `json:"offset"`
	Data []byte `json:"data"`
}

// isQuery reports from the host's arguments whether an event may change nothing, and so may come
// more or less often. A host maps a register to check for a card, so mapping device memory is one.
func (e *Event) isQuery() bool {
	if e.Kind != KindIoctl {
		return e.isLoad() || e.Kind == KindMmap || e.Kind == KindUnmap
	}
	switch e.Request {
	case kabi.IoctlGetDeviceInfo, kabi.IoctlGetDriverInfo, kabi.IoctlQueryMappings, kabi.IoctlConfigureTLB, kabi.IoctlNOCRead:
		return true
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

func (e *Event) isLoad() bool { return e.Kind == KindLoad || e.Kind == KindRead }

func (e *Event) isRelease() bool {
	return e.Kind == KindIoctl && (e.Request == kabi.IoctlUnpinPages || e.Request == kabi.IoctlFreeTLB)
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

// Difference is a change that two recordings don't have in common.
type Difference struct {
	Event string      `json:"event"` // as the first recording that has it
	A     int         `json:"a"`     // index of the event, -1 if the recording lacks it
	B     int         `json:"b"`
	Bytes []ByteRange `json:"bytes,omitempty"`
}

// ByteRange is adjacent bytes that differ.
type ByteRange struct {
	In     string `json:"in"` // "argument", "data", "value" or "pin N"
	Offset uint64 `json:"offset"`
	A      string `json:"bytes_a"` // in hex; shorter where a recording has fewer
	B      string `json:"bytes_b"`
}

// Diff compares what the hosts of two recordings changed: stores, writes, requests and memory for
// the device. Changes of one register or request are compared in their order; polls don't count.
func Diff(a, b *Session) []Difference {
	var out []Difference
	changesA, keys := a.changes(nil)
	changesB, keys := b.changes(keys)
	for _, k := range keys {
		x, y := changesA[k], changesB[k]
		for i := range max(len(x), len(y)) {
			switch {
			case i >= len(y):
				out = append(out, Difference{a.Events[x[i]].String(), x[i], -1, nil})
			case i >= len(x):
				out = append(out, Difference{b.Events[y[i]].String(), -1, y[i], nil})
			default:
				e, f := &a.Events[x[i]], &b.Events[y[i]]
				bytes := e.differing(f)
				if len(bytes) > 0 || e.Errno != f.Errno || e.Text != f.Text {
					out = append(out, Difference{e.String(), x[i], y[i], bytes})
				}
			}
		}
	}
	return out
}

// changes returns the indices of changes by key, and appends new keys in their order.
func (s *Session) changes(keys []string) (map[string][]int, []string) {
	known, at, p := map[string]bool{}, map[string][]int{}, newPlaces()
	for _, k := range keys {
		known[k] = true
	}
	for i := range s.Events {
		e := &s.Events[i]
		if e.Kind == KindDevice || e.Kind == KindFault {
			continue
		}
		p.note(e)
		if !e.isChange() {
			continue
		}
		k := p.key(e)
		if !known[k] {
			known[k], keys = true, append(keys, k)
		}
		at[k] = append(at[k], i)
	}
	return at, keys
}

// differing compares two events of one key.
func (e *Event) differing(f *Event) []ByteRange {
	stored := func(e *Event) []byte {
		if e.Kind != KindStore {
			return nil
		}
		return binary.LittleEndian.AppendUint64(nil, e.Value)[:min(e.Size, 8)]
	}
	out := append(differing("argument", 0, e.In, f.In), differing("value", 0, stored(e), stored(f))...)
	if e.Kind == KindWrite {
		out = append(out, differing("data", 0, e.Data, f.Data)...)
	}
	for i := range max(len(e.Host), len(f.Host)) {
		var x, y Delta
		if i < len(e.Host) {
			x = e.Host[i]
		}
		if i < len(f.Host) {
			y = f.Host[i]
		}
		in := func(d Delta) string { return fmt.Sprintf("pin %d", d.Pin) }
		if len(x.Data) > 0 && len(y.Data) > 0 && x.Pin == y.Pin && x.Off == y.Off {
			out = append(out, differing(in(x), x.Off, x.Data, y.Data)...)
			continue
		}
		out = append(append(out, differing(in(x), x.Off, x.Data, nil)...), differing(in(y), y.Off, nil, y.Data)...)
	}
	return out
}

func differing(in string, offset uint64, a, b []byte) (out []ByteRange) {
	n := max(len(a), len(b))
	same := func(i int) bool { return i < min(len(a), len(b)) && a[i] == b[i] }
	for i := 0; i < n; i++ {
		if same(i) {
			continue
		}
		end := i
		for end < n && !same(end) {
			end++
		}
		part := func(p []byte) string { return hex.EncodeToString(p[min(i, len(p)):min(end, len(p))]) }
		out = append(out, ByteRange{in, offset + uint64(i), part(a), part(b)})
		i = end
	}
	return out
}

func (r ByteRange) String() string {
	at := fmt.Sprintf("byte %d of its %s", r.Offset, r.In)
	if strings.HasPrefix(r.In, "pin") {
		at = fmt.Sprintf("host memory at %#x of %s", r.Offset, r.In)
	}
	return fmt.Sprintf("%s (%s, %s)", at, digits(r.A), digits(r.B))
}

func digits(s string) string {
	const shown = 48
	switch {
	case s == "":
		return "nothing"
	case len(s) > shown:
		return fmt.Sprintf("%s... %d B", s[:shown], len(s)/2)
	}
	return s
}

// PrintDiff writes differences as text.
func PrintDiff(w io.Writer, all []Difference) error {
	const shown = 8 // pieces of one event
	out := bufio.NewWriter(w)
	for _, d := range all {
		switch {
		case d.B < 0:
			fmt.Fprintf(out, "- event %d: %s\n", d.A, d.Event)
		case d.A < 0:
			fmt.Fprintf(out, "+ event %d: %s\n", d.B, d.Event)
		default:
			fmt.Fprintf(out, "event %d, %d: %s\n", d.A, d.B, d.Event)
		}
		for i, r := range d.Bytes {
			if i == shown {
				fmt.Fprintf(out, "  and %d pieces more\n", len(d.Bytes)-shown)
				break
			}
			fmt.Fprintf(out, "  %v\n", r)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("session: print: %w", err)
	}
	return nil
}
