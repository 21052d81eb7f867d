package hosts

import (
	"encoding/binary"
	"errors"
)

// part is the contribution of one host to an exchange.
type part struct {
	rank int
	op   []byte
	data []byte
}

var errWire = errors.New("the message is truncated or damaged")

// encode encodes parts as one message: for each the rank, the length of op, op, the length of data, data. Numbers are uvarints.
// Hosts forward such messages unchanged.
func encode(parts []part) []byte {
	var out []byte
	for _, p := range parts {
		out = binary.AppendUvarint(out, uint64(p.rank))
		out = append(binary.AppendUvarint(out, uint64(len(p.op))), p.op...)
		out = append(binary.AppendUvarint(out, uint64(len(p.data))), p.data...)
	}
	return out
}

// decode is the inverse of encode. The parts alias the message.
func decode(b []byte) ([]part, error) {
	var out []part
	for len(b) > 0 {
		rank, n := binary.Uvarint(b)
		if n <= 0 || rank > 1<<20 {
			return nil, errWire
		}
		p := part{rank: int(rank)}
		b = b[n:]
		for _, field := range []*[]byte{&p.op, &p.data} {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, errWire
			}
			*field, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
		}
		out = append(out, p)
	}
	return out, nil
}
