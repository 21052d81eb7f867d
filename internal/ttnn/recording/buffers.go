package recording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/tracebuf"
)

// buffers finds the buffers of a trace and their contents.
func (r *reader) buffers(t *Trace) error {
	for a := range t.stale.All {
		if _, ok := t.read.Get(a); ok {
			return t.incomplete(a)
		}
	}
	var kept []transfer // that don't overlap, newest first
	overlapped := func(x *transfer) int {
		return slices.IndexFunc(kept, func(k transfer) bool { return k.base < x.end(r.banks) && x.base < k.end(r.banks) })
	}
	for _, x := range slices.Backward(r.transfers) {
		_, read := x.first(r.banks, t.read)
		_, result := x.first(r.banks, t.written)
		switch {
		case x.write && x.step > t.first && x.step < t.last && read:
			x.name = "in"
		case !x.write && x.step > t.first && result:
			x.name = "out"
		case x.write && x.step < t.first && read:
			x.name = "w"
		default:
			continue
		}
		i := overlapped(&x)
		if i < 0 {
			kept = append(kept, x)
		} else if k := &kept[i]; k.base == x.base && k.page == x.page { // a buffer in pieces, or a use before
			k.pages = max(k.pages, x.pages)
		}
	}
	align := int(r.Chip.Params().Align.DRAM())
	for i := range t.tensors {
		n := &t.tensors[i]
		x := transfer{base: n.Address, page: (n.PageSize + align - 1) / align * align, pages: n.Pages, name: "w", tensor: n}
		if x.end(r.banks) > r.banks[0].Size {
			continue
		}
		if k := overlapped(&x); k >= 0 {
			if k := &kept[k]; k.base == x.base && k.page == x.page && k.pages <= x.pages {
				k.pages, k.tensor = x.pages, n
			}
			continue
		}
		_, read := x.first(r.banks, t.read)
		if _, result := x.first(r.banks, t.written); read || result {
			kept = append(kept, x)
		}
	}
	kept = append(kept, r.rest(t, kept)...)
	// Names count in the order of addresses.
	slices.SortFunc(kept, func(a, b transfer) int { return cmp.Compare(a.base, b.base) })
	counts := map[string]int{}
	for i, x := range kept {
		b := tracebuf.Buffer{Kind: tracebuf.KindDRAM, Addr: x.base, Size: x.size() * x.pages, PageSize: x.size(), Stride: x.page,
			Output: x.name == "out"}
		if n := x.tensor; n != nil {
			if b.Name = n.Name; counts[n.Name] > 0 {
				b.Name = fmt.Sprintf("%s@%#x", n.Name, x.base)
			}
			counts[n.Name]++
			b.Tensor = &tracebuf.Tensor{Shape: n.Shape, DType: n.DType, Tiles: n.Layout == "TILE", Input: x.name == "in"}
		} else {
			b.Name = fmt.Sprint(x.name, counts[x.name])
			counts[x.name]++
		}
		t.Buffers = append(t.Buffers, b)
		if _, some := x.first(r.banks, t.read); some {
			// A replay on other inputs may read more of a tensor.
			if a, some := x.first(r.banks, t.stale); some && x.name != "m" {
				return t.incomplete(a)
			}
			data, _ := x.content(r.banks, t.before)
			t.Data = append(t.Data, tracebuf.Data{Buffer: i, Bytes: data})
		}
		if x.name == "out" {
			data, _ := x.content(r.banks, t.written)
			t.Results = append(t.Results, tracebuf.Data{Buffer: i, Bytes: data})
		}
	}
	return nil
}

// rest returns the memory of a trace outside of its buffers, each run of addresses as one page of
// every bank.
func (r *reader) rest(t *Trace, kept []transfer) []transfer {
	align := uint64(r.Chip.Params().Align.DRAM())
	used := map[uint64]bool{} // by address in the bank over the alignment
	for _, k := range r.banks {
		note := func(at uint64, _ uint32) bool {
			if a := at - k.Offset; at>>40 == uint64(k.Controller) && a&(1<<40-1) < k.Size {
				used[a&(1<<40-1)/align] = true
			}
			return true
		}
		t.read.All(note)
		t.written.All(note)
	}
	var out []transfer
	last := uint64(0)
	for _, a := range slices.Sorted(maps.Keys(used)) {
		addr := a * align
		if slices.ContainsFunc(kept, func(k transfer) bool { return addr >= k.base && addr < k.end(r.banks) }) {
			continue
		}
		if len(out) == 0 || addr != last+align {
			out = append(out, transfer{base: addr, pages: len(r.banks), name: "m"})
		}
		out[len(out)-1].page += int(align)
		last = addr
	}
	return out
}
