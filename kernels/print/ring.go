package print

import (
	"encoding/binary"

	"github.com/reprise-tt/reprise/chip"
)

// A core's L1 has a header for each processor, then a ring for each. Sizes are in bytes. Source:
// kernels/include/reprise/print.h.
const (
	AreaSize = ringsAt + chip.NumProcessors*RingSize // AreaSize is the whole area.
	RingSize = 1024                                  // RingSize is the ring of one processor.

	// HeadersSize is zero before a core starts.
	HeadersSize = chip.NumProcessors * headerSize

	headerSize = 32
	ringsAt    = 0x100
)

// Offsets in a header: the host's words, then the processor's.
const (
	atTaken    = 0 // and the host's other words
	atPut      = 16
	recordHead = 4 // words of a record's head
)

var le = binary.LittleEndian

// Positions count bytes, and wrap.
type header struct {
	taken, beat, told uint32 // the host's
	put, tail, made   uint32 // the processor's
	busy              bool   // the processor is making a record: it may have taken the time, and made may count the record
}

func parseHeader(b []byte, p chip.Processor) header {
	b = b[int(p)*headerSize:]
	return header{
		busy:  b[atPut]&1 != 0,
		taken: le.Uint32(b) &^ 3, beat: le.Uint32(b[4:]), told: le.Uint32(b[12:]),
		put: le.Uint32(b[atPut:]) &^ 3, tail: le.Uint32(b[atPut+4:]) &^ 3, made: le.Uint32(b[atPut+8:]),
	}
}

func (h header) untaken() uint32 {
	if h.taken-h.tail <= h.put-h.tail {
		return h.taken
	}
	return h.tail
}

// start returns from, or the first record left after it. It is false for positions further apart
// than the ring's size.
func (h header) start(from uint32) (uint32, bool) {
	if h.put-h.tail > RingSize {
		return h.put, false
	}
	if h.put-from > h.put-h.tail {
		from = h.tail
	}
	return from, true
}

// readHeaders reads the headers of a core.
func readHeaders(dev Device, area uint32, c chip.Core) (all [chip.NumProcessors]header, err error) {
	var b [HeadersSize]byte
	err = dev.ReadL1(c, area, b[:])
	for p := range all {
		all[p] = parseHeader(b[:], chip.Processor(p))
	}
	return all, err
}

// readRing reads what a processor's ring has from one position to another.
func readRing(dev Device, area uint32, at place, from, to uint32) ([]byte, error) {
	data := make([]byte, 0, to-from)
	for from != to {
		in, end := from%RingSize, len(data)
		n := min(to-from, RingSize-in)
		data = data[:end+int(n)]
		if err := dev.ReadL1(at.core, area+ringsAt+uint32(at.on)*RingSize+in, data[end:]); err != nil {
			return nil, err
		}
		from += n
	}
	return data, nil
}

// printing returns the places of the kernels of programs.
func printing(programs []*Program) (all []place) {
	for _, p := range programs {
		for _, r := range p.Cores {
			for c := range r.Cores() {
				for _, k := range p.Kernels {
					all = append(all, place{c, k.Processor})
				}
			}
		}
	}
	return all
}

const (
	magic      = 0x5250
	kindFormat = 0
	kindStream = 1
	kindSkip   = 2
	kindZone   = 3
)

type raw struct {
	kind    uint8
	program uint32
	time    uint64
	words   []uint32
}

func split(words []uint32) (r raw, rest []uint32, ok bool) {
	first := words[0]
	n := int(first & 0xFF)
	r.kind = uint8(first >> 8)
	if first>>16 != magic || n == 0 || n > len(words) || r.kind > kindZone {
		return raw{}, nil, false
	}
	if r.kind == kindSkip {
		return r, words[n:], true
	}
	if n < recordHead {
		return raw{}, nil, false
	}
	r.program, r.time = words[1], uint64(words[3])<<32|uint64(words[2])
	r.words = words[recordHead:n]
	return r, words[n:], true
}

func wordsOf(b []byte) []uint32 {
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = le.Uint32(b[4*i:])
	}
	return out
}
