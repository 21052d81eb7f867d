package metaltrace

import (
	"fmt"
)

// Limits of the bytes of kernels for a command, which go through a core's L1, and for a trace.
const (
	maxLoad    = 1 << 21
	maxKernels = 1 << 30
)

// Memory is the DRAM of the chip that has a trace, or a copy of it.
type Memory interface {
	// ReadDRAM fills b from an address of a DRAM bank, counted as package chip does.
	ReadDRAM(bank int, addr uint64, b []byte) error
}

// ReadInterleaved fills b from an interleaved buffer at addr in every bank, from page first on:
// page p is in bank p mod banks, in row p div banks.
func ReadInterleaved(m Memory, banks int, addr uint64, pageSize, first int, b []byte) error {
	if banks < 1 || pageSize < 1 || first < 0 {
		return fmt.Errorf("metaltrace: page %d of %d B over %d banks", first, pageSize, banks)
	}
	for p := first; len(b) > 0; p++ {
		n := min(pageSize, len(b))
		if err := m.ReadDRAM(p%banks, addr+uint64(p/banks)*uint64(pageSize), b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

type place struct {
	start, logPage uint32
	base, length   uint32
}

// kernelMemory reads each run of kernels once.
type kernelMemory struct {
	m     Memory
	banks int
	seen  map[place][]byte
	total int
}

func (k *kernelMemory) read(p place) ([]byte, error) {
	if b, ok := k.seen[p]; ok {
		return b, nil
	}
	if p.logPage < 9 || p.logPage > 16 { // tt-metal's have 2^11 B
		return nil, fmt.Errorf("pages of 2^%d B: %w", p.logPage, ErrNotTrace)
	}
	if p.length > maxLoad {
		return nil, fmt.Errorf("%d B of kernels at once, more than L1 has: %w", p.length, ErrNotTrace)
	}
	if k.total += int(p.length); k.total > maxKernels {
		return nil, fmt.Errorf("more than %d B of kernels: %w", maxKernels, ErrNotTrace)
	}
	b := make([]byte, p.length)
	if err := ReadInterleaved(k.m, k.banks, uint64(p.base), 1<<p.logPage, int(p.start), b); err != nil {
		return nil, err
	}
	k.seen[p] = b
	return b, nil
}
