package metaltrace_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

type sparse struct {
	banks int
	pages map[[2]uint64][]byte // by bank and address, of 64 B
	fail  error
}

func (s *sparse) ReadDRAM(bank int, addr uint64, b []byte) error {
	if s.fail != nil {
		return s.fail
	}
	for i := range b {
		b[i] = 0
		at := addr + uint64(i)
		if p := s.pages[[2]uint64{uint64(bank), at &^ 63}]; p != nil {
			b[i] = p[at&63]
		}
	}
	return nil
}

func (s *sparse) write(bank int, addr uint64, b []byte) {
	for i, v := range b {
		at := addr + uint64(i)
		key := [2]uint64{uint64(bank), at &^ 63}
		if s.pages[key] == nil {
			s.pages[key] = make([]byte, 64)
		}
		s.pages[key][at&63] = v
	}
}

func (s *sparse) trace(addr uint64, page int, b []byte) {
	for p := 0; len(b) > 0; p++ {
		n := min(page, len(b))
		s.write(p%s.banks, addr+uint64(p/s.banks*page), b[:n])
		b = b[n:]
	}
}

func metalCommands(t *testing.T, arch chip.Arch, programs int) []byte {
	m := newMetalStream(t, arch)
	for range programs {
		m.program()
	}
	b := m.bytes()
	return b[:len(b)-100]
}

func TestScanFindsTraces(t *testing.T) {
	const size, window = 1 << 30, 3 << 20
	for _, arch := range arches {
		t.Run(arch.String(), func(t *testing.T) {
			s := &sparse{banks: 8, pages: map[[2]uint64][]byte{}}
			top := uint64(size - window)
			one, many := metalCommands(t, arch, 1), metalCommands(t, arch, 40)
			s.trace(top+64, 2048, one)
			s.trace(top+1<<20+192, 1024, many)                 // over the end of a block
			s.trace(top+2<<20, 8192, many)                     // fewer pages than banks
			s.trace(top-1<<20, 2048, one)                      // below the window
			s.write(0, top+1<<19, many[:len(many)*3/4])        // without an end
			s.write(0, top+3<<18, append(bytes.Clone(one), 1)) // something follows
			s.write(1, top+4096, one)                          // a trace begins in bank 0
			got, _, err := metaltrace.Scan(t.Context(), s, s.banks, cq.Layout(arch), size, window)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if len(got[i].Revisions) == 0 {
					t.Errorf("candidate %d is of no revision", i)
				}
				got[i].Revisions = nil
			}
			pages := func(n, page int) int { return (n + page - 1) / page }
			want := []metaltrace.Candidate{
				{Addr: top + 64, Pages: 1, PageSize: 1024, Size: len(one), Programs: 1},
				{Addr: top + 1<<20 + 192, Pages: pages(len(many), 1024), PageSize: 1024, Size: len(many), Programs: 40},
				{Addr: top + 2<<20, Pages: pages(len(many), 8192), PageSize: 8192, Size: len(many), Programs: 40},
			}
			if len(one) > 1024 {
				want[0].PageSize = 2048
			}
			noDiff(t, got, want, "candidates")
		})
	}
}

func TestScanNearest(t *testing.T) {
	const size, window = 1 << 30, 1 << 20
	commands := metalCommands(t, chip.Blackhole, 40)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  int // bytes that are read at least
	}{
		{"nothing", nil, 0},
		{"no end", commands[:len(commands)*3/4], len(commands) / 2},
		{"bytes after the end", append(bytes.Clone(commands), 1), len(commands) - 64},
	} {
		s := &sparse{banks: 8, pages: map[[2]uint64][]byte{}}
		s.trace(size-window, 4096, c.bytes)
		found, nearest, err := metaltrace.Scan(t.Context(), s, s.banks, cq.Blackhole, size, window)
		if err != nil || len(found) > 0 {
			t.Fatalf("%s: %v, %v", c.name, found, err)
		}
		switch {
		case c.bytes == nil && nearest != nil:
			t.Errorf("%s: %+v is near", c.name, nearest)
		case c.bytes != nil && (nearest == nil || nearest.Addr != size-window || nearest.Size < c.want || nearest.Err == nil):
			t.Errorf("%s: %+v", c.name, nearest)
		}
	}
}

func TestScanEnds(t *testing.T) {
	s := &sparse{banks: 8}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := metaltrace.Scan(ctx, s, s.banks, cq.Blackhole, 1<<30, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("with its context ended: %v", err)
	}
	s.fail = errFar
	if _, _, err := metaltrace.Scan(t.Context(), s, s.banks, cq.Blackhole, 1<<30, 1<<20); !errors.Is(err, errFar) {
		t.Errorf("of memory that can't be read: %v", err)
	}
}

// bankBytes is DRAM whose banks hold one after the other the pages of some bytes at an address, and
// are zero elsewhere.
type bankBytes struct {
	addr  uint64
	page  int
	banks int
	b     []byte
}

func (m *bankBytes) ReadDRAM(bank int, addr uint64, b []byte) error {
	clear(b)
	for at := bank * m.page; at < len(m.b); at += m.banks * m.page {
		// A page, from where b begins or where it begins in b.
		page, to := m.b[at:min(at+m.page, len(m.b))], int(m.addr)+at/m.banks/m.page*m.page-int(addr)
		if to < 0 {
			page, to = page[min(-to, len(page)):], 0
		}
		if to < len(b) {
			copy(b[to:], page)
		}
	}
	return nil
}

func FuzzScan(f *testing.F) {
	for _, arch := range arches {
		m := newMetalStream(f, arch)
		m.program()
		m.program()
		b := m.bytes()
		f.Add(uint8(arch), uint8(0), b)
		f.Add(uint8(arch), uint8(2), append(append(make([]byte, 64), b[:len(b)/2]...), b...))
	}
	f.Fuzz(func(t *testing.T, arch, page uint8, b []byte) {
		const size, window, banks = 1 << 20, 64 << 10, 3
		if !chip.Arch(arch).Valid() || len(b) > window {
			return
		}
		layout := cq.Layout(chip.Arch(arch))
		align := uint64(layout.DRAMAlign())
		m := &bankBytes{addr: size - window + align, page: 1024 << (page % 4), banks: banks, b: b}
		found, _, err := metaltrace.Scan(t.Context(), m, banks, layout, size, window)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range found {
			rows := uint64((c.Pages+banks-1)/banks) * uint64(c.PageSize)
			if c.Addr < size-window || c.Addr%align != 0 || c.Size > c.Pages*c.PageSize || c.Pages < 1 || rows > size-c.Addr ||
				len(c.Revisions) == 0 {
				t.Fatalf("found %+v", c)
			}
			commands := make([]byte, c.Pages*c.PageSize)
			if err := metaltrace.ReadInterleaved(m, banks, c.Addr, c.PageSize, 0, commands); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.Revisions {
				readings, err := cq.RevisionByName(name).Read(layout, commands)
				if err != nil {
					t.Fatalf("%+v is no trace of %s: %v", c, name, err)
				}
				programs := 0
				for i := range readings {
					if readings[i].Name == "SEND_GO_SIGNAL" {
						programs++
					}
				}
				if last := &readings[len(readings)-1]; programs != c.Programs || last.Name != "EXEC_BUF_END" ||
					last.Offset+last.Size != c.Size {
					t.Fatalf("%+v: %s reads %d programs, and %s at +%#x", c, name, programs, last.Name, last.Offset)
				}
			}
		}
	})
}
