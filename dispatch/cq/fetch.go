package cq

import "fmt"

// FetchEntry is one entry of the prefetch queue. Bits 0 to 14 are the size of a piece of the issue
// queue in units of 16 bytes. With bit 15 the prefetcher stops fetching after it until an EXEC_BUF
// in it has ended. 0 is an empty entry (tt-metal cq_prefetch.cpp).
type FetchEntry uint16

const (
	FetchUnit     = 16                           // bytes
	FetchStall    = 1 << 15                      // the stall bit
	fetchMaxBytes = (FetchStall - 1) * FetchUnit // what 15 bits can say: 524272
)

// NewFetchEntry makes an entry for n bytes, a multiple of 16 from 16 to fetchMaxBytes. The
// firmware's own limit is Limits.MaxCommand. stall must be set exactly when the bytes hold an
// EXEC_BUF.
func NewFetchEntry(n int, stall bool) (FetchEntry, error) {
	if n <= 0 || n > fetchMaxBytes {
		return 0, limit("fetch entry", "size", n, fmt.Sprintf("1 to %d bytes", fetchMaxBytes), "split the commands over several entries")
	}
	if n%FetchUnit != 0 {
		return 0, limit("fetch entry", "size", n, "a multiple of 16 bytes", "pass the sum of the commands' strides")
	}
	e := FetchEntry(n / FetchUnit)
	if stall {
		e |= FetchStall
	}
	return e, nil
}

// Bytes is the size that the entry announces.
func (e FetchEntry) Bytes() int { return int(e&^FetchStall) * FetchUnit }

// Stall says whether the stall bit is set.
func (e FetchEntry) Stall() bool { return e&FetchStall != 0 }

// String is like "256 bytes, stall".
func (e FetchEntry) String() string {
	s := fmt.Sprintf("%d bytes", e.Bytes())
	if e == 0 {
		s = "empty"
	}
	if e.Stall() {
		s += ", stall"
	}
	return s
}
