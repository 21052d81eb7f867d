package print

import (
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
	prints := printing(programs)
	for _, p := range programs {
		d.Add(p)
	}
	for _, c := range cores {
		headers, err := readHeaders(dev, area, c)
		if err != nil {
			continue
		}
		var of []Record
		for p, h := range headers {
			at := place{c, chip.Processor(p)}
			from, ok := h.start(h.tail)
			if !ok || !slices.Contains(prints, at) {
				continue
			}
			if data, err := readRing(dev, area, at, from, h.put); err == nil {
				of, _ = d.decode(of, at, wordsOf(data))
				of = d.end(of, at)
			}
		}
		slices.SortStableFunc(of, Record.byTime)
		out = append(out, of...)
	}
	return out
}
