package driverdiff

import (
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
)

func (s *side) at(off uint64) uint64 { return addressOf(s.arena) + off }

func (r *run) mmap(f int) {
	page := uint64(os.Getpagesize())
	k := &r.known
	ids := slices.Sorted(maps.Keys(k.windows[f]))
	length, window := int(page), -1
	var off uint64
	switch n := r.pick(8); {
	case n < 4 && len(ids) > 0:
		id := ids[r.pick(len(ids))]
		w := k.windows[f][id]
		window, off = int(id), w.offset
		length = oneOf(r, int(page), int(page), 16*int(page), 1<<20, 1, int(min(w.size, 1<<21)))
		switch r.pick(8) {
		case 0:
			off, window = off+page, -1
		case 1:
			length, window = int(w.size+page), -1
		}
	case n < 6:
		off = oneOf[uint64](r, 0, 1, 2, 3, 4, 5, 8, 255) << 36
		off += oneOf[uint64](r, 0, page, r.p.PCI.BARSize[0]-page, r.p.PCI.BARSize[0], 1<<35)
	default:
		off = (page-256)<<32 + uint64(oneOf(r, 0, 1, 2, 255))<<32
		off += oneOf[uint64](r, 0, page, 16*page)
		length = oneOf(r, int(page), 2*int(page), 100)
	}
	r.mapAt(f, off, length, window)
}

func (r *run) mapAt(f int, off uint64, length, window int) {
	_, same := r.both(fmt.Sprintf("file %d: mmap of %d bytes at %#x", f, length, off), func(s *side) string {
		m, err := s.files[f].Mmap(off, length)
		if err == nil {
			s.maps[f] = append(s.maps[f], &mapping{m, window})
		}
		return errText(err)
	})
	if same {
		return
	}
	for i := range r.sides { // only one has the mapping
		s := &r.sides[i]
		if n := len(s.maps[f]); n > len(r.sides[1-i].maps[f]) {
			_ = s.maps[f][n-1].Unmap() // not compared
			s.maps[f] = s.maps[f][:n-1]
		}
	}
}

func (r *run) unmap(f int) {
	if n := len(r.sides[0].maps[f]); n > 0 {
		r.unmapAt(f, r.pick(n))
	}
}

func (r *run) unmapAt(f, i int) {
	r.both(fmt.Sprintf("file %d: munmap of mapping %d", f, i), func(s *side) string {
		err := s.maps[f][i].Unmap()
		s.maps[f] = slices.Delete(s.maps[f], i, i+1)
		return errText(err)
	})
}

func (r *run) access(f int) {
	var can []int
	for i, m := range r.sides[0].maps[f] {
		if w := r.known.windows[f][uint32(m.window)]; m.window >= 0 && w != nil && w.aimed {
			can = append(can, i)
		}
	}
	if len(can) > 0 {
		r.accessAt(f, can[r.pick(len(can))])
	}
}

func (r *run) accessAt(f, i int) {
	off, width := uint64(8*r.pick(16)), oneOf(r, 4, 4, 8)
	v := r.rand.Uint64() >> (64 - 8*width)
	r.both(fmt.Sprintf("file %d: store and load of %d bytes at %#x of mapping %d", f, width, off, i), func(s *side) (answer string) {
		io := s.maps[f][i].IO
		if io == nil {
			io = r.cfg.Accesses(s.maps[f][i].Mem)
		}
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if e := recover(); e != nil {
				answer = fmt.Sprint("fault: ", e)
			}
		}()
		io.Store(off, width, v)
		return fmt.Sprintf("%#x", io.Load(off, width))
	})
}
