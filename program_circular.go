package reprise

import (
	"slices"
)

// CircularPlace is where a circular buffer of a loaded program lies.
type CircularPlace struct {
	Index int
	Cores []Range
	Addr  uint32 // in the L1 of each of its cores
	Size  uint32 // bytes on each of its cores
}

// CircularBuffers returns where the program's circular buffers lie, in the order in which the program names them.
func (x *Executable) CircularBuffers() []CircularPlace {
	out := make([]CircularPlace, len(x.cbs))
	for i, c := range x.cbs {
		out[i] = CircularPlace{Index: c.Index, Cores: slices.Clone(c.Cores), Addr: c.Addr, Size: c.PageSize * c.Pages}
	}
	return out
}
