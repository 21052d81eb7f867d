package tracebuf

import (
	"cmp"
	"slices"
)

// Stats is what a trace's bytes are spent on.
type Stats struct {
	Revision string `json:"revision"`
	Layout   string `json:"arch"`
	Bytes    int    `json:"bytes"` // of the commands
	Commands int    `json:"commands"`
	// Programs are in order of first use, and Kinds in order of bytes, most first. Each sums up to Bytes, but that the
	// EXEC_BUF_END is no program's.
	Programs []ProgramStats `json:"programs"`
	Kinds    []KindStats    `json:"kinds"`
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
	Who   string `json:"who"` // executes it
	Count int    `json:"count"`
	Bytes int    `json:"bytes"`      // with headers and padding
	Data  int    `json:"data_bytes"` // in them
}

// Stats counts.
func (c *Contents) Stats() Stats {
	s := Stats{Revision: c.Revision, Layout: c.Layout.String(), Bytes: len(c.Bytes), Commands: len(c.Commands), Programs: []ProgramStats{}, Kinds: []KindStats{}}
	programs := map[string]int{}
	for i := range c.Steps {
		st := &c.Steps[i]
		// The name goes into the key too: programs without an index are told apart by it.
		key := string([]byte{byte(st.Program), byte(st.Program >> 8), byte(st.Program >> 16), byte(st.Program >> 24)}) + st.Name
		at, ok := programs[key]
		if !ok {
			at = len(s.Programs)
			programs[key] = at
			s.Programs = append(s.Programs, ProgramStats{Name: st.Name, Kernels: len(st.Binary)})
		}
		p := &s.Programs[at]
		p.Runs, p.Commands, p.Bytes = p.Runs+1, p.Commands+st.Count, p.Bytes+st.Size
	}
	type kind struct{ name, who string }
	kinds := map[kind]int{}
	for i := range c.Commands {
		r := &c.Commands[i]
		key := kind{r.Name, r.Who}
		at, ok := kinds[key]
		if !ok {
			at = len(s.Kinds)
			kinds[key] = at
			s.Kinds = append(s.Kinds, KindStats{Name: r.Name, Who: r.Who})
		}
		k := &s.Kinds[at]
		k.Count, k.Bytes, k.Data = k.Count+1, k.Bytes+r.Size, k.Data+r.Data
	}
	slices.SortStableFunc(s.Kinds, func(a, b KindStats) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return s
}
