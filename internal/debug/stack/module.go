// Package stack makes call stacks of RV32 programs from registers, memory and ELF files, by call
// frame information (.debug_frame, .eh_frame) or else by analysing functions' code. With DWARF it
// shows inlined functions and arguments. It knows no devices.
package stack

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
)

const (
	maxFile    = 64 << 20
	maxSection = 64 << 20
)

var (
	// ErrFile is wrapped by errors of Load about files that are no executables for RV32.
	ErrFile = errors.New("not an RV32 executable")
	// ErrNoDWARF is wrapped by Module.Debug's error for a file without debug information.
	ErrNoDWARF = errors.New("the file has no debug information: compile with -g")
)

var errBackwards = errors.New("an entry comes after itself")

// Module is a program, or a part of one, at its run-time addresses.
type Module struct {
	Name string
	// of the text
	Start, End uint32

	bias    uint32
	text    []byte // nil for a Region
	symbols []symbol
	lines   []line
	rows    []fde
	dwarf   *dwarf.Data
	funcs   []function
	lists   []byte
	table   *table
	debug   error
}

type symbol struct {
	start, end uint32
	name       string
}

type line struct {
	addr uint32
	file string
	line int
	end  bool
}

type function struct {
	low, high uint32
	entry     dwarf.Offset
	unit      *dwarf.Entry
}

// Region returns a module of which only name and addresses are known.
func Region(name string, start, end uint32) *Module {
	return &Module{Name: name, Start: start, End: end, debug: ErrNoDWARF}
}

// Load reads an ELF file whose text is at an address, wherever it was linked. Data are at their
// linked addresses. The error wraps ErrFile. The module keeps using the file's bytes.
func Load(name string, file []byte, at uint32) (m *Module, err error) {
	defer func() { // the standard library's parsers may panic on bad files
		if e := recover(); e != nil {
			m, err = nil, fmt.Errorf("stack: %s: %w: %v", name, ErrFile, e)
		}
	}()
	fail := badFile(name, "")
	if len(file) > maxFile {
		return fail("it has %d bytes", len(file))
	}
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return fail("%v", err)
	}
	if f.Class != elf.ELFCLASS32 || f.Data != elf.ELFDATA2LSB || f.Machine != elf.EM_RISCV {
		return fail("it is %v %v %v", f.Class, f.Data, f.Machine)
	}
	m = &Module{Name: name}
	start, ok := uint32(0), false
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Filesz > 0 && p.Filesz <= uint64(len(file)) && p.Vaddr+p.Filesz <= 1<<32 {
			start, ok = uint32(p.Vaddr), true
			m.text = make([]byte, p.Filesz)
			if _, err := io.ReadFull(p.Open(), m.text); err != nil {
				return fail("text: %v", err)
			}
			break
		}
	}
	if !ok {
		return fail("it has no text")
	}
	m.bias = at - start
	m.Start, m.End = at, at+uint32(len(m.text))
	if m.End < m.Start {
		return fail("text of %d bytes at %#x", len(m.text), at)
	}
	m.readSymbols(f)
	m.debug = m.readDWARF(f)
	return m, nil
}

func badFile(name, part string) func(format string, args ...any) (*Module, error) {
	return func(format string, args ...any) (*Module, error) {
		return nil, fmt.Errorf("stack: %s: %w: %s%s", name, ErrFile, part, fmt.Sprintf(format, args...))
	}
}

// Debug returns why the module lacks lines, inlined functions and arguments; nil if it has them.
func (m *Module) Debug() error { return m.debug }

// Text returns the text of the module's file; nil for a Region.
func (m *Module) Text() []byte { return m.text }

func (m *Module) readSymbols(f *elf.File) {
	all, err := f.Symbols()
	if err != nil {
		return
	}
	for _, s := range all {
		if s.Value >= 1<<32 || s.Size > 1<<32-s.Value || s.Name == "" {
			continue
		}
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			m.symbols = append(m.symbols, symbol{uint32(s.Value), uint32(s.Value + s.Size), s.Name})
		}
	}
	slices.SortFunc(m.symbols, func(a, b symbol) int { return cmp.Compare(a.start, b.start) })
	for i := range m.symbols {
		if s := &m.symbols[i]; s.end == s.start && i+1 < len(m.symbols) {
			s.end = m.symbols[i+1].start
		}
	}
}

// Debug information gives removed code ranges from 0 on.
func (m *Module) real(low, high uint32) bool {
	return low != 0 || slices.ContainsFunc(m.symbols, func(s symbol) bool { return s.start == 0 && s.end == high })
}

func (m *Module) readDWARF(f *elf.File) error {
	section := func(name string) []byte {
		s := f.Section(name)
		if s == nil {
			return nil
		}
		b, err := s.Data()
		if err != nil {
			return nil
		}
		return b
	}
	for _, s := range f.Sections {
		if s.Size > maxSection {
			return fmt.Errorf("stack: %s: section %s has %d bytes", m.Name, s.Name, s.Size)
		}
	}
	m.rows = append(m.rows, m.readFrames(section(".debug_frame"), 0, false)...)
	if s := f.Section(".eh_frame"); s != nil {
		m.rows = append(m.rows, m.readFrames(section(".eh_frame"), uint32(s.Addr), true)...)
	}
	if f.Section(".debug_info") == nil {
		return fmt.Errorf("stack: %s: %w", m.Name, ErrNoDWARF)
	}
	d, err := f.DWARF()
	if err != nil {
		return fmt.Errorf("stack: %s: debug information: %w", m.Name, err)
	}
	m.dwarf, m.lists = d, section(".debug_loclists")
	r := d.Reader()
	unit, last := &dwarf.Entry{}, dwarf.Offset(0)
	for {
		e, err := r.Next()
		if err == nil && e != nil && e.Tag != 0 {
			if e.Offset <= last {
				err = errBackwards
			}
			last = e.Offset
		}
		if err != nil {
			return fmt.Errorf("stack: %s: debug information: %w", m.Name, err)
		}
		if e == nil {
			break
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			unit = e
			m.readLines(e)
		case dwarf.TagSubprogram:
			ranges, err := d.Ranges(e)
			for _, x := range ranges {
				if err == nil && x[0] < x[1] && x[1] <= 1<<32 && m.real(uint32(x[0]), uint32(x[1])) {
					m.funcs = append(m.funcs, function{uint32(x[0]), uint32(x[1]), e.Offset, unit})
				}
			}
			r.SkipChildren()
		case dwarf.TagNamespace, dwarf.TagClassType, dwarf.TagStructType:
		default:
			r.SkipChildren()
		}
	}
	slices.SortStableFunc(m.lines, func(a, b line) int {
		order := func(l line) int { // an end comes before what begins there
			if l.end {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.addr, b.addr), order(a)-order(b))
	})
	return nil
}

func (m *Module) readLines(unit *dwarf.Entry) {
	r, err := m.dwarf.LineReader(unit)
	if err != nil || r == nil {
		return
	}
	var seq []line
	for e := (dwarf.LineEntry{}); r.Next(&e) == nil; {
		l := line{addr: uint32(e.Address), line: e.Line, end: e.EndSequence}
		if e.File != nil {
			l.file = e.File.Name
		}
		seq = append(seq, l)
		if e.EndSequence {
			if m.real(seq[0].addr, l.addr) {
				m.lines = append(m.lines, seq...)
			}
			seq = nil
		}
	}
}

func (m *Module) symbolAt(addr uint32) (symbol, bool) {
	i := sort.Search(len(m.symbols), func(i int) bool { return m.symbols[i].start > addr })
	if i == 0 {
		return symbol{}, false
	}
	s := m.symbols[i-1]
	return s, addr < s.end
}

func (m *Module) lineAt(addr uint32) (file string, number int) {
	i := sort.Search(len(m.lines), func(i int) bool { return m.lines[i].addr > addr })
	if i == 0 || m.lines[i-1].end {
		return "", 0
	}
	return m.lines[i-1].file, m.lines[i-1].line
}
