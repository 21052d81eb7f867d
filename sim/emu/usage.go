package emu

import "slices"

// DRAMUse is what requests have done in one DRAM controller: the host's, and through the NoC.
type DRAMUse struct {
	Controller int
	// Read holds what was read before it was written, as it was then.
	Read []DRAMBytes
	// Written holds what was written, as it is now.
	Written []DRAMBytes
}

// DRAMBytes are whole words of a DRAM controller, from an address that is a multiple of 4.
type DRAMBytes struct {
	Addr  uint64
	Words []uint32
}

// usedPage has a bit for each word of a page of DRAM, and the words that were read.
type usedPage struct {
	read, written bitset
	data          []uint32
}

func (d *dram) use(addr uint64, n int, write bool) {
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		p := d.used[a/dramPage]
		if p == nil {
			p = &usedPage{newBitset(dramPage), newBitset(dramPage), make([]uint32, dramPage/4)}
			d.used[a/dramPage] = p
		}
		w := uint32(a % dramPage >> 2)
		if write {
			p.written.set(w)
		} else if !p.written.has(w) && !p.read.has(w) {
			p.read.set(w)
			if page := d.pages[a/dramPage]; page != nil {
				p.data[w] = page[w]
			}
		}
	}
}

// TakeDRAMUse returns what was done in DRAM since the last call, in controllers where something
// was. The chip needs Config.TrackDRAM.
func (c *Chip) TakeDRAMUse() []DRAMUse {
	c.acquire()
	defer c.release()
	var out []DRAMUse
	for i, d := range c.drams {
		if len(d.used) == 0 {
			continue
		}
		u := DRAMUse{Controller: i}
		pages := make([]uint64, 0, len(d.used))
		for n := range d.used {
			pages = append(pages, n)
		}
		slices.Sort(pages)
		for _, n := range pages {
			p := d.used[n]
			u.Read = p.read.runs(u.Read, n*dramPage, p.data)
			u.Written = p.written.runs(u.Written, n*dramPage, d.pages[n])
		}
		clear(d.used)
		out = append(out, u)
	}
	return out
}

// runs appends the words of a page whose bits are set.
func (b bitset) runs(out []DRAMBytes, base uint64, page []uint32) []DRAMBytes {
	for w := uint32(0); w < dramPage/4; w++ {
		if w&63 == 0 && b[w>>6] == 0 {
			w += 63
			continue
		}
		if !b.has(w) {
			continue
		}
		at := base + 4*uint64(w)
		if n := len(out); n == 0 || out[n-1].Addr+4*uint64(len(out[n-1].Words)) != at {
			out = append(out, DRAMBytes{Addr: at})
		}
		last := &out[len(out)-1]
		last.Words = append(last.Words, page[w])
	}
	return out
}
