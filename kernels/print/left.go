package print

import (
	"cmp"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// Left returns the records in the rings of cores, also those that a Listener took, by device time.
// It writes nothing to the device, and leaves out cores that can't be read.
func Left(dev Device, cores []chip.Core) (out []Record) {
	area, ok := dev.PrintArea()
	programs, _ := dev.Printing(0)
	if !ok || len(programs) == 0 {
		return nil
	}
	d := NewDecoder("")
	prints := map[place]bool{}
	for _, p := range programs {
		d.Add(p)
		for _, r := range p.Cores {
			for c := range r.Cores() {
				for _, k := range p.Kernels {
					prints[place{c, k.Processor}] = true
				}
			}
		}
	}
	for _, c := range cores {
		var headers [HeadersSize]byte
		if dev.ReadL1(c, area, headers[:]) != nil {
			continue
		}
		var of []Record
		for p := range chip.Processor(chip.NumProcessors) {
			at, h := place{c, p}, parseHeader(headers[:], p)
			from, ok := h.start(h.tail)
			if !prints[at] || !ok {
				continue
			}
			data := make([]byte, RingSize)
			if dev.ReadL1(c, area+ringsAt+uint32(p)*RingSize, data) != nil {
				continue
			}
			var words []uint32
			for _, s := range spans(from, h.put) {
				words = append(words, wordsOf(data[s[0]:s[0]+s[1]])...)
			}
			of, _ = d.decode(of, at, words)
			of = d.end(of, at)
		}
		slices.SortStableFunc(of, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
		out = append(out, of...)
	}
	return out
}
