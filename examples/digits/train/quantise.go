package main

import (
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/examples/digits"
)

// quantise turns a trained model into the integer network. Each layer has one scale for its
// weights, whose largest becomes 127, and one for its outputs, whose largest for the training
// images becomes 127. The factor between a sum and an output is a multiplier of ten bits and a
// shift.
func quantise(m *model, images []digits.Image) (*digits.Network, error) {
	peaks := activations(m, images)
	inScale := 1.0 / digits.MaxPixel
	var layers []*digits.Layer
	for i := range m.stages {
		d := m.dense(i)
		wScale := largest(d.w) / math.MaxInt8
		sumScale := float64(inScale * wScale)
		c := digits.LayerConfig{
			In: d.in, Out: d.out, Scores: i == len(m.stages)-1,
			InputScale: inScale, WeightScale: wScale, OutputScale: sumScale,
		}
		for _, w := range d.w {
			c.Weights = append(c.Weights, int8(math.Round(w/wScale)))
		}
		for _, b := range d.b {
			c.Biases = append(c.Biases, int32(math.Round(b/sumScale)))
		}
		if !c.Scores {
			c.OutputScale = peaks[i] / math.MaxInt8
			c.Multiplier, c.Shift = ratio(sumScale / c.OutputScale)
		}
		l, err := digits.NewLayer(c)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		layers = append(layers, l)
		inScale = c.OutputScale
	}
	return digits.NewNetwork(layers...)
}

// ratio returns multiplier and shift with multiplier/2^shift close to f and multiplier below 1024.
func ratio(f float64) (multiplier, shift uint32) {
	frac, exp := math.Frexp(f) // f = frac * 2^exp, frac in [0.5, 1)
	multiplier = uint32(math.Round(frac * 1024))
	return multiplier, uint32(10 - exp)
}

// activations returns the largest output of each layer over images.
func activations(m *model, images []digits.Image) []float64 {
	peaks := make([]float64, len(m.stages))
	x := make([]float64, digits.Pixels)
	for i := range images {
		ink(x, &images[i])
		m.forward(x)
		for j := range peaks {
			peaks[j] = max(peaks[j], largest(m.dense(j).y))
		}
	}
	return peaks
}

// largest returns the largest magnitude.
func largest(v []float64) float64 {
	top := 0.0
	for _, x := range v {
		top = max(top, math.Abs(x))
	}
	return top
}
