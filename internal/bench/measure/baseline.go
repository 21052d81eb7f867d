package measure

import (
	"reflect"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/internal/bench/report"
)

// Baseline is a well-known operation to compare with.
type Baseline struct {
	name string
	per  int // operations in a sample
	op   func(n int)
}

const ringBytes = 64 << 20

// Memcpy copies n bytes to successive places of a ring.
func Memcpy(name string, n int, ring []byte) *Baseline {
	src := make([]byte, n)
	for i := range src {
		src[i] = byte(i)
	}
	clear(ring) // every page exists
	at := 0
	return &Baseline{name: name, per: 16, op: func(k int) {
		for range k {
			if at+n > len(ring) {
				at = 0
			}
			copy(ring[at:at+n], src)
			at += n
		}
	}}
}

// MemcpySame copies the bytes of an operation, per times in a sample.
func MemcpySame(bytes, per int) *Baseline {
	b := Memcpy(report.MemcpySame, bytes, make([]byte, max(12<<20, min(4*bytes, bytes+12<<20))))
	b.per = per
	return b
}

// MemcpyPages copies pages, and reports the time of a byte.
func MemcpyPages(page int) *Baseline {
	pages := Memcpy(report.MemcpyPages, page, make([]byte, 12<<20))
	return &Baseline{name: report.MemcpyPages, per: 1 << 20, op: func(bytes int) { pages.op(bytes / page) }}
}

// allBaselines returns the baselines of this processor that don't depend on the figure.
func allBaselines() []*Baseline {
	hot := make([]byte, 4096)
	out := []*Baseline{
		Memcpy(report.MemcpyHot, 4096, hot),
		Memcpy(report.MemcpyRing, 4096, make([]byte, ringBytes)),
	}
	if nt := NonTemporal(); nt != nil {
		out = append(out, nt)
	}
	return append(out,
		&Baseline{report.EmptySyscall, 16, func(k int) {
			for range k {
				syscall.Getppid()
			}
		}},
		&Baseline{report.TimerRead, 16, func(k int) {
			for range k {
				_ = time.Now()
			}
		}})
}

// NonTemporal returns nil where the processor has no such stores.
func NonTemporal() *Baseline {
	if !hasNonTemporal {
		return nil
	}
	ring := make([]byte, ringBytes+64)
	clear(ring)
	ring = ring[64-int(reflect.ValueOf(ring).Pointer()%64):][:ringBytes] // whole cache lines
	var src [64]byte
	at := 0
	return &Baseline{name: report.NonTemporal, per: 16, op: func(k int) {
		for range k {
			storeNonTemporal(&ring[at], &src)
			at = (at + 64) & (ringBytes - 1)
		}
	}}
}
