package tracebuf

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

// tagPrints is the section of the programs' prints, after tagPrograms, if there are any.
const tagPrints = "PRNT"

func (im *Image) prints() bool {
	for i := range im.Programs {
		if len(im.Programs[i].Prints) > 0 {
			return true
		}
	}
	return false
}

func (im *Image) encodePrints() []byte {
	n := uint32(0)
	var b []byte
	for i := range im.Programs {
		for _, p := range im.Programs[i].Prints {
			n++
			b = le.AppendUint32(le.AppendUint32(b, uint32(i)), p.ID)
			b = le.AppendUint32(b, uint32(len(p.Cores)))
			for _, r := range p.Cores {
				b = appendRange(b, r)
			}
			b = le.AppendUint32(b, uint32(len(p.Kernels)))
			for _, k := range p.Kernels {
				b = appendName(append(b, byte(k.Processor)), k.Name)
				b = append(le.AppendUint32(b, uint32(len(k.Formats))), k.Formats...)
			}
		}
	}
	return append(le.AppendUint32(nil, n), b...)
}

func (im *Image) readPrints(r *reader) {
	for range r.count(4 + 4 + 4 + 4) {
		i := r.u32()
		if i >= len(im.Programs) {
			r.fail("program %d of %d prints", i, len(im.Programs))
			return
		}
		p := print.Program{Name: im.Programs[i].Name, ID: uint32(r.number(4))}
		for range r.count(8) {
			p.Cores = append(p.Cores, r.cores())
		}
		for range r.count(1 + 2 + 4) {
			k := print.Kernel{Processor: chip.Processor(r.u8()), Name: r.name()}
			k.Formats = r.take(r.number(4))
			p.Kernels = append(p.Kernels, k)
		}
		im.Programs[i].Prints = append(im.Programs[i].Prints, p)
	}
}

func (p *Program) checkPrints(part string, workers chip.Range) error {
	for i := range p.Prints {
		r := p.Prints[i]
		for _, c := range r.Cores {
			if c.Start.X > c.End.X || c.Start.Y > c.End.Y || !workers.Contains(c.Start) || !workers.Contains(c.End) {
				return invalid(part, "it prints on cores %v, the queue has %v", c, workers)
			}
		}
		if len(r.Kernels) == 0 || len(r.Kernels) > chip.NumProcessors {
			return invalid(part, "%d kernels of a core print, there are %d processors", len(r.Kernels), chip.NumProcessors)
		}
		for _, k := range r.Kernels {
			if k.Processor >= chip.NumProcessors || len(k.Name) > maxName {
				return invalid(part, "a kernel on processor %d with a name of %d bytes prints", k.Processor, len(k.Name))
			}
		}
		id := r.ID
		if r.Identify(); r.ID != id || r.Name != p.Name {
			return invalid(part, "what it prints has the name %#x, want %#x", id, r.ID)
		}
	}
	return nil
}
