package ops

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// format returns the engines' format of a data type that they compute with.
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

// onEngines reports whether all tensors are floats in tile layout, which the engines compute with.
func onEngines(out *Tensor, in ...*Tensor) bool {
	return floatTiles(append(slices.Clip(in), out)...) == nil
}

func floatTiles(ts ...*Tensor) error {
	for _, t := range ts {
		if t.geo.spec.Layout != Tile || !t.geo.spec.DType.Float() {
			return t.unsupportedError()
		}
	}
	return nil
}

func inTiles(ts ...*Tensor) error {
	for _, t := range ts {
		if l := t.geo.spec.Layout; l != Tile {
			return fmt.Errorf("%w: a tensor in %v: want tiles (see ToLayout)", ErrMemory, l)
		}
	}
	return nil
}

// unsupportedError is the error for a tensor that the engines can't compute with.
func (t *Tensor) unsupportedError() error {
	if s := t.geo.spec; !s.DType.Float() {
		return fmt.Errorf("%w: %v: want BFloat16 or Float32", ErrDataType, s.DType)
	}
	return inTiles(t)
}

func (t *Tensor) fits(set catalog.Tensors) error {
	switch {
	case set == catalog.FloatTiles, set == catalog.EngineTiles && !tilesForEngines(t):
		return floatTiles(t)
	case set == catalog.InTiles:
		return inTiles(t)
	}
	return nil
}

func tilesForEngines(ts ...*Tensor) bool {
	for _, t := range ts {
		if s := t.geo.spec; s.Layout != Tile || !s.DType.Float() && s.DType != Int32 {
			return false
		}
	}
	return true
}
