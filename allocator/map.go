package allocator

import (
	"cmp"
	"fmt"
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
