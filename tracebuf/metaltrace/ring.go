package metaltrace

// ring is the prefetcher's cache of kernels, which commands fill from DRAM and read in parts.
// tt-metal empties it before each trace. Source: tt-metal cq_prefetch.cpp
// (process_paged_to_ringbuffer_cmd, process_set_ringbuffer_offset).
type ring struct {
	write  uint64 // where the next kernels go
	offset uint64 // that reads are relative to
	loads  []ringLoad
}

type ringLoad struct {
	at   uint64
	data []byte
}

func (l *ringLoad) end() uint64 { return l.at + uint64(len(l.data)) }

// load puts data at the write pointer, which then moves by advance bytes. Overwritten data are
// lost.
func (r *ring) load(reset bool, data []byte, advance uint64) {
	if reset {
		r.write = 0
	}
	n := ringLoad{r.write, data}
	kept := r.loads[:0]
	for _, l := range r.loads {
		if l.end() <= n.at || n.end() <= l.at {
			kept = append(kept, l)
		}
	}
	r.loads = append(kept, n)
	r.offset = r.write
	r.write += advance
}

// set moves the write pointer, or the start of reads.
func (r *ring) set(offset uint64, write bool) {
	if write {
		r.write = offset
	} else {
		r.offset = offset
	}
}

// read returns n bytes from start on; ok is false if the trace hasn't loaded them all.
func (r *ring) read(start, n uint64) (b []byte, ok bool) {
	at := r.offset + start
	for i := range r.loads {
		if l := &r.loads[i]; at >= l.at && at+n <= l.end() {
			return l.data[at-l.at : at-l.at+n], true
		}
	}
	return nil, false
}
