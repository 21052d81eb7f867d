package tracebuf

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Difference is the first difference of a program in two traces.
type Difference struct {
	Device  int    `json:"device,omitempty"`
	Callee  string `json:"callee,omitempty"`
	Queue   int    `json:"queue"` // in the first trace
	Step    int    `json:"step"`  // from 0, with edges
	Name    string `json:"name"`
	Command int    `json:"command"` // the first that differs; -1 if all are equal
	What    string `json:"what"`    // "field count: 8 and 16", "missing in the second trace", ...
	// Offsets and lines of the command; -1 and "" for a trace without it.
	OffsetA int    `json:"offset_a"`
	OffsetB int    `json:"offset_b"`
	A       string `json:"a,omitempty"`
	B       string `json:"b,omitempty"`
}

// Diff compares two traces program by program, and returns the first different command of each.
// Words that relocation changes ([Contents.Relocated]) don't count.
func Diff(a, b *Contents) []Difference {
	var out []Difference
	ma, mb := a.masked(), b.masked()
	for i := range max(len(a.Steps), len(b.Steps)) {
		d := Difference{Device: a.Device, Queue: a.Queue, Step: i, Command: -1, OffsetA: -1, OffsetB: -1}
		switch {
		case i >= len(a.Steps):
			d.Name, d.OffsetB, d.What = b.Steps[i].Name, b.Steps[i].Offset, "missing in the first trace"
		case i >= len(b.Steps):
			d.Name, d.OffsetA, d.What = a.Steps[i].Name, a.Steps[i].Offset, "missing in the second trace"
		default:
			d.Name = a.Steps[i].Name
			if !d.compare(a, b, ma, mb, &a.Steps[i], &b.Steps[i]) {
				continue
			}
		}
		out = append(out, d)
	}
	for i := range max(len(a.Callees), len(b.Callees)) {
		ca, cb := &Contents{Layout: a.Layout}, &Contents{Layout: b.Layout}
		if i < len(a.Callees) {
			ca = a.Callees[i]
		}
		if i < len(b.Callees) {
			cb = b.Callees[i]
		}
		for _, d := range Diff(ca, cb) {
			d.Device, d.Queue, d.Callee = a.Device, a.Queue, cmp.Or(ca.Name, cb.Name)
			out = append(out, d)
		}
	}
	return out
}

func (c *Contents) masked() []byte {
	if len(c.Relocated) == 0 {
		return c.Bytes
	}
	m := bytes.Clone(c.Bytes)
	for _, s := range c.Relocated {
		clear(m[s.Start:s.End])
	}
	return m
}

func (d *Difference) compare(a, b *Contents, ma, mb []byte, sa, sb *StepContents) bool {
	for i := range max(sa.Count, sb.Count) {
		if i >= sa.Count || i >= sb.Count {
			d.Command = i
			if i < sa.Count {
				d.What = "the program ends before it in the second trace"
				d.show(&a.Commands[sa.First+i], nil)
			} else {
				d.What = "the program ends before it in the first trace"
				d.show(nil, &b.Commands[sb.First+i])
			}
			return true
		}
		ra, rb := &a.Commands[sa.First+i], &b.Commands[sb.First+i]
		if what := firstDifference(ra, rb, ma[ra.Offset:ra.Offset+ra.Size], mb[rb.Offset:rb.Offset+rb.Size]); what != "" {
			d.Command, d.What = i, what
			d.show(ra, rb)
			return true
		}
	}
	switch {
	case sa.Name != sb.Name:
		d.What = fmt.Sprintf("names: %s and %s", Printable(sa.Name), Printable(sb.Name))
	case sa.Binary != nil && sb.Binary != nil && !bytes.Equal(sa.Binary, sb.Binary):
		d.What = fmt.Sprintf("kernels: %d and %d B, which differ from byte %d on", len(sa.Binary), len(sb.Binary),
			differsAt(sa.Binary, sb.Binary))
	default:
		return false
	}
	d.OffsetA, d.OffsetB = sa.Offset, sb.Offset
	return true
}

func (d *Difference) show(a, b *cq.Reading) {
	if a != nil {
		d.OffsetA, d.A = a.Offset, a.String()
	}
	if b != nil {
		d.OffsetB, d.B = b.Offset, b.String()
	}
}

// firstDifference returns "" for equal commands. ma and mb are their bytes.
func firstDifference(a, b *cq.Reading, ma, mb []byte) string {
	if bytes.Equal(ma, mb) && a.Name == b.Name {
		return ""
	}
	if a.Name != b.Name || a.Who != b.Who {
		return fmt.Sprintf("commands: %s and %s", a.Name, b.Name)
	}
	for i := range min(len(a.Fields), len(b.Fields)) {
		fa, fb := &a.Fields[i], &b.Fields[i]
		start := a.At - a.Offset + fa.Offset
		if !bytes.Equal(ma[start:start+fa.Size], mb[start:start+fa.Size]) {
			return fmt.Sprintf("field %s: %s and %s", fa.Name, fa.Text, fb.Text)
		}
	}
	if len(a.Fields) != len(b.Fields) || a.Size != b.Size {
		return fmt.Sprintf("sizes: %d and %d B", a.Size, b.Size)
	}
	at := differsAt(ma, mb)
	return fmt.Sprintf("data, from byte %d of the command on: 0x%02x and 0x%02x", at, ma[at], mb[at])
}

func differsAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
