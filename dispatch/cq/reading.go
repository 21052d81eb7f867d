package cq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Reading is one command of a stream as a revision reads it. A relay with its dispatcher command is
// one reading.
type Reading struct {
	Offset int     `json:"offset"` // of the prefetcher's command; inside a Sequence, At but for the first
	Size   int     `json:"bytes"`
	Who    string  `json:"who"` // "prefetch", "dispatch" or "dispatch_s"
	Name   string  `json:"name"`
	Relay  string  `json:"relay,omitempty"` // the command around it: "RELAY_INLINE", nameNoFlush or "FORWARD_SUBORDINATE"
	Data   int     `json:"data_bytes"`
	Fields []Field `json:"fields"`
	At     int     `json:"-"` // of the command itself
}

func (r *Reading) String() string {
	return line(r.Who, r.Name, r.Fields, r.Data, r.Relay == nameNoFlush)
}

// Value returns a field by name.
func (r *Reading) Value(name string) (v uint64, ok bool) {
	for i := range r.Fields {
		if r.Fields[i].Name == name {
			return r.Fields[i].Value, true
		}
	}
	return 0, false
}

// Read reads a stream to its end, or to an EXEC_BUF_END, which zeros may follow. It is strict, so
// that a stream of another revision is refused rather than misread: unused bytes are zero, lengths
// and strides agree, and relays bring the data of the command before them.
func (v *Revision) Read(l Layout, stream []byte) ([]Reading, error) {
	if !l.Valid() {
		return nil, limit("decoder", "layout", uint8(l), "Wormhole or Blackhole", "pass the device's")
	}
	if len(stream) == 0 {
		return nil, bad(ErrTruncated, 0, "", "there are no bytes")
	}
	var out []Reading
	var missing uint64 // of header, which the next command must bring
	header := ""
	p := parser{v: v, l: l}
	for at := 0; at < len(stream); at += p.n {
		err := p.prefetch(stream[at:])
		if err == nil {
			err = p.strict()
		}
		if err != nil {
			return out, shift(err, at)
		}
		first, last := &p.items[0], &p.items[len(p.items)-1]
		brings, relay := first.relayed()
		switch name := last.form.name; {
		case header != "" && !relay:
			return out, bad(ErrOrder, at, name, "the data of the %s before it are missing", header)
		case header == "" && relay:
			return out, bad(ErrOrder, at, name, "there is no command before it that needs its data")
		case header != "" && (brings < missing || brings-missing >= 4096):
			return out, bad(ErrOrder, at, name, "it brings %d bytes for a %s of %d", brings, header, missing)
		}
		out = p.appendReadings(out, at)
		header = ""
		if last.header {
			header, missing = last.form.name, last.data-uint64(last.inline())
		}
		if first.form.name == nameEnd {
			return out, zeros(stream, at+p.n, first.form.name)
		}
	}
	if header != "" {
		return out, bad(ErrOrder, len(stream), header, "its data never come")
	}
	return out, nil
}

func (p *parser) appendReadings(out []Reading, at int) []Reading {
	begin := len(out)
	for i := range p.items {
		it := &p.items[i]
		switch {
		case it.form.data == dataRelay && it.form.name != nameEnd, it.form.data == dataCommands,
			it.form.data == dataForward, it.in != nil && it.in.name == nameEnd:
			continue
		}
		r := Reading{Offset: at, Who: "prefetch", Name: it.form.name, At: at + it.at, Data: it.inline()}
		r.Fields = p.v.fields(p.l, p.items[i:])
		if it.in != nil {
			r.Who, r.Relay = it.to.String(), it.in.name
			if it.in.data == dataCommands {
				r.Relay = nameRelay
				if it.header {
					r.Relay = p.items[0].form.name
				}
			}
		}
		if len(out) > begin { // in a sequence
			r.Offset = r.At
			if it.in.data == dataForward {
				r.Offset -= AtForwarded
			}
			out[len(out)-1].Size = r.Offset - out[len(out)-1].Offset
		}
		r.Size = at + p.n - r.Offset
		out = append(out, r)
	}
	return out
}

func (p *parser) strict() error {
	for i := range p.items {
		it := &p.items[i]
		if err := p.v.strict(it); err != nil {
			return shift(err, it.at)
		}
	}
	return nil
}

func (v *Revision) strict(it *item) error {
	f := it.form
	if n, relays := it.relayed(); relays && n == 0 {
		return bad(ErrFormat, 0, f.name, "it relays nothing")
	}
	for _, s := range f.fields {
		x := s.get(it.raw)
		if s.as == asLarge && x > uint64(LargeBinaries) || s.as == asCompare && !Compare(x).Valid() ||
			s.as == asGo && !GoWord(x).Signal().sent() {
			return bad(ErrFormat, s.at, f.name, "%s is %#x", s.name, x)
		}
	}
	if it.in == nil {
		return nil
	}
	switch {
	case f.name == nameEnd && it.in.name != nameEnd:
		return bad(ErrFormat, 0, it.in.name, "it carries %s", f.name)
	case it.to == Subordinate && !f.sub:
		return bad(ErrFormat, 0, f.name, "dispatch_s has no such command")
	case it.header && f.data == dataSlots && it.inline() > 0:
		return bad(ErrFormat, it.head, f.name, "it has data in a NOFLUSH")
	case f.data == dataBlocks:
		s := find(it.list.fields, "length")
		for i := range it.count { // tt-metal writes arguments, semaphores and kernels by the word
			if n := s.get(it.entry(i)); n == 0 || n%4 != 0 {
				return bad(ErrFormat, AtLargeSub(i)+8, f.name, "length of entry %d is %d, want a multiple of 4", i, n)
			}
		}
	}
	return v.waits(it)
}

// waits demands zeros for fields without their flag, and existing streams: these tell revisions
// apart.
func (v *Revision) waits(it *item) error {
	name, w := it.form.name, v.wait
	stream, streams := "stream", true
	switch name {
	case "WAIT":
		flags := it.value("flags")
		streams = flags&(w.stream|w.clearStream) != 0
		memory := flags&(w.memory|w.clearMemory) != 0
		switch {
		case flags>>len(v.waitNames) != 0:
			return bad(ErrFormat, 1, name, "flags are %#x, there are %d", flags, len(v.waitNames))
		case flags&w.clearStream != 0 && flags&w.stream == 0, flags&w.clearMemory != 0 && flags&w.memory == 0:
			return bad(ErrFormat, 1, name, "flags are %#x: it clears what it doesn't wait for", flags)
		case !streams && it.value("stream") != 0:
			return bad(ErrFormat, 2, name, "stream is %d without a flag that uses it", it.value("stream"))
		case !memory && it.value("addr") != 0:
			return bad(ErrFormat, 4, name, "address is %#x without a flag that uses it", it.value("addr"))
		case !memory && !streams && it.value("count") != 0:
			return bad(ErrFormat, 8, name, "count is %d without a flag that uses it", it.value("count"))
		}
	case nameGo, "RT_PROFILER_FLUSH":
		stream = "wait_stream"
	default:
		return nil
	}
	if s := it.value(stream); streams && (s == 0 || s >= 64) {
		return bad(ErrFormat, 0, name, "stream is %d, want 1 to 63", s)
	}
	return nil
}

// ErrRevision: no revision reads the stream, or more than one does.
var ErrRevision = errors.New("the protocol revision can't be told")

// RevisionError says why each revision refuses a stream.
type RevisionError struct {
	Accepted []string // none, or more than one
	Refused  []RefusedRevision
}

// RefusedRevision is a revision that doesn't read a stream.
type RefusedRevision struct {
	Name string
	Err  error
}

func (e *RevisionError) Error() string {
	var s []string
	for _, r := range e.Refused {
		s = append(s, fmt.Sprintf("not %s (%s)", r.Name, strings.TrimPrefix(r.Err.Error(), "cq: ")))
	}
	if len(e.Accepted) == 0 {
		return fmt.Sprintf("cq: %v: no revision reads it: %s", ErrRevision, strings.Join(s, "; "))
	}
	also := ""
	if len(s) > 0 {
		also = "; " + strings.Join(s, "; ")
	}
	return fmt.Sprintf("cq: %v: %s read it: name the one that wrote it%s", ErrRevision, strings.Join(e.Accepted, " and "), also)
}

func (e *RevisionError) Unwrap() error { return ErrRevision }

// Detect finds the revision that reads a stream without an error, or returns a *RevisionError.
// Several that read it alike are no conflict: the pinned one is returned then, or the newest.
// Commands with lists, waits and go signals tell revisions apart.
func Detect(l Layout, stream []byte) (*Revision, []Reading, error) {
	var found *Revision
	var readings []Reading
	e := &RevisionError{}
	differ := false
	for _, v := range Revisions() {
		r, err := v.Read(l, stream)
		if err != nil {
			e.Refused = append(e.Refused, RefusedRevision{v.Name, err})
			continue
		}
		e.Accepted = append(e.Accepted, v.Name)
		differ = differ || found != nil && !slices.EqualFunc(readings, r, alike)
		if found != own() {
			found, readings = v, r
		}
	}
	if found == nil || differ {
		return nil, nil, e
	}
	return found, readings, nil
}

// alike reports whether readings differ at most in fields that are 0 where only one has them.
func alike(a, b Reading) bool {
	within := func(a, b *Reading) bool {
		for _, f := range a.Fields {
			if v, _ := b.Value(f.Name); v != f.Value {
				return false
			}
		}
		return true
	}
	return a.Name == b.Name && a.Size == b.Size && a.Relay == b.Relay && a.Data == b.Data && within(&a, &b) && within(&b, &a)
}
