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
			return r.incomplete(t, a)
		}
	}
	var tensors []extent
	for i := range t.tensors {
		if x, err := r.tensor(&t.tensors[i]); err == nil {
			tensors = append(tensors, x)
		}
	}
	var kept []extent // that don't overlap, newest first
	for _, x := range slices.Backward(r.transfers) {
		_, read := x.first(t.read)
		_, result := x.first(t.written)
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
		for _, n := range tensors {
			if n.has(&x.extent) && (x.linear || n.base == x.base && n.page == x.page) {
				n.name = x.name
				x.extent = n
				break
			}
		}
		i := slices.IndexFunc(kept, func(k extent) bool { return k.overlaps(&x.extent) })
		if i < 0 {
			kept = append(kept, x.extent)
			continue
		}
		switch k := &kept[i]; {
		case k.base != x.base || k.page != x.page:
		case k.linear && x.linear: // another core of it
			if err := k.alone(append(k.dist.Cores(), x.dist.Cores()...)...); err != nil {
				return err
			}
		case k.dist == nil: // a buffer in pieces, or a use before
			k.pages = max(k.pages, x.pages)
		}
	}
	for _, n := range tensors {
		_, read := n.first(t.read)
		_, result := n.first(t.written)
		if (read || result) && !slices.ContainsFunc(kept, func(k extent) bool { return k.overlaps(&n) }) {
			n.name = "w"
			kept = append(kept, n)
		}
	}
	more, err := r.rest(t, kept)
	if err != nil {
		return err
	}
	kept = append(kept, more...)
	// Names count in the order of addresses.
	slices.SortFunc(kept, func(a, b extent) int { return cmp.Or(cmp.Compare(a.code, b.code), cmp.Compare(a.base, b.base)) })
	counts := map[string]int{}
	for i, x := range kept {
		b := tracebuf.Buffer{Kind: x.code, Addr: x.base, Size: x.size() * x.pages, PageSize: x.size(), Stride: x.page,
			Output: x.name == "out", Sharding: x.sharding}
		if n := x.tensor; n != nil {
			if b.Name = n.Name; counts[n.Name] > 0 {
				b.Name = fmt.Sprintf("%s@%#x", n.Name, x.base)
			}
			counts[n.Name]++
			b.Tensor = &tracebuf.Tensor{Shape: n.Shape, DType: n.DType, Tiles: n.tiles(), Input: x.name == "in"}
		} else {
			b.Name = fmt.Sprint(x.name, counts[x.name])
			counts[x.name]++
		}
		t.Buffers = append(t.Buffers, b)
		if _, some := x.first(t.read); some {
			// A replay on other inputs may read more of a tensor.
			if a, some := x.first(t.stale); some && x.name != "m" {
				return r.incomplete(t, a)
			}
			data, _ := x.content(t.before)
			t.Data = append(t.Data, tracebuf.Data{Buffer: i, Bytes: data})
		}
		if x.name == "out" {
			data, _ := x.content(t.written)
			t.Results = append(t.Results, tracebuf.Data{Buffer: i, Bytes: data})
		}
	}
	return nil
}

// rest returns the memory of a trace outside of its buffers, each run of addresses as one page of
// every bank. L1 below all buffers has circular buffers.
func (r *reader) rest(t *Trace, kept []extent) (out []extent, err error) {
	for _, k := range r.kinds() {
		var buffers []extent
		lowest := k.size
		for _, x := range kept {
			if x.kind == k {
				buffers, lowest = append(buffers, x), min(lowest, x.base)
			}
		}
		used := map[uint64]bool{} // by address in the bank over the alignment
		note := func(m func(func(uint64, uint32) bool), read bool) {
			for at := range m {
				bank, a := k.place(at)
				_, setup := r.setup.Get(at)
				if bank < 0 || setup && k == r.l1 ||
					slices.ContainsFunc(buffers, func(x extent) bool { return a >= x.base && a < x.end() }) {
					continue
				}
				switch {
				case k.code == tracebuf.KindDRAM || a >= lowest && !read:
					used[a/uint64(k.align)] = true
				case !read:
					t.L1End = max(t.L1End, a+4)
				case err == nil: // nothing says to which page of which buffer it belongs
					err = fmt.Errorf("%w: the trace at %#x reads %s before it writes it, and no tensor that a variable holds or the host "+
						"wrote is there: keep the tensor in a variable", ErrIncomplete, t.Addr, r.place(at))
				}
			}
		}
		note(t.read.All, true)
		note(t.written.All, false)
		last := uint64(0)
		first := len(out)
		for _, a := range slices.Sorted(maps.Keys(used)) {
			addr := a * uint64(k.align)
			if len(out) == first || addr != last+uint64(k.align) {
				out = append(out, extent{kind: k, base: addr, pages: len(k.banks), name: "m"})
			}
			out[len(out)-1].page += k.align
			last = addr
		}
	}
	return out, err
}

// place describes a word in a Memory.
func (r *reader) place(at uint64) string {
	for _, k := range r.kinds() {
		bank, a := k.place(at)
		if core := slices.Index(k.cores, bank); core >= 0 && k.code == tracebuf.KindL1 {
			return fmt.Sprintf("%#x of L1 of worker (%d,%d)", a, core%k.width, core/k.width)
		} else if core >= 0 {
			return fmt.Sprintf("%#x of DRAM bank %d", a, bank)
		}
	}
	return fmt.Sprintf("%#x", at)
}
