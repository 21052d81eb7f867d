package allocator

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Map is a memory map, the same in every bank of a kind.
type Map struct {
	Regions []RegionMap `json:"regions"`
}

// RegionMap is one range of every bank.
type RegionMap struct {
	Name  string  `json:"name"` // of the kind, or "DRAM and trace" where traces have no region of their own
	Stats []Stats `json:"stats"`
	// Entries cover the region without gaps, by address.
	Entries []MapEntry `json:"entries"`
}

// MapEntry is a free or an allocated range of every bank.
type MapEntry struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
	Free  bool   `json:"free,omitempty"`
	// Of allocated ranges only.
	Kind     string `json:"kind,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Tag      string `json:"tag,omitempty"`
	Site     string `json:"site,omitempty"`
	Size     uint64 `json:"size,omitempty"` // bytes asked for, over all banks
	PageSize uint64 `json:"page_size,omitempty"`
	Banks    uint32 `json:"banks,omitempty"` // over which pages are dealt
	Holds    int    `json:"holds,omitempty"`
	Freed    bool   `json:"freed,omitempty"`
}

// Bytes returns the size of the range in each bank.
func (e *MapEntry) Bytes() uint64 { return e.End - e.Start }

// SiteOf resolves a call site to file:line, "" if unknown.
func SiteOf(pc uintptr) string {
	if pc == 0 {
		return ""
	}
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	if f.File == "" {
		return ""
	}
	return f.File + ":" + strconv.Itoa(f.Line)
}

// Map returns the present memory map.
func (a *Allocator) Map() *Map {
	c := a.Clone()
	m := new(Map)
	sites := map[uintptr]string{}
	for _, k := range []Kind{DRAM, Trace, L1, L1Small} {
		r := c.region[k]
		if r == nil || r.high == r.low || k == Trace && c.shared() {
			continue
		}
		reg := RegionMap{Name: k.String(), Stats: []Stats{c.Stats(k)}}
		live := c.Extents(k)
		if k == DRAM && c.shared() {
			reg.Name = "DRAM and trace"
			reg.Stats = append(reg.Stats, c.Stats(Trace))
			live = append(live, c.Extents(Trace)...)
		}
		for i := range live {
			l := &live[i]
			if _, ok := sites[l.Site]; !ok {
				sites[l.Site] = SiteOf(l.Site)
			}
			reg.Entries = append(reg.Entries, MapEntry{
				Start: l.Addr, End: l.End(), Kind: l.Kind.String(), Owner: l.Owner, Tag: l.Tag, Site: sites[l.Site], Size: l.Size,
				PageSize: l.PageSize, Banks: l.Banks, Holds: l.Holds, Freed: l.Freed,
			})
		}
		for _, h := range c.Holes(k) {
			reg.Entries = append(reg.Entries, MapEntry{Start: h.Addr, End: h.Addr + h.Size, Free: true})
		}
		slices.SortFunc(reg.Entries, func(x, y MapEntry) int { return cmp.Compare(x.Start, y.Start) })
		m.Regions = append(m.Regions, reg)
	}
	return m
}

func (m *Map) String() string {
	var b strings.Builder
	for i := range m.Regions {
		r := &m.Regions[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, s := range r.Stats {
			b.WriteString(s.String())
			b.WriteByte('\n')
		}
		for j := range r.Entries {
			e := &r.Entries[j]
			fmt.Fprintf(&b, "  %#08x %#08x %10s  %s\n", e.Start, e.End, humanize.IBytes(e.Bytes()), e.what())
		}
	}
	return b.String()
}

func (e *MapEntry) what() string {
	if e.Free {
		return "free"
	}
	parts := []string{e.Kind}
	if e.Owner != "" {
		parts = append(parts, e.Owner)
	}
	if e.Tag != "" {
		parts = append(parts, "("+e.Tag+")")
	}
	if e.Freed {
		parts = append(parts, "freed, held "+strconv.Itoa(e.Holds)+" times")
	} else if e.Holds > 0 {
		parts = append(parts, "held "+strconv.Itoa(e.Holds)+" times")
	}
	if e.Site != "" {
		parts = append(parts, "at "+filepath.Join(filepath.Base(filepath.Dir(e.Site)), filepath.Base(e.Site)))
	}
	return strings.Join(parts, " ")
}

// The reports have the names and columns of tt-metal's memory reporter
// (tt_metal/detail/reports/memory_reporter.cpp), in KB of 1024 B.
const kb = 1024

// WriteL1Summary writes l1_usage_summary.csv: the largest hole for an interleaved L1 buffer, in
// each bank and over all banks.
func (m *Map) WriteL1Summary(w io.Writer) error {
	if _, err := io.WriteString(w, "This report indicates available space for interleaving L1 buffers\n"+
		", Largest Contiguous Free Block (KB), Total Free L1 Space (KB)\n"); err != nil {
		return err
	}
	s := m.stats(L1)
	return table(w, []string{"", num(s.LargestHole / kb), num(s.LargestHole / kb * uint64(s.Banks))})
}

// WriteSummary writes memory_usage_summary.csv.
func (m *Map) WriteSummary(w io.Writer) error {
	if _, err := io.WriteString(w, ", Total Allocatable Size (KB), Total Allocated (KB), Total Free (KB), Largest Free Block (KB)\n"); err != nil {
		return err
	}
	var rows [][]string
	for _, k := range Kinds() {
		if s := m.stats(k); s.Total != 0 {
			rows = append(rows, []string{k.Code(), num(s.Total / kb), num(s.Allocated / kb), num(s.Free / kb), num(s.LargestHole / kb)})
		}
	}
	return table(w, rows...)
}

// WriteDetailed writes detailed_memory_usage.csv with tt-metal's columns: for each region the
// totals over all banks, then each bank with its blocks.
func (m *Map) WriteDetailed(w io.Writer) error {
	c := csv.NewWriter(w)
	put := func(fields ...string) { _ = c.Write(fields) }
	for i := range m.Regions {
		r := &m.Regions[i]
		var allocated uint64
		for _, s := range r.Stats {
			allocated += s.Allocated
		}
		s := r.Stats[0]
		n := uint64(s.Banks)
		put("", r.Name)
		put("", "Total allocatable (KB):", num(s.Total*n/kb))
		put("", "Total allocated (KB):", num(allocated*n/kb))
		put("", "Total free (KB):", num(s.Free*n/kb))
		for bank := range s.Banks {
			put("Bank ID:", strconv.Itoa(bank))
			put("", "", "Total allocatable (KB):", num(s.Total/kb))
			put("", "", "Total free (KB):", num(s.Free/kb))
			put("", "", "Total allocated (KB):", num(allocated/kb))
			put("", "", "Largest free block (KB):", num(s.LargestHole/kb))
			put("", "", "", "blockID", "address", "size", "prevID", "nextID", "allocated", "kind", "owner", "tag", "call site")
			for j := range r.Entries {
				e := &r.Entries[j]
				prev, next, yes := "none", "none", "yes"
				if j > 0 {
					prev = strconv.Itoa(j - 1)
				}
				if j+1 < len(r.Entries) {
					next = strconv.Itoa(j + 1)
				}
				if e.Free {
					yes = "no"
				}
				put("", "", "", strconv.Itoa(j), num(e.Start), num(e.Bytes()), prev, next, yes, e.Kind, e.Owner, e.Tag, e.Site)
			}
		}
	}
	c.Flush()
	return c.Error()
}

func (m *Map) stats(k Kind) Stats {
	for i := range m.Regions {
		for _, s := range m.Regions[i].Stats {
			if s.Kind == k {
				return s
			}
		}
	}
	return Stats{Kind: k}
}

func table(w io.Writer, rows ...[]string) error { return csv.NewWriter(w).WriteAll(rows) }

func num(v uint64) string { return strconv.FormatUint(v, 10) }
