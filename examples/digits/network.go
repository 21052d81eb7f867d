package digits

import "fmt"

// PageBytes is the size of an activation page: one image, or one image's results. It is the largest
// DRAM alignment of the two architectures, so pages of interleaved buffers have no padding.
const PageBytes = 64

// Page is the activations of one image between two layers; the package comment has its layouts.
type Page [PageBytes]byte

// Page returns the network's input page of an image.
func (m Image) Page() Page { return m.Pixels }

// Network is a sequence of layers. It is immutable and safe for concurrent use.
type Network struct {
	layers []*Layer
}

// NewNetwork checks that the layers fit each other: the first takes an image's pixels, each takes
// the outputs of the one before, and only the last has ten scores. Errors wrap ErrShape.
func NewNetwork(layers ...*Layer) (*Network, error) {
	if len(layers) == 0 {
		return nil, fmt.Errorf("digits: new network: no layers: %w", ErrShape)
	}
	in := Pixels
	for i, l := range layers {
		last := i == len(layers)-1
		switch {
		case l == nil:
			return nil, fmt.Errorf("digits: new network: layer %d is nil: %w", i, ErrShape)
		case l.in != in:
			return nil, fmt.Errorf("digits: new network: layer %d takes %d inputs, gets %d: %w", i, l.in, in, ErrShape)
		case l.scores != last:
			return nil, fmt.Errorf("digits: new network: layer %d of %d: only the last layer has scores: %w",
				i, len(layers), ErrShape)
		}
		in = l.out
	}
	if in != Classes {
		return nil, fmt.Errorf("digits: new network: %d scores, want %d: %w", in, Classes, ErrShape)
	}
	return &Network{layers: append([]*Layer(nil), layers...)}, nil
}

// Layers returns the layers in order, for running them one by one on a device.
func (n *Network) Layers() []*Layer { return append([]*Layer(nil), n.layers...) }

// Forward returns the ten scores of an image, exactly as a device computes them.
func (n *Network) Forward(pixels [Pixels]uint8) [Classes]int32 {
	p := Page(pixels)
	for _, l := range n.layers {
		p = l.Forward(p)
	}
	return Scores(p)
}

// Classify returns the digit that the network recognises in an image.
func (n *Network) Classify(pixels [Pixels]uint8) uint8 { return Best(n.Forward(pixels)) }

// Scores reads the ten scores from a page that a last layer wrote.
func Scores(p Page) [Classes]int32 {
	var s [Classes]int32
	for i := range s {
		s[i] = int32(le.Uint32(p[4*i:]))
	}
	return s
}

// Best returns the digit with the largest score, the lowest such digit when several share it.
func Best(scores [Classes]int32) uint8 {
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return uint8(best)
}
