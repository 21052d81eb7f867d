package print

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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

// Left returns the records in the rings of cores, also those that a Listener took, by device time.
// It writes nothing to the device, and leaves out cores that can't be read.
func Left(dev Device, cores []chip.Core) (out []Record) {
	area, ok := dev.PrintArea()
	programs, _ := dev.Printing(0)
	if !ok || len(programs) == 0 {
		return nil
	}
	d := NewDecoder("")
	prints := printing(programs)
	for _, p := range programs {
		d.Add(p)
	}
	for _, c := range cores {
		headers, err := readHeaders(dev, area, c)
		if err != nil {
			continue
		}
		var of []Record
		for p, h := range headers {
			at := place{c, chip.Processor(p)}
			from, ok := h.start(h.tail)
			if !ok || !slices.Contains(prints, at) {
				continue
			}
			if data, err := readRing(dev, area, at, from, h.put); err == nil {
				of, _ = d.decode(of, at, wordsOf(data))
				of = d.end(of, at)
			}
		}
		slices.SortStableFunc(of, Record.byTime)
		out = append(out, of...)
	}
	return out
}

type slice struct {
	format  uint8
	rows    bool // each row is a line
	reason  int  // why there are no data, or 0
	left    int  // data to come
	columns int
	column  int
	rest    string // bytes of an incomplete datum
}

// Why a slice has no data. Source: kernels/include/api/debug/dprint.h.
const (
	sliceFormat  = 1
	slicePointer = 2
	sliceThread  = 3
)

// maxData is that of a tile.
const maxData = 1024

func (s *slice) failure() string {
	switch s.reason {
	case 0:
		return ""
	case sliceFormat:
		return fmt.Sprintf("<tile slice: data of format %d can't be printed>", s.format)
	case slicePointer:
		return "<tile slice: the circular buffer isn't in L1>"
	case sliceThread:
		return "<tile slice: the math thread has no circular buffers>"
	}
	return fmt.Sprintf("<tile slice: reason %d>", s.reason)
}

// Formats of data. Source: kernels/include/reprise/tensix.h (enum rp_format).
const (
	fp32    = 0
	fp16    = 1
	bf16    = 5
	bfp8    = 6
	bfp4    = 7
	int32s  = 8
	uint16s = 9
	int8s   = 14
	bfp2    = 15
	uint8s  = 30
	uint32s = 24
)

// datumBytes includes the exponent of a block format.
func datumBytes(format uint8) int {
	switch format {
	case fp32, int32s, uint32s:
		return 4
	case int8s, uint8s:
		return 1
	}
	return 2
}

func (s *slice) add(to *stream, data string) string {
	var b strings.Builder
	data = s.rest + data
	n := datumBytes(s.format)
	for ; len(data) >= n && s.left > 0; data = data[n:] {
		b.WriteString(to.put(s.datum(to, data[:n])))
		s.left--
		s.column++
		switch {
		case s.column < s.columns:
			b.WriteByte(' ')
		case s.rows:
			s.column = 0
			b.WriteByte('\n')
		default:
			s.column = 0
			if s.left > 0 {
				b.WriteByte(' ')
			}
		}
	}
	if s.rest = data; s.left == 0 {
		s.rest = ""
	}
	return b.String()
}

func (s *slice) datum(to *stream, b string) string {
	var v uint32
	for i := range len(b) {
		v |= uint32(b[i]) << (8 * i)
	}
	sign := func(bits int) int64 { // of sign and magnitude
		m := int64(v & (1<<(bits-1) - 1))
		if v>>(bits-1)&1 != 0 {
			return -m
		}
		return m
	}
	switch s.format {
	case fp32:
		return to.float(float64(math.Float32frombits(v)))
	case bf16:
		return to.float(float64(math.Float32frombits(v << 16)))
	case fp16:
		return to.float(half(uint16(v)))
	case bfp8:
		return to.float(block(v, 7))
	case bfp4:
		return to.float(block(v, 3))
	case bfp2:
		return to.float(block(v, 1))
	case int32s:
		return strconv.FormatInt(sign(32), 10)
	case int8s:
		return strconv.FormatInt(sign(8), 10)
	}
	return strconv.FormatUint(uint64(v), 10)
}

// The engines' fp16 has no infinities; exponent 0 is of zero and subnormals.
func half(v uint16) float64 {
	e, m := int(v>>10&31), float64(v&0x3FF)
	f := math.Ldexp(1024+m, e-25)
	if e == 0 {
		f = math.Ldexp(m, -24)
	}
	if v>>15 != 0 {
		return -f
	}
	return f
}

// block has the exponent in the low byte, then sign and magnitude.
func block(v uint32, bits int) float64 {
	e, m := int(v&0xFF), v>>8&(1<<bits-1)
	f := math.Ldexp(float64(m), e-127-(bits-1))
	if v>>8>>bits&1 != 0 {
		return -f
	}
	return f
}
