package recording

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/sparse"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/tracebuf"
)

// memory are words of DRAM.
type memory struct {
	sparse.Memory
	banks []uint64
	seen  func(bank int, addr uint64, n int) // is called for each read, if not nil
}

// ReadDRAM implements metaltrace.Memory. Words that are missing are zero.
func (m *memory) ReadDRAM(bank int, addr uint64, p []byte) error {
	if m.seen != nil {
		m.seen(bank, addr, len(p))
	}
	for i := range p {
		a := addr + uint64(i)
		v, _ := m.Get(m.banks[bank] + a&^3)
		p[i] = byte(v >> (a % 4 * 8))
	}
	return nil
}

// kind are the banks of DRAM or L1.
type kind struct {
	code  uint8    // tracebuf.KindDRAM or KindL1
	align int      // bytes
	size  uint64   // of a bank
	banks []uint64 // addresses in a Memory, in the order in which TT-NN interleaves pages
	cores []int    // banks by core, in rows; for DRAM those of (bank,0)
	width int
}

func dram(ch *chip.Chip) *kind {
	k := &kind{code: tracebuf.KindDRAM, align: int(ch.Params().Align.DRAM())}
	for i, b := range ch.DRAMBanks() {
		k.size, k.banks, k.cores = b.Size, append(k.banks, emu.TrackAddress(b.Controller, b.Offset)), append(k.cores, i)
	}
	k.width = len(k.banks)
	return k
}

// findL1 returns the workers' L1, whose banks firmware knows from a table of workers' virtual
// coordinates (abi.L1Places), in no order that a document tells; nil if the host stored none.
func (r *reader) findL1(of int, steps []libttsim.Step) *kind {
	var best []chip.Core
	for _, s := range steps {
		for _, h := range s.Host {
			var cores []chip.Core
			for i := 0; i+2 <= len(h.Data) && s.Chip == of && !h.Load; i += 2 {
				xy, ok := r.split(uint32(binary.LittleEndian.Uint16(h.Data[i:])))
				c, worker := r.Chip.Logical(xy)
				if ok = ok && worker; !ok || slices.Contains(cores, c) {
					cores = cores[:0]
				}
				if ok {
					if cores = append(cores, c); len(cores) > len(best) {
						best = slices.Clone(cores)
					}
				}
			}
		}
	}
	k := &kind{code: tracebuf.KindL1, align: cq.L1Align, size: uint64(r.Chip.Params().L1Size), cores: make([]int, len(best))}
	for _, c := range best {
		k.width = max(k.width, c.X+1)
	}
	for i, c := range best {
		xy, err := r.Chip.Physical(c)
		if err != nil || c.Y*k.width+c.X >= len(best) {
			return nil
		}
		k.banks, k.cores[c.Y*k.width+c.X] = append(k.banks, emu.TrackL1Address(xy, 0)), i
	}
	if len(best) == 0 {
		return nil
	}
	return k
}

// bank returns the bank of a core, or (bank,0) for DRAM; -1 if it has none.
func (k *kind) bank(c chip.Core) int {
	if i := c.Y*k.width + c.X; c.X >= 0 && c.X < k.width && c.Y >= 0 && i < len(k.cores) {
		return k.cores[i]
	}
	return -1
}

// place returns the bank of a word in a Memory, -1 for none, and its address there.
func (k *kind) place(at uint64) (bank int, addr uint64) {
	for i, b := range k.banks {
		if at-b < k.size {
			return i, at - b
		}
	}
	return -1, 0
}

// extent are pages in DRAM or L1.
type extent struct {
	*kind
	base        uint64 // in every bank
	page, pages int    // bytes of a page, which is whole alignments
	sharding    *allocator.ShardSpec
	dist        *allocator.Distribution // of sharding
	linear      bool                    // one page of each core, which the host uses without telling what they belong to
	name        string                  // of the buffer
	tensor      *Tensor
}

// shard sets the cores of an extent.
func (x *extent) shard(s *allocator.ShardSpec) (err error) {
	x.dist, err = allocator.NewDistribution(*s)
	x.sharding = s
	for i := 0; err == nil && i < len(x.dist.Cores()); i++ {
		if c := x.dist.Cores()[i]; x.bank(c) < 0 {
			err = fmt.Errorf("there is no bank of core %v", c)
		}
	}
	return err
}

// alone makes an extent a page on each of some cores.
func (x *extent) alone(cores ...chip.Core) error {
	slices.SortFunc(cores, chip.Core.Compare)
	cores = slices.Compact(cores)
	s := &allocator.ShardSpec{Layout: allocator.HeightSharded, Tensor: []int{len(cores), 1}, Shard: []int{1, 1}}
	for _, c := range cores {
		s.Cores = append(s.Cores, c.Range())
	}
	x.linear, x.pages = true, len(cores)
	return x.shard(s)
}

// size returns the bytes of a page without what aligns it.
func (x *extent) size() int {
	if x.tensor != nil {
		return x.tensor.PageSize
	}
	return x.page
}

// end is behind the extent's last row of pages.
func (x *extent) end() uint64 {
	rows := 0
	if x.dist != nil {
		rows = x.dist.CorePages()
	} else {
		rows = (x.pages + len(x.banks) - 1) / len(x.banks)
	}
	return x.base + uint64(rows*x.page)
}

func (x *extent) overlaps(o *extent) bool {
	return x.kind == o.kind && x.base < o.end() && o.base < x.end()
}

func (x *extent) has(o *extent) bool {
	return x.kind == o.kind && x.base <= o.base && o.end() <= x.end()
}

// words calls f for each word of a page, until it returns false.
func (x *extent) words(page int, f func(at uint64) bool) {
	bank, row := page%len(x.banks), page/len(x.banks)
	if x.dist != nil {
		core, slot := x.dist.Page(page)
		bank, row = x.bank(x.dist.Cores()[core]), slot
	}
	for i := 0; i < x.page; i += 4 {
		if !f(x.banks[bank] + x.base + uint64(row*x.page+i)) {
			return
		}
	}
}

// content returns the extent's bytes in m, and whether some of its words are there.
func (x *extent) content(m sparse.Memory) (b []byte, some bool) {
	for p := range x.pages {
		x.words(p, func(at uint64) bool {
			v, ok := m.Get(at)
			b, some = binary.LittleEndian.AppendUint32(b, v), some || ok
			return true
		})
		b = b[:(p+1)*x.size()]
	}
	return b, some
}

// first returns the extent's first word that is in m.
func (x *extent) first(m sparse.Memory) (a uint64, some bool) {
	for p := 0; p < x.pages && !some; p++ {
		x.words(p, func(at uint64) bool {
			a = at
			_, some = m.Get(at)
			return !some
		})
	}
	return a, some
}
