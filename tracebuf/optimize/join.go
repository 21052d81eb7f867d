package optimize

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Costs in clocks of the dispatcher, from replays on ttsim: of a command, of a write to a core and
// to a rectangle, and of 16 bytes of a write.
const (
	commandCost = 200
	coreCost    = 30
	rectCost    = 75
	columnCost  = 2
)

// same is a rectangle of cores that get the same bytes.
type same struct {
	core  int // one of them, in the WRITE_PACKED
	cores chip.VirtualRect
}

// piece is some columns of 16 bytes of the arguments. What only one core has is sent to it alone,
// unless that would be a command for few cores.
type piece struct {
	from, end, cost int
	rects, alone    []same
}

// join sends the arguments that several cores have in common to rectangles of them. It splits the
// arguments where that costs least.
func (r *rewriter) join(at int, w *cq.WritePacked) {
	columns := (int(w.Size) + cq.L1Align - 1) / cq.L1Align
	best := make([]piece, columns+1) // the last piece of the columns before
	for end := 1; end <= columns; end++ {
		for from := range end {
			p := piece{from: from, end: end, cost: best[from].cost}
			for _, s := range r.same(at, w, from, end) {
				if s.cores.Cores > 1 {
					p.rects = append(p.rects, s)
				} else {
					p.alone = append(p.alone, s)
				}
			}
			if len(p.rects) > 0 && len(p.alone)*(rectCost-coreCost) < commandCost {
				p.rects, p.alone = append(p.rects, p.alone...), nil
			}
			cost := func(of []same, each int) {
				if len(of) > 0 {
					p.cost += commandCost + len(of)*(each+(end-from)*columnCost)
				}
			}
			cost(p.rects, rectCost)
			cost(p.alone, coreCost)
			if from == 0 || p.cost < best[end].cost {
				best[end] = p
			}
		}
	}
	rects, alone := 0, 0
	for end := columns; end > 0; end = best[end].from {
		p := &best[end]
		rects, alone = rects+len(p.rects), alone+len(p.alone)
		r.send(at, w, p, p.rects, func(c *cq.WritePacked, s same) {
			c.Rects = append(c.Rects, cq.Rect{NOC: r.ch.Arch().NOCMulticast(s.cores.Start, s.cores.End), Dests: uint32(s.cores.Cores)})
		})
		r.send(at, w, p, p.alone, func(c *cq.WritePacked, s same) { c.Cores = append(c.Cores, w.Cores[s.core]) })
	}
	if rects > 0 {
		r.change(tracebuf.Joined, fmt.Sprintf("arguments of %d B for %d cores are %d writes to rectangles and %d to one core", w.Size, len(w.Cores),
			rects, alone))
	}
}

func (r *rewriter) send(at int, w *cq.WritePacked, p *piece, of []same, to func(*cq.WritePacked, same)) {
	if len(of) == 0 {
		return
	}
	from, end := p.from*cq.L1Align, min(p.end*cq.L1Align, int(w.Size))
	c := cq.WritePacked{Type: w.Type, OffsetIndex: w.OffsetIndex, Size: uint16(end - from), Addr: w.Addr + uint32(from)}
	for _, s := range of {
		to(&c, s)
		c.Data = append(c.Data, w.Slot(s.core)[from:from+cq.SlotStride(end-from)]...)
	}
	packed := r.b.WritePacked(c)
	for k, s := range of {
		r.move(slotAt(at, w, s.core)+from, packed.Slot(k), end-from)
	}
}

func slotAt(at int, w *cq.WritePacked, i int) int {
	return at + cq.SlotStride(cq.AtPackedCore(len(w.Cores))) + i*cq.SlotStride(int(w.Size))
}

// same covers the cores by rectangles with the same bytes and parameters in some columns.
func (r *rewriter) same(at int, w *cq.WritePacked, from, end int) (out []same) {
	from, end = from*cq.L1Align, min(end*cq.L1Align, int(w.Size))
	classes := map[string]map[chip.Core]int{}
	for i := range w.Cores {
		key := slices.Clone(w.Slot(i)[from:end])
		for o := from; o < end; o += 4 {
			key = binary.AppendUvarint(key, uint64(r.param(slotAt(at, w, i)+o)))
		}
		class := classes[string(key)]
		if class == nil {
			class = map[chip.Core]int{}
			classes[string(key)] = class
		}
		core, _ := r.ch.Logical(r.ch.Arch().ParseNOCXY(w.Cores[i])) // it is one: the file is valid
		class[core] = i
	}
	for _, key := range slices.Sorted(maps.Keys(classes)) {
		class := classes[key]
		for _, cores := range chip.Cover(slices.Collect(maps.Keys(class))) {
			for _, v := range r.ch.Rects(cores) {
				first, _ := r.ch.Logical(v.Start)
				out = append(out, same{class[first], v})
			}
		}
	}
	slices.SortFunc(out, func(a, b same) int { return a.core - b.core })
	return out
}
