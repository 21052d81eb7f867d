package bench

import (
	"fmt"
	"reflect"
	"syscall"
	"time"
)

// baseline is a well-known operation to compare with.
type baseline struct {
	name string
	per  int // operations in a sample
	op   func(n int)
}

// Names of baselines, by which ratios refer to them.
const (
	// MemcpyHot copies 4 KiB that are in the first-level cache.
	MemcpyHot = "memcpy_4KiB_hot"
	// MemcpyRing copies 4 KiB from place to place of 64 MiB.
	MemcpyRing = "memcpy_4KiB_into_64MiB_ring"
	// NonTemporal stores 64 bytes past the caches, from place to place of 64 MiB.
	NonTemporal = "nt_store_64B"
	// EmptySyscall is the cheapest system call.
	EmptySyscall = "empty_syscall"
	// TimerRead is time.Now.
	TimerRead = "timer_read"
	// MemcpySame copies as many bytes as the operation sends, into a ring of the size of an issue queue.
	MemcpySame = "memcpy_same_bytes"
	// MemcpyPages copies a byte in pages of the size that the operation moves, into a ring.
	MemcpyPages = "memcpy_same_pages"
)

const ringBytes = 64 << 20

// memcpy copies n bytes from one place to consecutive ones of a ring.
func memcpy(name string, n int, ring []byte) *baseline {
	src := make([]byte, n)
	for i := range src {
		src[i] = byte(i)
	}
	clear(ring) // every page exists
	at := 0
	return &baseline{name: name, per: 16, op: func(k int) {
		for range k {
			if at+n > len(ring) {
				at = 0
			}
			copy(ring[at:at+n], src)
			at += n
		}
	}}
}

// memcpySame copies as many bytes as an operation sends, in samples of as many operations.
func memcpySame(bytes, per int) *baseline {
	b := memcpy(MemcpySame, bytes, make([]byte, max(12<<20, min(4*bytes, bytes+12<<20))))
	b.per = per
	return b
}

// memcpyPages copies pages of so many bytes, and is the time of a byte.
func memcpyPages(page int) *baseline {
	pages := memcpy(MemcpyPages, page, make([]byte, 12<<20))
	return &baseline{name: MemcpyPages, per: 1 << 20, op: func(bytes int) { pages.op(bytes / page) }}
}

// baselines returns all that don't depend on what is measured. One that this processor has no instruction for is left out.
func baselines() []*baseline {
	hot := make([]byte, 4096)
	out := []*baseline{
		memcpy(MemcpyHot, 4096, hot),
		memcpy(MemcpyRing, 4096, make([]byte, ringBytes)),
	}
	if nt := nonTemporal(); nt != nil {
		out = append(out, nt)
	}
	return append(out,
		&baseline{name: EmptySyscall, per: 16, op: func(k int) {
			for range k {
				syscall.Getppid()
			}
		}},
		&baseline{name: TimerRead, per: 16, op: func(k int) {
			for range k {
				_ = time.Now()
			}
		}},
	)
}

// nonTemporal returns nil where there are no such stores.
func nonTemporal() *baseline {
	if !hasNonTemporal {
		return nil
	}
	ring := make([]byte, ringBytes+64)
	clear(ring)
	ring = ring[64-int(reflect.ValueOf(ring).Pointer()%64):][:ringBytes] // whole cache lines
	var src [64]byte
	at := 0
	return &baseline{name: NonTemporal, per: 16, op: func(k int) {
		for range k {
			storeNonTemporal(&ring[at], &src)
			at = (at + 64) & (ringBytes - 1)
		}
	}}
}

// measureBaselines measures the baselines alone.
func (r *runner) baselines() ([]*Figure, error) {
	var out []*Figure
	for _, b := range baselines() {
		s := newSeries()
		for n := -r.warmup; n < r.rounds; n++ {
			for range 64 {
				start := ticks()
				b.op(b.per)
				s.add(r.clock.ns(start, ticks()) / float64(b.per))
			}
			if n < 0 {
				s.round = s.round[:0]
				continue
			}
			s.end()
		}
		f := &Figure{Family: "baseline", Name: b.name, PerSample: b.per}
		s.figure(f)
		if f.Samples == 0 {
			return nil, fmt.Errorf("bench: baseline %s: no samples", b.name)
		}
		out = append(out, f)
	}
	return out, nil
}
