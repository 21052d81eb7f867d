package tracebuf

import (
	"cmp"
	"github.com/reprise-tt/reprise/tracebuf/flow"
	"slices"
)

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

type ProgramStats struct {
	Name     string `json:"name"`
	Runs     int    `json:"runs"`
	Commands int    `json:"commands"` // of all runs
	Bytes    int    `json:"bytes"`    // of all runs
	Kernels  int    `json:"kernel_bytes"`
}

type KindStats struct {
	Name  string `json:"name"`
	Who   string `json:"who"` // that executes it
	Count int    `json:"count"`
	Bytes int    `json:"bytes"`      // with headers and padding
	Data  int    `json:"data_bytes"` // in them
}

func (c *Contents) Stats() Stats { return StatsOf(c) }

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
		if st.Edge != EdgeNone {
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
