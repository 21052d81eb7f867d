package hosts

import (
	"encoding/binary"
	"errors"
)

// part is what a host gives to an exchange.
type part struct {
	rank int
	what []byte
	data []byte
}

var errWire = errors.New("the message is cut off or damaged")

// encode puts parts into one message: of each the rank, the length of what and what, the length of data and data; numbers are
// uvarints. Hosts between others pass such messages on as they are.
func encode(parts []part) []byte {
	var out []byte
	for _, p := range parts {
		out = binary.AppendUvarint(out, uint64(p.rank))
		out = append(binary.AppendUvarint(out, uint64(len(p.what))), p.what...)
		out = append(binary.AppendUvarint(out, uint64(len(p.data))), p.data...)
	}
	return out
}

// decode is the inverse of encode. What it returns is in the message's memory.
func decode(b []byte) ([]part, error) {
	var out []part
	for len(b) > 0 {
		rank, n := binary.Uvarint(b)
		if n <= 0 || rank > 1<<20 {
			return nil, errWire
		}
		p := part{rank: int(rank)}
		b = b[n:]
		for _, field := range []*[]byte{&p.what, &p.data} {
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
