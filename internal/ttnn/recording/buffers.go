package recording

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/tracebuf"
)

// transfer is a host's read or write of a buffer through a queue.
type transfer struct {
	step        int
	write       bool
	base        uint64
	page, pages int // bytes of a page, which is whole alignments of DRAM
}

// end is behind the buffer's last row of pages.
func (t *transfer) end(banks int) uint64 {
	return t.base + uint64((t.pages+banks-1)/banks*t.page)
}

// words calls f for each word of the buffer, until it returns false.
func (t *transfer) words(banks int, f func(bank int, addr uint64) bool) {
	for p := range t.pages {
		for i := 0; i < t.page; i += 4 {
			if !f(p%banks, t.base+uint64(p/banks*t.page+i)) {
				return
			}
		}
	}
}

func (t *transfer) in(m memory, banks int) (some, whole bool) {
	whole = true
	t.words(banks, func(bank int, addr uint64) bool {
		_, ok := m.get(bank, addr)
		some, whole = some || ok, whole && ok
		return !some || whole
	})
	return some, whole
}

// buffers finds the buffers of a trace and their contents.
func (r *reader) buffers(t *Trace) {
	n := len(r.banks)
	var kept []transfer // that don't overlap, newest first
	counts := map[string]int{}
	for _, x := range slices.Backward(r.transfers) {
		var name string
		read, _ := x.in(t.read, n)
		_, result := x.in(t.written, n)
		switch {
		case x.write && x.step > t.first && x.step < t.last && read:
			name = "in"
		case !x.write && x.step > t.first && result:
			name = "out"
		case x.write && x.step < t.first && read:
			name = "w"
		default:
			continue
		}
		i := slices.IndexFunc(kept, func(k transfer) bool { return k.base < x.end(n) && x.base < k.end(n) })
		if i >= 0 {
			k := &kept[i] // a buffer in pieces, or a use before
			if k.base == x.base && k.page == x.page && x.pages > k.pages {
				k.pages = x.pages
			}
			continue
		}
		kept = append(kept, x)
		t.Buffers = append(t.Buffers, tracebuf.Buffer{Name: name})
	}
	for i, x := range kept {
		t.Buffers[i] = buffer(t.Buffers[i].Name, x)
	}
	for _, x := range r.rest(t, kept) {
		kept = append(kept, x)
		t.Buffers = append(t.Buffers, buffer("m", x))
	}
	for i, x := range kept {
		b := &t.Buffers[i]
		read, _ := x.in(t.read, n)
		if read {
			data, _ := t.read.interleaved(n, b.Addr, b.PageSize, b.Stride, b.Size)
			t.Data = append(t.Data, tracebuf.Data{Buffer: i, Bytes: data})
		}
		if b.Name == "out" {
			data, _ := t.written.interleaved(n, b.Addr, b.PageSize, b.Stride, b.Size)
			t.Results = append(t.Results, tracebuf.Data{Buffer: i, Bytes: data})
		}
	}
	// Names count in the order of addresses, in which TT-NN allocated the tensors.
	order := make([]int, len(kept))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.Buffers[a].Addr, t.Buffers[b].Addr) })
	for _, i := range order {
		name := t.Buffers[i].Name
		t.Buffers[i].Name = fmt.Sprint(name, counts[name])
		counts[name]++
	}
}

func buffer(name string, x transfer) tracebuf.Buffer {
	return tracebuf.Buffer{Name: name, Kind: tracebuf.KindDRAM, Addr: x.base, Size: x.page * x.pages, PageSize: x.page, Stride: x.page,
		Output: name == "out"}
}

// rest returns the memory of a trace outside of its buffers, each run of addresses as one page of
// every bank.
func (r *reader) rest(t *Trace, kept []transfer) []transfer {
	used := map[uint64]bool{} // by address over the alignment
	align := uint64(r.Chip.Params().Align.DRAM())
	note := func(_ int, addr uint64, _ uint32) bool {
		if !used[addr/align] && !slices.ContainsFunc(kept, func(k transfer) bool { return addr >= k.base && addr < k.end(len(r.banks)) }) {
			used[addr/align] = true
		}
		return true
	}
	t.read.all(note)
	t.written.all(note)
	var at []uint64
	for a := range used {
		at = append(at, a)
	}
	slices.Sort(at)
	var out []transfer
	for i, a := range at {
		if i > 0 && at[i-1]+1 == a {
			out[len(out)-1].page += int(align)
			continue
		}
		out = append(out, transfer{base: a * align, page: int(align), pages: len(r.banks)})
	}
	return out
}
