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

// frame is the first part of an exchange. Its words are little-endian:
//
//	0   magic
//	4   bytes of the data; tooLarge of a host that can't take part
//	8   bytes of the operation's name
//	12  zero
//	16  the first bytes of the SHA-256 of the name, 8
//	24  of the SHA-256 of the data, 24
//	48  the data, if they fit: 16
type frame struct {
	size, op uint32
	opHash   [8]byte
	hash     [hashSize]byte
	inline   [inlineSize]byte
}

func newFrame(op string, data []byte) frame {
	f := frame{size: uint32(len(data)), op: uint32(min(len(op), maxOp))}
	if len(data) > MaxData {
		f.size, data = tooLarge, nil
	}
	h := sha256.Sum256([]byte(op))
	copy(f.opHash[:], h[:])
	h = sha256.Sum256(data)
	copy(f.hash[:], h[:])
	if len(data) <= inlineSize {
		copy(f.inline[:], data)
	}
	return f
}

func (f *frame) put(b []byte) {
	binary.LittleEndian.PutUint32(b, magic)
	binary.LittleEndian.PutUint32(b[4:], f.size)
	binary.LittleEndian.PutUint32(b[8:], f.op)
	binary.LittleEndian.PutUint32(b[12:], 0)
	copy(b[16:24], f.opHash[:])
	copy(b[24:48], f.hash[:])
	copy(b[48:frameSize], f.inline[:])
}

func getFrame(b []byte) (f frame, err error) {
	if len(b) != frameSize {
		return f, fmt.Errorf("%w: a frame of %d B, want %d", ErrFrame, len(b), frameSize)
	}
	f.size, f.op = binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	copy(f.opHash[:], b[16:])
	copy(f.hash[:], b[24:])
	copy(f.inline[:], b[48:])
	switch word := binary.LittleEndian.Uint32(b); {
	case word != magic:
		return f, fmt.Errorf("%w: its frame begins with %#08x, want %#08x", ErrFrame, word, magic)
	case f.size > MaxData && f.size != tooLarge || f.op > maxOp || binary.LittleEndian.Uint32(b[12:]) != 0:
		return f, fmt.Errorf("%w: a frame of %d B of data and a name of %d B, want at most %d and %d", ErrFrame, f.size, f.op,
			MaxData, maxOp)
	}
	return f, nil
}

func (f *frame) inlined() bool { return f.size <= inlineSize }

func (f *frame) same(g *frame) bool { return f.size == g.size && f.hash == g.hash }

type plan struct {
	names   bool
	data    bool
	refused []int
}

func newPlan(frames []frame) (p plan) {
	inline, same := true, true
	for i := range frames {
		f := &frames[i]
		if f.size == tooLarge {
			p.refused = append(p.refused, i)
		}
		p.names = p.names || f.opHash != frames[0].opHash || f.op != frames[0].op
		inline, same = inline && f.inlined(), same && f.same(&frames[0])
	}
	p.data = !p.names && p.refused == nil && !inline && !same
	return p
}

func (p *plan) sizes(frames []frame) []int {
	out := make([]int, len(frames))
	for i := range frames {
		switch {
		case p.names:
			out[i] = int(frames[i].op)
		case p.data:
			out[i] = int(frames[i].size)
		}
	}
	return out
}
