package cq

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// listShown is how many entries of a list Line shows.
const listShown = 4

// Line is one command as a line: the processor that executes it, its name, its fields. Long
// lists are cut, data are counted only.
func Line(l Layout, c PrefetchCommand) string {
	who, note := "prefetch", ""
	var shown Command = c
	data := 0
	switch c := c.(type) {
	case RelayInline:
		who, shown = c.To.String(), c.Command
		data = dataSize(c.Command)
	case RelayInlineNoFlush:
		who, shown, note = Master.String(), c.Command, " data=relayed"
	case DebugPrefetch:
		data = len(c.Data)
	}
	if shown == nil {
		return fmt.Sprintf("%-10s  nothing", who)
	}
	fields := shown.Fields(l)
	if _, ok := shown.(Sequence); ok {
		fields = fields[:1] // its commands have lines of their own
	}
	return line(who, shown.Name(), fields, data, note)
}

func line(who, name string, fields []Field, data int, note string) string {
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
	if data > 0 {
		fmt.Fprintf(&s, " data=%d", data)
	}
	s.WriteString(note)
	return s.String()
}

func dataSize(c DispatchCommand) int {
	switch c := c.(type) {
	case WriteLinear:
		return len(c.Data)
	case WriteHost:
		return len(c.Data)
	case WritePaged:
		return len(c.Data)
	case WritePacked:
		return len(c.Data)
	case WritePackedLarge:
		return len(c.Data)
	case DebugDispatch:
		return len(c.Data)
	case Opaque:
		return len(c.Payload)
	}
	return 0
}

// Print writes a stream, one line for each command: its offset, its size in
// bytes, the processor that executes it, its name and its fields. Commands that cannot be read
// get a line that says why. It returns the errors of w, and all errors of the
// stream joined.
func Print(w io.Writer, l Layout, stream []byte) error { return show(w, l, stream, false) }

// Dump writes a stream as Print does, and under each command its fields with
// offsets in the stream, and data as hexadecimal rows of 16 bytes.
func Dump(w io.Writer, l Layout, stream []byte) error { return show(w, l, stream, true) }

func show(w io.Writer, l Layout, stream []byte, all bool) error {
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
		if all {
			dumpEntry(out, l, e)
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

// showSequence writes a line for each command of a sequence.
func showSequence(out io.Writer, l Layout, e Entry) {
	if c, _, ok := e.Dispatch(); !ok || c == nil || c.ID() != DispatchSequence {
		return
	}
	for r := range e.Relayed {
		one := PrefetchCommand(RelayInline{r.To, r.Command})
		if r.Header {
			one = RelayInlineNoFlush{r.Command}
		}
		fmt.Fprintf(out, "%08x %6d    %s\n", r.At, size(r.Command, r.Header), Line(l, one))
	}
}

func dumpEntry(out io.Writer, l Layout, e Entry) {
	if e.Command == nil {
		dumpRows(out, e.Offset, e.Raw)
		return
	}
	fmt.Fprintf(out, "    %08x u8  %-16s %-12s %s\n", e.Offset, "id", fmt.Sprintf("0x%x", e.Raw[0]), e.Command.Name())
	dumpFields(out, e.Offset, e.Command.Fields(l))
	if dbg, ok := e.Command.(DebugPrefetch); ok {
		dumpRows(out, e.Offset+HeaderSize, dbg.Data)
	}
	inner, _, ok := e.Dispatch()
	if !ok || inner == nil {
		return
	}
	at := e.Offset + AtRelayed
	fmt.Fprintf(out, "    %08x u8  %-16s %-12s %s\n", at, "id", fmt.Sprintf("0x%x", uint8(inner.ID())), inner.Name())
	dumpFields(out, at, inner.Fields(l))
	if n := dataSize(inner); n > 0 {
		// data are the last bytes of the payload
		end := AtRelayed + size(inner, false)
		dumpRows(out, e.Offset+end-n, e.Raw[end-n:end])
	}
}

func dumpFields(out io.Writer, at int, fields []Field) {
	for _, f := range fields {
		fmt.Fprintf(out, "    %08x u%-2d %-16s %-12s %s\n", at+f.Offset, 8*f.Size, f.Name, fmt.Sprintf("0x%x", f.Value), f.Text)
	}
}

func dumpRows(out io.Writer, at int, b []byte) {
	for len(b) > 0 {
		n := min(16, len(b))
		fmt.Fprintf(out, "    %08x     % x\n", at, b[:n])
		at, b = at+n, b[n:]
	}
}
