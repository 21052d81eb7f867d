package ops

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// format returns the format of a data type in the engines, which don't compute with the other data
// types.
func (t DataType) format() kernels.Format {
	switch t {
	case Float32:
		return kernels.FP32
	case Int32:
		return kernels.Int32
	case BFloat8B:
		return kernels.BFP8
	}
	return kernels.BF16
}

// onEngines reports whether the engines compute a result: all tensors are floats in tile layout,
// the operands of one data type.
func onEngines(out *Tensor, in ...*Tensor) bool {
	return floatTiles(append(slices.Clip(in), out)...) == nil
}

// floatTiles returns an error unless tensors are floats in tile layout: the engines can't compute
// with others.
func floatTiles(ts ...*Tensor) error {
	for _, t := range ts {
		if t.geo.spec.Layout != Tile || !t.geo.spec.DType.Float() {
			return t.unsupportedError()
		}
	}
	return nil
}

// inTiles returns an error unless tensors are in tile layout.
func inTiles(ts ...*Tensor) error {
	for _, t := range ts {
		if l := t.geo.spec.Layout; l != Tile {
			return fmt.Errorf("%w: a tensor in %v: want tiles (see ToLayout)", ErrMemory, l)
		}
	}
	return nil
}

// unsupportedError is the error of an operation that only the engines do, for a tensor that they
// can't compute with.
func (t *Tensor) unsupportedError() error {
	if s := t.geo.spec; !s.DType.Float() {
		return fmt.Errorf("%w: %v: want BFloat16 or Float32", ErrDataType, s.DType)
	}
	return inTiles(t)
}

// fits returns an error unless a tensor is one of a set.
func (t *Tensor) fits(set catalog.Tensors) error {
	switch {
	case set == catalog.FloatTiles, set == catalog.EngineTiles && !tilesForEngines(t):
		return floatTiles(t)
	case set == catalog.InTiles:
		return inTiles(t)
	}
	return nil
}

// tilesForEngines reports whether tensors are tiles of BFloat16, Float32 or Int32.
func tilesForEngines(ts ...*Tensor) bool {
	for _, t := range ts {
		if s := t.geo.spec; s.Layout != Tile || !s.DType.Float() && s.DType != Int32 {
			return false
		}
	}
	return true
}
