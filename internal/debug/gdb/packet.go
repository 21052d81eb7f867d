package gdb

import (
	"bufio"
	"fmt"
	"io"
)

const (
	interrupt = 3       // what gdb sends for Ctrl-C
	maxPacket = 1 << 16 // bytes of a received packet
)

// link sends and receives packets ("$data#checksum").
type link struct {
	w    io.Writer
	in   chan string // packets, and "\x03" for interrupt
	done chan error
	acks bool
}

func newLink(rw io.ReadWriter) *link {
	l := &link{w: rw, in: make(chan string, 16), done: make(chan error, 1), acks: true}
	r := bufio.NewReader(rw)
	go func() {
		for {
			p, err := receive(r)
			if err != nil {
				l.done <- err
				close(l.in)
				return
			}
			l.in <- p
		}
	}()
	return l
}

func receive(r *bufio.Reader) (string, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		switch c {
		case interrupt:
			return string(rune(interrupt)), nil
		case '$':
			var data []byte
			for {
				if c, err = r.ReadByte(); err != nil {
					return "", err
				}
				if c == '#' {
					break
				}
				if c == '}' {
					if c, err = r.ReadByte(); err != nil {
						return "", err
					}
					c ^= 0x20
				}
				if data = append(data, c); len(data) > maxPacket {
					return "", fmt.Errorf("gdb: a packet has more than %d bytes", maxPacket)
				}
			}
			_, err := r.Discard(2) // the checksum: the transport is reliable
			return "$" + string(data), err
		}
	}
}

func (l *link) send(data string) error {
	out := []byte{'$'}
	sum := byte(0)
	put := func(c byte) { out, sum = append(out, c), sum+c }
	for i := range len(data) {
		switch c := data[i]; c {
		case '#', '$', '}', '*':
			put('}')
			put(c ^ 0x20)
		default:
			put(c)
		}
	}
	out = fmt.Appendf(out, "#%02x", sum)
	_, err := l.w.Write(out)
	return err
}

func (l *link) ack() error {
	if !l.acks {
		return nil
	}
	_, err := io.WriteString(l.w, "+")
	return err
}
