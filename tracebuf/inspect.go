package tracebuf

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Contents is the decoded contents of a trace, or of a part of a trace over several queues.
type Contents struct {
	Device   int // in the order of the capture
	Queue    int // of the part; 0 if unknown
	Layout   cq.Layout
	Revision string // of the protocol
	PageSize int    // in DRAM; 0 if unknown
	Bytes    []byte // with the EXEC_BUF_END
	Commands []cq.Reading
	Steps    []StepContents
	Changes  []Change // of files
	// Relocated are the offsets in Bytes of the bytes that name memory: DRAM of kernels, callees,
	// and the words of conditions and arguments. They differ between two copies of a trace. Only
	// files have them.
	Relocated []ByteRange
	// Callees are the traces that a part of a file calls, by Control.Callee.
	Callees []*Contents
	Name    string
}

// StepContents is one run program, an edge or a step of control flow.
type StepContents struct {
	Step
	Depth        int // of files
	First, Count int // in Contents.Commands
	Binary       []byte
}

// Inspect reads a trace's image.
func Inspect(im *Image) (*Contents, error) {
	readings, err := cq.RevisionByName(cq.Pinned).Read(im.Layout, im.Bytes)
	if err != nil {
		return nil, fmt.Errorf("tracebuf: inspect: %w", err)
	}
	c := &Contents{Layout: im.Layout, Revision: cq.Pinned, PageSize: im.PageSize, Bytes: im.Bytes[:im.Size], Commands: readings,
		Changes: im.Changes}
	for _, r := range im.Relocs {
		c.relocated(r.At+cq.AtPagedSubStart, 2)
		c.relocated(r.At+cq.AtPagedSubBase, 4)
	}
	places, _ := im.Flow()
	next := 0
	for i, s := range im.Steps {
		sc := StepContents{Step: s, Depth: places[i].Depth, First: next}
		for next < len(readings) && readings[next].Offset < s.Offset+s.Size {
			next++
		}
		if sc.Count = next - sc.First; s.Program >= 0 && s.Program < len(im.Programs) {
			sc.Binary = im.Programs[s.Program].Binary
		}
		c.Steps = append(c.Steps, sc)
		if s.Control.Kind == flow.Call {
			c.relocated(s.Offset+cq.AtCallBase, 4)
		}
	}
	for _, w := range im.Conds {
		c.relocated(w.At+cq.AtBranchNOC, 8)
	}
	for i := range im.Callees {
		o, err := Inspect(&im.Callees[i].Image)
		if err != nil {
			return nil, err
		}
		o.Name = im.Callees[i].Name
		c.Callees = append(c.Callees, o)
	}
	return c, nil
}

func (c *Contents) changesOf(step int) (out []Change) {
	for _, ch := range c.Changes {
		if ch.Step == step {
			out = append(out, ch)
		}
	}
	return out
}

func (c *Contents) relocated(at, n int) { c.Relocated = append(c.Relocated, ByteRange{at, at + n}) }

// InspectAll reads all parts of a trace from the files of [DecodeAll].
func InspectAll(files []*File) ([]*Contents, error) {
	var out []*Contents
	for i, f := range files {
		if f == nil {
			continue
		}
		for _, p := range f.Parts() {
			c, err := Inspect(&p.Image)
			if err != nil {
				return nil, err
			}
			c.Device, c.Queue = i, p.Target.Queue
			out = append(out, c)
		}
	}
	return out, nil
}

// InspectRaw reads the bytes of a trace as they are in DRAM or in a file: commands, then zeros.
// revision is the name of the protocol's revision. With "" it is the only one in which the bytes
// are valid; otherwise the error is a *cq.RevisionError. A program ends with its go signal; its
// name is the host's id for it.
func InspectRaw(l cq.Layout, b []byte, revision string) (*Contents, error) {
	var readings []cq.Reading
	var err error
	if revision == "" {
		var v *cq.Revision
		if v, readings, err = cq.Detect(l, b); err == nil {
			revision = v.Name
		}
	} else if v := cq.RevisionByName(revision); v != nil {
		readings, err = v.Read(l, b)
	} else {
		err = fmt.Errorf("there is no revision %q", revision)
	}
	if err != nil {
		return nil, fmt.Errorf("tracebuf: inspect: %w", err)
	}
	last := &readings[len(readings)-1]
	c := &Contents{Layout: l, Revision: revision, Bytes: b[:last.Offset+last.Size], Commands: readings}
	c.split()
	return c, nil
}

// Commands between the last go signal and the EXEC_BUF_END are a step of their own.
func (c *Contents) split() {
	start, name := 0, ""
	add := func(end int) {
		if end == start {
			return
		}
		first, last := &c.Commands[start], &c.Commands[end-1]
		s := Step{Name: name, Program: NoProgram, Offset: first.Offset, Size: last.Offset + last.Size - first.Offset}
		c.Steps = append(c.Steps, StepContents{Step: s, First: start, Count: end - start})
		start, name = end, ""
	}
	for i := range c.Commands {
		r := &c.Commands[i]
		switch r.Name {
		case "SET_WRITE_OFFSET":
			if id, ok := r.Value("host_id"); ok && name == "" {
				name = "host id " + strconv.FormatUint(id, 10)
			}
		case "SEND_GO_SIGNAL":
			add(i + 1)
		case "EXEC_BUF_END":
			add(i)
			start = i + 1
		}
	}
	add(len(c.Commands))
}

// Raw returns the bytes of a command.
func (c *Contents) Raw(r *cq.Reading) []byte { return c.Bytes[r.Offset : r.Offset+r.Size] }

// Print writes the commands, a line each, under the names of their programs, and then those of
// callees. The insides of loops and branches are indented.
func (c *Contents) Print(w io.Writer) error {
	b := bufio.NewWriter(w)
	c.print(b)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("tracebuf: print: %w", err)
	}
	return nil
}

func (c *Contents) print(w io.Writer) {
	next, indent := 0, ""
	for i := range c.Commands {
		r := &c.Commands[i]
		if next < len(c.Steps) && c.Steps[next].First == i {
			s := &c.Steps[next]
			indent = strings.Repeat("  ", s.Depth)
			fmt.Fprintf(w, "%s%s\n", indent, s.title(next))
			for _, change := range c.changesOf(next) {
				fmt.Fprintf(w, "%s  %v\n", indent, change)
			}
			next++
		} else if next == len(c.Steps) && r.Name == "EXEC_BUF_END" {
			indent = ""
		}
		fmt.Fprintf(w, "%s%08x %6d  %s\n", indent, r.Offset, r.Size, r)
	}
	for i, o := range c.Callees {
		fmt.Fprintf(w, "\ncallee %d %s: %d B\n", i, Printable(o.Name), len(o.Bytes))
		o.print(w)
	}
}

// Printable returns a name for a terminal: quoted if it is empty or has characters that aren't
// plain text, as names in files may.
func Printable(name string) string {
	if plain := !slices.ContainsFunc([]rune(name), func(r rune) bool { return !strconv.IsPrint(r) || r == '"' }); plain && name != "" {
		return name
	}
	return strconv.QuoteToGraphic(name)
}

func (s *StepContents) title(number int) string {
	what := "program"
	switch {
	case s.Control.Kind == flow.Loop:
		return fmt.Sprintf("loop %d %s, at most %d iterations: %d B", number, Printable(s.Name), s.Control.Count, s.Size)
	case s.Control.Kind != flow.None:
		what = s.Control.Kind.String()
	case s.Edge.Kind != EdgeNone:
		what = "edge"
	}
	return fmt.Sprintf("%s %d %s: %d B", what, number, Printable(s.Name), s.Size)
}

// Stats breaks the bytes of a trace down by programs and by kinds of commands.
type Stats struct {
	Revision string `json:"revision"`
	Layout   string `json:"arch"`
	Bytes    int    `json:"bytes"` // of the commands
	Commands int    `json:"commands"`
	// Programs are in order of first use, Kinds in order of bytes. Kinds sum up to Bytes; Programs
	// to Bytes without the EXEC_BUF_END, edges and control flow.
	Programs  []ProgramStats `json:"programs"`
	Kinds     []KindStats    `json:"kinds"`
	Edges     int            `json:"edges"`
	EdgeBytes int            `json:"edge_bytes"`

	// Steps of control flow and their bytes, and callees, whose bytes and programs are in the
	// others.
	Control      int `json:"control,omitempty"`
	ControlBytes int `json:"control_bytes,omitempty"`
	Callees      int `json:"callees,omitempty"`
}

// ProgramStats is one program's share of a trace.
type ProgramStats struct {
	Name     string `json:"name"`
	Runs     int    `json:"runs"`
	Commands int    `json:"commands"` // of all runs
	Bytes    int    `json:"bytes"`    // of all runs
	Kernels  int    `json:"kernel_bytes"`
}

// KindStats is the share of one kind of command.
type KindStats struct {
	Name  string `json:"name"`
	Who   string `json:"who"` // that executes it
	Count int    `json:"count"`
	Bytes int    `json:"bytes"`      // with headers and padding
	Data  int    `json:"data_bytes"` // in them
}

// StatsOf returns the breakdown of all parts of a trace.
func StatsOf(parts ...*Contents) Stats {
	s := Stats{Programs: []ProgramStats{}, Kinds: []KindStats{}}
	all := slices.Clone(parts)
	for _, c := range parts {
		all = append(all, c.Callees...)
	}
	s.Callees = len(all) - len(parts)
	for i, c := range all {
		if i == 0 {
			s.Revision, s.Layout = c.Revision, c.Layout.String()
		}
		s.Bytes, s.Commands = s.Bytes+len(c.Bytes), s.Commands+len(c.Commands)
		s.programs(c)
		s.kinds(c)
	}
	slices.SortStableFunc(s.Kinds, func(a, b KindStats) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return s
}

func (s *Stats) programs(c *Contents) {
	type program struct {
		index int
		name  string
	}
	programs := map[program]int{}
	for i := range c.Steps {
		st := &c.Steps[i]
		if st.Edge.Kind != EdgeNone {
			s.Edges, s.EdgeBytes = s.Edges+1, s.EdgeBytes+st.Size
			continue
		}
		if st.Control.Kind != flow.None {
			s.Control, s.ControlBytes = s.Control+1, s.ControlBytes+st.Size
			continue
		}
		key := program{st.Program, st.Name}
		at, ok := programs[key]
		if !ok {
			at = len(s.Programs)
			programs[key] = at
			s.Programs = append(s.Programs, ProgramStats{Name: st.Name, Kernels: len(st.Binary)})
		}
		p := &s.Programs[at]
		p.Runs, p.Commands, p.Bytes = p.Runs+1, p.Commands+st.Count, p.Bytes+st.Size
	}
}

func (s *Stats) kinds(c *Contents) {
	for i := range c.Commands {
		r := &c.Commands[i]
		at := slices.IndexFunc(s.Kinds, func(k KindStats) bool { return k.Name == r.Name && k.Who == r.Who })
		if at < 0 {
			at = len(s.Kinds)
			s.Kinds = append(s.Kinds, KindStats{Name: r.Name, Who: r.Who})
		}
		k := &s.Kinds[at]
		k.Count, k.Bytes, k.Data = k.Count+1, k.Bytes+r.Size, k.Data+r.Data
	}
}

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
	// Changes are those that the second trace has of the program.
	Changes []Change `json:"changes,omitempty"`
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
			d.Changes = b.changesOf(i)
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

// firstDifference returns "" for equal commands. ma and mb are their bytes, of which padding and
// relays' headers don't count.
func firstDifference(a, b *cq.Reading, ma, mb []byte) string {
	ma, mb = ma[a.At-a.Offset:], mb[b.At-b.Offset:]
	if a.Name != b.Name || a.Who != b.Who {
		return fmt.Sprintf("commands: %s and %s", a.Name, b.Name)
	}
	at := differsAt(ma, mb)
	if at == len(ma) && allZero(mb[at:]) || at == len(mb) && allZero(ma[at:]) {
		return ""
	}
	for i := range min(len(a.Fields), len(b.Fields)) {
		fa, fb := &a.Fields[i], &b.Fields[i]
		if !bytes.Equal(ma[fa.Offset:fa.Offset+fa.Size], mb[fb.Offset:fb.Offset+fb.Size]) {
			return fmt.Sprintf("field %s: %s and %s", fa.Name, fa.Text, fb.Text)
		}
	}
	if len(a.Fields) != len(b.Fields) || at == len(ma) || at == len(mb) {
		return fmt.Sprintf("sizes: %d and %d B", a.Size, b.Size)
	}
	return fmt.Sprintf("data, from byte %d of the command on: 0x%02x and 0x%02x", a.At-a.Offset+at, ma[at], mb[at])
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func differsAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
