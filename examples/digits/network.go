package digits

import (
	_ "embed" // the trained weights are part of the package
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

//go:embed weights.bin
var weightsFile []byte

// PageBytes is the size of an activation page: one image, or one image's results. It is the largest
// DRAM alignment of the two architectures, so pages of interleaved buffers have no padding.
const PageBytes = 64

const (
	layerMagic  = 0x4C445052 // "RPDL"
	flagScores  = 1
	fileMagic   = "RPDIGIT1"
	headerBytes = 64 // of the file, and of a layer
)

// ErrFormat means that a file of weights is damaged.
var ErrFormat = errors.New("not in the weights format")

// Page is the activations of one image between two layers; the package comment has its layouts.
type Page [PageBytes]byte

// Page returns the network's input page of an image.
func (m Image) Page() Page { return m.Pixels }

// Layer is a dense layer with int8 weights, immutable.
type Layer struct {
	packed            []byte
	in, out           int
	scores            bool
	multiplier        int32
	shift             uint32
	biasAt, weightsAt int // in packed
}

func unpackLayer(b []byte) (*Layer, []byte, error) {
	var h struct{ Magic, In, Out, Rows, Multiplier, Shift, Flags, Biases, Weights, Size uint32 }
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil || h.Magic != layerMagic || uint64(h.Size) > uint64(len(b)) ||
		uint64(h.Weights)+uint64(h.Rows)*uint64(h.In) > uint64(h.Size) || uint64(h.Biases)+4*uint64(h.Rows) > uint64(h.Size) ||
		h.Out > h.Rows || h.In > PageBytes || h.Rows > PageBytes {
		return nil, nil, fmt.Errorf("digits: layer of %d bytes: %w", len(b), ErrFormat)
	}
	return &Layer{
		packed: b[:h.Size], in: int(h.In), out: int(h.Out), scores: h.Flags&flagScores != 0, multiplier: int32(h.Multiplier), shift: h.Shift,
		biasAt: int(h.Biases), weightsAt: int(h.Weights),
	}, b[h.Size:], nil
}

// Pack returns the layer's bytes for the device; the package comment has the layout.
func (l *Layer) Pack() []byte { return l.packed }

// Forward returns the page that a device writes for a page of input.
func (l *Layer) Forward(in Page) Page {
	var out Page
	for o := range l.out {
		acc := int32(binary.LittleEndian.Uint32(l.packed[l.biasAt+4*o:]))
		for i, w := range l.packed[l.weightsAt+o*l.in:][:l.in] {
			acc += int32(int8(w)) * int32(int8(in[i]))
		}
		if l.scores {
			binary.LittleEndian.PutUint32(out[4*o:], uint32(acc))
		} else {
			out[o] = byte(min(max((acc*l.multiplier+1<<(l.shift-1))>>l.shift, 0), math.MaxInt8))
		}
	}
	return out
}

// Network is a sequence of layers, immutable.
type Network struct{ layers []*Layer }

// Trained returns the network of the embedded weights.bin, trained on the first result of [Split].
func Trained() (*Network, error) { return decode(weightsFile) }

func decode(b []byte) (*Network, error) {
	var h struct {
		Magic            [len(fileMagic)]byte
		Count, Sum, Size uint32
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil || len(b) < headerBytes || string(h.Magic[:]) != fileMagic ||
		int(h.Size) != len(b) || h.Sum != crc32.ChecksumIEEE(b[headerBytes:]) {
		return nil, fmt.Errorf("digits: weights of %d bytes: %w", len(b), ErrFormat)
	}
	n, rest := &Network{}, b[headerBytes:]
	for range h.Count {
		l, after, err := unpackLayer(rest)
		if err != nil {
			return nil, err
		}
		n.layers, rest = append(n.layers, l), after
	}
	return n, nil
}

// Layers returns the layers in order, for running them one by one on a device.
func (n *Network) Layers() []*Layer { return slices.Clone(n.layers) }

// Forward returns the ten scores of an image, exactly as a device computes them.
func (n *Network) Forward(pixels [Pixels]uint8) [Classes]int32 {
	p := Page(pixels)
	for _, l := range n.layers {
		p = l.Forward(p)
	}
	return Scores(p)
}

// Scores reads the ten scores from a page that a last layer wrote.
func Scores(p Page) (s [Classes]int32) {
	for i := range s {
		s[i] = int32(binary.LittleEndian.Uint32(p[4*i:]))
	}
	return s
}
