package main

import (
	"slices"

	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/internal/rng"
)

// options are a training run's choices, made by cross-validation (-cv).
type options struct {
	seed     uint64
	epochs   int
	batch    int
	rate     float64 // at the start; it falls linearly to a hundredth
	momentum float64
	decay    float64
	shift    float64 // of the augmentation, pixels
	bend     float64 // of the augmentation, relative
}

// hidden are the widths of the hidden layers: multiples of 16 that fit into a page of 64 bytes.
var hidden = [...]int{64, 32}

// train fits a network to images. Its result depends only on images and options, on every
// architecture.
func train(images []digits.Image, o options, newModel func(*rng.Source) *model) *model {
	src := rng.Source(o.seed)
	m := newModel(&src)
	order := make([]int, len(images))
	x := make([]float64, digits.Pixels)
	for epoch := range o.epochs {
		rate := o.rate * (1 - float64(0.99*float64(epoch))/float64(o.epochs))
		for i := range order {
			order[i] = i
		}
		src.Shuffle(order)
		for batch := range slices.Chunk(order, o.batch) {
			for _, i := range batch {
				warp(x, &images[i], o.shift, o.bend, &src)
				m.learn(x, images[i].Label)
			}
			for _, s := range m.stages {
				s.step(&o, rate, len(batch))
			}
		}
	}
	return m
}

// newIntegerModel returns the network that becomes the integer network.
func newIntegerModel(src *rng.Source) *model {
	return newModel(src, digits.Pixels, hidden[0], hidden[1], digits.Classes)
}
