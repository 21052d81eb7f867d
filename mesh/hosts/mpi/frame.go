package mpi

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Most exchanges need only a frame: data of up to inlineSize bytes are in it, and data that all
// hosts have aren't sent.
const (
	frameSize  = 64
	inlineSize = 16
	hashSize   = 24
)

// MaxData is the most bytes that a host can give to an exchange.
const MaxData = 1 << 20

const (
	maxOp    = 256           // bytes of an operation's name that are sent
	magic    = 0x01_78_70_72 // "rpx", and the version of the format
	tooLarge = 0xFFFFFFFF
)

// frame is the first part of an exchange. Its words are little-endian.
type frame struct {
	Magic  uint32
	Size   uint32 // bytes of the data; tooLarge of a host that can't take part
	Op     uint32 // bytes of the operation's name
	Zero   uint32
	OpHash [8]byte          // the first bytes of the SHA-256 of the name
	Hash   [hashSize]byte   // of the SHA-256 of the data
	Inline [inlineSize]byte // the data, if they fit
}

func newFrame(op string, data []byte) frame {
	f := frame{Magic: magic, Size: uint32(len(data)), Op: uint32(min(len(op), maxOp))}
	if len(data) > MaxData {
		f.Size, data = tooLarge, nil
	}
	h := sha256.Sum256([]byte(op))
	copy(f.OpHash[:], h[:])
	h = sha256.Sum256(data)
	copy(f.Hash[:], h[:])
	if len(data) <= inlineSize {
		copy(f.Inline[:], data)
	}
	return f
}

func (f *frame) put(b []byte) { _, _ = binary.Encode(b, binary.LittleEndian, f) } // b has frameSize bytes

func getFrame(b []byte) (f frame, err error) {
	if len(b) != frameSize {
		return f, fmt.Errorf("%w: a frame of %d B, want %d", ErrFrame, len(b), frameSize)
	}
	_, _ = binary.Decode(b, binary.LittleEndian, &f) // of its size
	switch {
	case f.Magic != magic:
		return f, fmt.Errorf("%w: its frame begins with %#08x, want %#08x", ErrFrame, f.Magic, magic)
	case f.Size > MaxData && f.Size != tooLarge || f.Op > maxOp || f.Zero != 0:
		return f, fmt.Errorf("%w: a frame of %d B of data and a name of %d B, want at most %d and %d", ErrFrame, f.Size, f.Op,
			MaxData, maxOp)
	}
	return f, nil
}

func (f *frame) inlined() bool { return f.Size <= inlineSize }

type plan struct {
	names   bool
	data    bool
	refused []int
}

func newPlan(frames []frame) (p plan) {
	inline, same := true, true
	for i := range frames {
		f := &frames[i]
		if f.Size == tooLarge {
			p.refused = append(p.refused, i)
		}
		p.names = p.names || f.OpHash != frames[0].OpHash || f.Op != frames[0].Op
		inline, same = inline && f.inlined(), same && f.Size == frames[0].Size && f.Hash == frames[0].Hash
	}
	p.data = !p.names && p.refused == nil && !inline && !same
	return p
}

func (p *plan) sizes(frames []frame) []int {
	out := make([]int, len(frames))
	for i := range frames {
		switch {
		case p.names:
			out[i] = int(frames[i].Op)
		case p.data:
			out[i] = int(frames[i].Size)
		}
	}
	return out
}
