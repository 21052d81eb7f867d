package print

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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

func newSlice(head, data, columns uint32) *slice {
	return &slice{
		format: uint8(head), rows: head>>8&1 != 0, reason: int(head >> 16 & 0xFF),
		left: int(min(data, maxData)), columns: int(max(min(columns, maxData), 1)),
	}
}

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
