package main

import (
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/internal/rng"
)

// options are the choices of a training run. They were made by cross-validation inside the training part (-cv).
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

// defaults are those of the integer network.
func defaults() options {
	return options{seed: 1998, epochs: 100, batch: 16, rate: 0.05, momentum: 0.9, decay: 3e-4, shift: 0.5, bend: 0.1}
}

// convDefaults are those of the convolutional network.
func convDefaults() options {
	return options{seed: 1998, epochs: 30, batch: 16, rate: 0.05, momentum: 0.9, decay: 1e-3, shift: 0.5, bend: 0.1}
}

// hidden are the widths of the two hidden layers: multiples of 16, and small enough that a layer's page is 64 bytes.
var hidden = [...]int{64, 32}

// learner is a network that is trained.
type learner interface {
	forward(x []float64) []float64
	learn(x []float64, label uint8) // adds the gradients of a sample
	step(rate, momentum, decay float64, batch int)
}

// train fits the network that becomes the integer network to images. The same images and options give the same network on every
// architecture.
func train(images []digits.Image, o options) model {
	src := rng.Source(o.seed)
	m := newModel(&src, digits.Pixels, hidden[0], hidden[1], digits.Classes)
	fit(m, images, o, &src)
	return m
}

// trainConv fits the convolutional network to images, in the same way.
func trainConv(images []digits.Image, o options) *convModel {
	src := rng.Source(o.seed)
	m := newConvModel(&src)
	fit(m, images, o, &src)
	return m
}

// fit trains a network on images.
func fit(m learner, images []digits.Image, o options, src *rng.Source) {
	order := make([]int, len(images))
	for i := range order {
		order[i] = i
	}
	x := make([]float64, digits.Pixels)
	for epoch := range o.epochs {
		rate := o.rate * (1 - float64(0.99*float64(epoch))/float64(o.epochs))
		src.Shuffle(order)
		for len(order) > 0 {
			n := min(o.batch, len(order))
			for _, i := range order[:n] {
				warp(x, &images[i], o.shift, o.bend, src)
				m.learn(x, images[i].Label)
			}
			m.step(rate, o.momentum, o.decay, n)
			order = order[n:]
		}
		order = order[:0:0]
		for i := range images {
			order = append(order, i)
		}
	}
}
