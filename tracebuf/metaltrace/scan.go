package metaltrace

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

const (
	scanBlock = 1 << 20
	maxScan   = 64 << 20 // of the largest trace
)

var pageSizes = [...]int{1024, 2048, 4096, 8192}

// Candidate is a possible trace in DRAM: a chain of commands, valid in a revision of the protocol,
// that begins with the SET_WRITE_OFFSET of a program that waits for no earlier one, and ends with
// an EXEC_BUF_END and zeros up to the end of the page.
type Candidate struct {
	Addr      uint64   `json:"addr"` // in every bank
	Pages     int      `json:"pages"`
	PageSize  int      `json:"page_size"` // bytes
	Size      int      `json:"bytes"`     // of the commands
	Programs  int      `json:"programs"`  // go signals
	Revisions []string `json:"revisions"` // in which the commands are valid up to EXEC_BUF_END
}

// NearMiss is where DRAM begins like a trace and then isn't one.
type NearMiss struct {
	Addr     uint64 // in every bank
	PageSize int
	Revision string // that reads most
	Size     int    // bytes of commands up to there
	Err      error
}

// Scan looks for traces in the top window bytes of banks DRAM banks of size bytes: tt-metal keeps
// traces in a region at the top of each bank, or allocates them from the top down. A trace begins
// in bank 0, at a multiple of the DRAM alignment. Kernels aren't read, so a released trace is found
// too if it wasn't overwritten. The result is in the order of addresses. nearest is the begin of a
// trace that goes on for longest without being one, for those who find none; nil if there is none.
func Scan(ctx context.Context, m Memory, banks int, l cq.Layout, size, window uint64) (found []Candidate, nearest *NearMiss, err error) {
	s := scanner{ctx: ctx, m: m, banks: banks, layout: l, size: size}
	align := uint64(l.DRAMAlign())
	at := (size - min(window, size) + align - 1) / align * align
	block := make([]byte, scanBlock+cq.SlotStride(cq.HeaderSize))
	for ; at < size; at += scanBlock {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		b := block[:min(uint64(len(block)), size-at)]
		if err := m.ReadDRAM(0, at, b); err != nil {
			return nil, nil, err
		}
		for off := 0; off < scanBlock && off+2*cq.HeaderSize <= len(b); off += int(align) {
			if b[off] != byte(cq.PrefetchRelayInline) || b[off+cq.HeaderSize] != byte(cq.DispatchSetWriteOffset) {
				continue
			}
			c, err := s.candidate(at + uint64(off))
			if err != nil {
				return nil, nil, err
			}
			if c != nil {
				found = append(found, *c)
			}
		}
	}
	slices.SortFunc(found, func(a, b Candidate) int { return cmp.Compare(a.Addr, b.Addr) })
	return found, s.nearest, nil
}

type scanner struct {
	ctx    context.Context
	m      Memory
	banks  int
	layout cq.Layout
	size   uint64 // of a bank

	nearest *NearMiss
}

func (s *scanner) missed(addr uint64, page int, v *cq.Revision, read int, err error) {
	if s.nearest == nil || read > s.nearest.Size {
		s.nearest = &NearMiss{addr, page, v.Name, read, err}
	}
}

func (s *scanner) candidate(addr uint64) (*Candidate, error) {
	for _, page := range pageSizes {
		var c *Candidate
		for _, v := range cq.Revisions() {
			found, err := s.follow(addr, page, v)
			switch {
			case err != nil:
				return nil, err
			case found == nil:
			case c == nil:
				c = found
			default:
				c.Revisions = append(c.Revisions, v.Name)
			}
		}
		if c != nil {
			return c, nil
		}
	}
	return nil, nil
}

func (s *scanner) follow(addr uint64, page int, v *cq.Revision) (*Candidate, error) {
	room := int(min((s.size-addr)/uint64(page)*uint64(s.banks)*uint64(page), maxScan))
	var b []byte
	for n := max(page, 8192); ; n *= 2 {
		if s.ctx.Err() != nil {
			return nil, context.Cause(s.ctx)
		}
		n = min(n, room) / page * page
		if n <= len(b) {
			s.missed(addr, page, v, len(b), errors.New("the bank or the largest trace ends before an EXEC_BUF_END"))
			return nil, nil
		}
		more := make([]byte, n-len(b))
		if err := ReadInterleaved(s.m, s.banks, addr, page, len(b)/page, more); err != nil {
			return nil, err
		}
		b = append(b, more...)
		readings, err := v.Read(s.layout, b)
		if len(readings) == 0 {
			if err != nil && !errors.Is(err, cq.ErrTruncated) {
				s.missed(addr, page, v, 0, err)
				return nil, nil
			}
			continue
		}
		last := &readings[len(readings)-1]
		end := last.Offset + last.Size
		if last.Name == "EXEC_BUF_END" {
			c := &Candidate{Addr: addr, Pages: (end + page - 1) / page, PageSize: page, Size: end, Revisions: []string{v.Name}}
			for i := range readings {
				if readings[i].Name == "SEND_GO_SIGNAL" {
					c.Programs++
				}
			}
			rest := b[end : c.Pages*page]
			if !start(readings) || c.Programs == 0 || slices.ContainsFunc(rest, func(x byte) bool { return x != 0 }) {
				c = nil
				s.missed(addr, page, v, end, errors.New("it ends, but starts no program, waits for an earlier one, or has bytes after its end"))
			}
			return c, nil
		}
		if !start(readings) || err != nil && !errors.Is(err, cq.ErrTruncated) && end < len(b) {
			if err == nil {
				err = errors.New("its first program waits for an earlier one")
			}
			s.missed(addr, page, v, end, err)
			return nil, nil
		}
	}
}

// start: the first go signal of a trace waits for nothing.
func start(readings []cq.Reading) bool {
	if readings[0].Name != "SET_WRITE_OFFSET" {
		return false
	}
	for i := range readings {
		if readings[i].Name == "SEND_GO_SIGNAL" {
			return number(&readings[i], "wait_count") == 0
		}
	}
	return true
}
