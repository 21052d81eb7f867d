package digits

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
)

// The packed layer and the file of weights; the package comment has the tables.
const (
	layerMagic   = 0x4C445052 // "RPDL"
	layerHeader  = 64
	flagScores   = 1 << 0
	fileMagic    = "RPDIGIT1"
	fileHeader   = 64
	maxLayers    = 16
	packedAlign  = 64
	offMagic     = 0
	offIn        = 4
	offOut       = 8
	offRows      = 12
	offMult      = 16
	offShift     = 20
	offFlags     = 24
	offBiases    = 28
	offWeights   = 32
	offSize      = 36
	offInScale   = 40
	offWScale    = 48
	offOutScale  = 56
	offFileCount = 8
	offFileCRC   = 12
	offFileSize  = 16
	offFileZero  = 20
)

func (l *Layer) sizes() (weights, size int) {
	weights = layerHeader + roundUp(4*l.rows, packedAlign)
	return weights, weights + roundUp(l.rows*l.in, packedAlign)
}

// PackedSize returns the length of the packed layer in bytes, a multiple of 64.
func (l *Layer) PackedSize() int {
	_, size := l.sizes()
	return size
}

// Pack returns the layer's bytes for the device; the package comment has the layout.
func (l *Layer) Pack() []byte {
	weights, size := l.sizes()
	b := make([]byte, size)
	flags := uint32(0)
	if l.scores {
		flags |= flagScores
	}
	le.PutUint32(b[offMagic:], layerMagic)
	le.PutUint32(b[offIn:], uint32(l.in))
	le.PutUint32(b[offOut:], uint32(l.out))
	le.PutUint32(b[offRows:], uint32(l.rows))
	le.PutUint32(b[offMult:], uint32(l.multiplier))
	le.PutUint32(b[offShift:], l.shift)
	le.PutUint32(b[offFlags:], flags)
	le.PutUint32(b[offBiases:], layerHeader)
	le.PutUint32(b[offWeights:], uint32(weights))
	le.PutUint32(b[offSize:], uint32(size))
	le.PutUint64(b[offInScale:], math.Float64bits(l.inputScale))
	le.PutUint64(b[offWScale:], math.Float64bits(l.weightScale))
	le.PutUint64(b[offOutScale:], math.Float64bits(l.scale))
	for i, v := range l.biases {
		le.PutUint32(b[layerHeader+4*i:], uint32(v))
	}
	for i, w := range l.weights {
		b[weights+i] = byte(w)
	}
	return b
}

// UnpackLayer reads a packed layer from the start of b and returns the rest of b. It accepts only
// bytes that Pack can write. Errors wrap ErrFormat, ErrShape or ErrRequantise.
func UnpackLayer(b []byte) (*Layer, []byte, error) {
	if len(b) < layerHeader || le.Uint32(b) != layerMagic {
		return nil, nil, fmt.Errorf("digits: unpack layer: no layer header in %d bytes: %w", len(b), ErrFormat)
	}
	in, out := le.Uint32(b[offIn:]), le.Uint32(b[offOut:])
	if in > PageBytes || out < 1 || out > PageBytes {
		return nil, nil, fmt.Errorf("digits: unpack layer: %d by %d: %w", out, in, ErrShape)
	}
	c := LayerConfig{
		In: int(in), Out: int(out), Scores: le.Uint32(b[offFlags:])&flagScores != 0,
		Multiplier: le.Uint32(b[offMult:]), Shift: le.Uint32(b[offShift:]),
		InputScale:  math.Float64frombits(le.Uint64(b[offInScale:])),
		WeightScale: math.Float64frombits(le.Uint64(b[offWScale:])),
		OutputScale: math.Float64frombits(le.Uint64(b[offOutScale:])),
	}
	weights, size := (&Layer{in: c.In, rows: roundUp(c.Out, RowMultiple)}).sizes()
	if len(b) < size {
		return nil, nil, fmt.Errorf("digits: unpack layer: %d by %d takes %d bytes, have %d: %w",
			out, in, size, len(b), ErrFormat)
	}
	for o := range c.Out {
		c.Biases = append(c.Biases, int32(le.Uint32(b[layerHeader+4*o:])))
	}
	for _, w := range b[weights : weights+c.In*c.Out] {
		c.Weights = append(c.Weights, int8(w))
	}
	l, err := NewLayer(c)
	if err != nil {
		return nil, nil, err
	}
	// Pack it again to find every inconsistency of offsets, padding and flags.
	if !bytes.Equal(l.Pack(), b[:size]) {
		return nil, nil, fmt.Errorf("digits: unpack layer: offsets, flags or padding of %d by %d: %w", out, in, ErrFormat)
	}
	return l, b[size:], nil
}

// Encode returns the network as a file of weights.
func (n *Network) Encode() []byte {
	b := make([]byte, fileHeader)
	for _, l := range n.layers {
		b = append(b, l.Pack()...)
	}
	copy(b, fileMagic)
	le.PutUint32(b[offFileCount:], uint32(len(n.layers)))
	le.PutUint32(b[offFileCRC:], crc32.ChecksumIEEE(b[fileHeader:]))
	le.PutUint32(b[offFileSize:], uint32(len(b)))
	return b
}

// DecodeNetwork reads a file of weights. Errors wrap ErrFormat, ErrChecksum, ErrShape or
// ErrRequantise.
func DecodeNetwork(b []byte) (*Network, error) {
	if len(b) < fileHeader || string(b[:len(fileMagic)]) != fileMagic {
		return nil, fmt.Errorf("digits: decode network: no header %q in %d bytes: %w", fileMagic, len(b), ErrFormat)
	}
	if size := le.Uint32(b[offFileSize:]); uint64(size) != uint64(len(b)) {
		return nil, fmt.Errorf("digits: decode network: header says %d bytes, have %d: %w", size, len(b), ErrFormat)
	}
	if want, got := le.Uint32(b[offFileCRC:]), crc32.ChecksumIEEE(b[fileHeader:]); want != got {
		return nil, fmt.Errorf("digits: decode network: content has CRC-32 %08x, header says %08x: %w", got, want, ErrChecksum)
	}
	count := le.Uint32(b[offFileCount:])
	if count > maxLayers || len(bytes.Trim(b[offFileZero:fileHeader], "\x00")) != 0 {
		return nil, fmt.Errorf("digits: decode network: %d layers, at most %d, or reserved bytes in use: %w",
			count, maxLayers, ErrFormat)
	}
	rest := b[fileHeader:]
	layers := make([]*Layer, count)
	for i := range layers {
		var err error
		if layers[i], rest, err = UnpackLayer(rest); err != nil {
			return nil, fmt.Errorf("digits: decode network: layer %d: %w", i, err)
		}
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("digits: decode network: %d bytes after the last layer: %w", len(rest), ErrFormat)
	}
	return NewNetwork(layers...)
}
