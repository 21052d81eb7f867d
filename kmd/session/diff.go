package session

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

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
