package cq

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const listShown = 4

// Line is one command as a line. Long lists are cut, data are only counted.
func Line(l Layout, c PrefetchCommand) string {
	var d DispatchCommand
	who, relayed := Master, false
	switch c := c.(type) {
	case RelayInline:
		who, d = c.To, c.Command
	case RelayInlineNoFlush:
		d, relayed = c.Command, true
	default:
		p := parser{v: own(), l: l}
		b := NewBuilder(l, nil)
		if b.Append(c); b.err != nil || p.prefetch(b.buf) != nil {
			return line("prefetch", c.ID().String(), nil, 0, false)
		}
		return line("prefetch", c.ID().String(), own().fields(l, p.items), p.items[0].inline(), false)
	}
	if d == nil {
		return fmt.Sprintf("%-10s  nothing", who)
	}
	var fields []Field
	data := 0
	switch d := d.(type) {
	case Opaque:
		data = len(d.Payload)
	case Sequence:
		fields = []Field{{Name: "count", Text: strconv.Itoa(len(d.Commands))}}
	default:
		if its := itemsOf(l, d); len(its) > 0 {
			fields, data = own().fields(l, its), its[0].inline()
		}
	}
	return line(who.String(), d.ID().String(), fields, data, relayed)
}

func itemsOf(l Layout, d DispatchCommand) []item {
	for _, header := range []bool{true, false} {
		b := NewBuilder(l, nil)
		at := b.encode(d, header)
		if b.err != nil {
			continue
		}
		p := parser{v: own(), l: l}
		n := at + int(le.Uint32(b.buf[4:]))
		if _, err := p.dispatch(b.buf[at:n], 0, place{header: header, whole: true}); err == nil {
			return p.items
		}
	}
	return nil
}

func line(who, name string, fields []Field, data int, relayed bool) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-10s  %s", who, name)
	cut := false
	for _, f := range fields {
		if i := strings.IndexByte(f.Name, '['); i >= 0 {
			if n, err := strconv.Atoi(strings.TrimSuffix(f.Name[i+1:], "]")); err == nil && n >= listShown {
				cut = true
				continue
			}
		}
		v := f.Text
		if strings.ContainsRune(v, ' ') {
			v = strconv.Quote(v)
		}
		fmt.Fprintf(&s, " %s=%s", f.Name, v)
	}
	if cut {
		s.WriteString(" ...")
	}
	if relayed {
		s.WriteString(" data=relayed")
	} else if data > 0 {
		fmt.Fprintf(&s, " data=%d", data)
	}
	return s.String()
}

// Print writes a stream, one line for each command. It returns the errors of w, and all errors of
// the stream joined.
func Print(w io.Writer, l Layout, stream []byte) error {
	out := bufio.NewWriter(w)
	var errs []error
	end := 0
	for e, err := range All(l, stream) {
		end = e.Offset + len(e.Raw)
		line := "?"
		if e.Command != nil {
			line = Line(l, e.Command)
		}
		fmt.Fprintf(out, "%08x %6d  %s\n", e.Offset, len(e.Raw), line)
		showSequence(out, l, e)
		if err != nil {
			fmt.Fprintf(out, "                 ! %v\n", err)
			errs = append(errs, err)
		}
	}
	if rest := len(stream) - end; rest > 0 {
		fmt.Fprintf(out, "%08x %6d  after the end\n", end, rest)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("cq: print: %w", err)
	}
	return errors.Join(errs...)
}

func showSequence(out io.Writer, l Layout, e Entry) {
	if c, _, ok := e.Dispatch(); !ok || c == nil || c.ID() != DispatchSequence {
		return
	}
	for its := range e.sequence {
		it := &its[0]
		fmt.Fprintf(out, "%08x %6d    %s\n", e.Offset+it.at, len(it.raw),
			line(it.to.String(), it.form.name, own().fields(l, its), it.inline(), it.header))
	}
}
