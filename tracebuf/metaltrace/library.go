package metaltrace

import (
	"bytes"
	"context"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// Library finds the kernels of a kernel cache by base firmware, processor and bytes.
type Library struct {
	firmware []*metal.Firmware
	all      []known
	kernels  map[*metal.Firmware]*[chip.NumProcessors][]known
	problems []error
}

type known struct {
	name      string
	processor chip.Processor
	firmware  *metal.Firmware // of its build
	image     *kernels.Image
}

// NewLibrary reads the kernels of a cache for which the cache has base firmware. The error is the
// context's; unusable kernels are among Problems.
func NewLibrary(ctx context.Context, c *metal.Cache) (*Library, error) {
	l := &Library{kernels: map[*metal.Firmware]*[chip.NumProcessors][]known{}}
	for i := range c.Kernels {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		k := &c.Kernels[i]
		im, err := k.Load()
		if err != nil {
			l.problems = append(l.problems, err)
			continue
		}
		f, p, err := c.FirmwareOf(k, im)
		if err != nil {
			l.problems = append(l.problems, err)
			continue
		}
		l.all = append(l.all, known{k.Name, p, f, im})
	}
	for _, f := range c.Firmware {
		if slices.ContainsFunc(l.all, func(k known) bool { return k.firmware == f }) {
			l.firmware = append(l.firmware, f)
			l.index(f, func(k *known) bool { return k.firmware == f })
		}
	}
	return l, nil
}

func (l *Library) index(f *metal.Firmware, is func(*known) bool) *[chip.NumProcessors][]known {
	of := new([chip.NumProcessors][]known)
	for i := range l.all {
		if k := &l.all[i]; is(k) {
			of[k.processor] = append(of[k.processor], *k)
		}
	}
	l.kernels[f] = of
	return of
}

// Firmware returns the base firmware of the cache that has kernels.
func (l *Library) Firmware() []*metal.Firmware { return slices.Clone(l.firmware) }

// find returns the longest kernel at the start of memory. For firmware outside of the library,
// symbols tell which kernels it runs.
func (l *Library) find(f *metal.Firmware, p chip.Processor, memory []byte) *known {
	of := l.kernels[f]
	if of == nil {
		of = l.index(f, func(k *known) bool { return f.CheckProcessor(k.image, k.processor) == nil })
	}
	var best *known
	for i := range of[p] {
		k := &of[p][i]
		if n := len(k.image.Text); n > 0 && (best == nil || n > len(best.image.Text)) && bytes.HasPrefix(memory, k.image.Text) {
			best = k
		}
	}
	return best
}

func (l *Library) Problems() []error { return l.problems }
