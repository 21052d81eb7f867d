package metaltrace

import (
	"bytes"
	"context"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// Library has the kernels of kernel caches by base firmware and processor, to be found by their bytes.
type Library struct {
	firmware []*metal.Firmware
	kernels  map[*metal.Firmware]*[chip.NumProcessors][]known
	problems []error
}

// known is a kernel of a library: its name, and its text and initial data as they lie in L1.
type known struct {
	name string
	text []byte
}

// NewLibrary reads all kernels of a cache that base firmware of the cache runs. The error is the context's; kernels that can't be
// used are among Problems.
func NewLibrary(ctx context.Context, c *metal.Cache) (*Library, error) {
	l := &Library{firmware: slices.Clone(c.Firmware), kernels: map[*metal.Firmware]*[chip.NumProcessors][]known{}}
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
		l.add(f, p, k.Name, im.Text)
		// Base firmware of another build may be the same.
		for _, o := range c.Firmware {
			if o != f && o.CheckProcessor(im, p) == nil {
				l.add(o, p, k.Name, im.Text)
			}
		}
	}
	return l, nil
}

func (l *Library) add(f *metal.Firmware, p chip.Processor, name string, text []byte) {
	of := l.kernels[f]
	if of == nil {
		of = new([chip.NumProcessors][]known)
		l.kernels[f] = of
	}
	of[p] = append(of[p], known{name, text})
}

// Firmware returns the base firmware that kernels of the library were linked with.
func (l *Library) Firmware() []*metal.Firmware {
	return slices.DeleteFunc(slices.Clone(l.firmware), func(f *metal.Firmware) bool { return l.kernels[f] == nil })
}

// Problems says which files of the cache are no kernels that can run, and why.
func (l *Library) Problems() []error { return l.problems }

// find returns the longest kernel that memory begins with, nil if there is none.
func (l *Library) find(f *metal.Firmware, p chip.Processor, memory []byte) *known {
	of := l.kernels[f]
	if of == nil {
		return nil
	}
	var best *known
	for i := range of[p] {
		k := &of[p][i]
		if (best == nil || len(k.text) > len(best.text)) && len(k.text) > 0 && bytes.HasPrefix(memory, k.text) {
			best = k
		}
	}
	return best
}
