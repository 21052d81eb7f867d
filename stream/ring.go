package stream

import (
	"encoding/binary"
	"io"
)

// Layout of a stream's host memory, as in kernels/include/reprise/stream.h.
const (
	line       = 64 // positions and places of messages are multiples of it
	inline     = 48 // bytes of data in a message's first line
	kernelLine = 0  // the kernel's words
	hostLine   = line
	ringAt     = 2 * line
	scratch    = 256 // bytes of L1 that the kernel needs
)

const (
	positionWord = 0
	stoppedWord  = 4
	codeWord     = 8
)

type kind uint32

const (
	data kind = iota
	end
	failure
)

// shared is a *dispatch.HostView.
type shared interface {
	Load32(off int) uint32
	Store32(off int, v uint32)
}

// Positions count bytes modulo 2^32; the messages lie between the reader's and the writer's
// position.
type ring struct {
	words shared
	base  int
	mem   []byte
	pos   uint32
}

func (r *ring) reset(first uint32) {
	for _, at := range [...]int{kernelLine, hostLine} {
		r.words.Store32(r.base+at+stoppedWord, 0)
		r.words.Store32(r.base+at+codeWord, 0)
		r.words.Store32(r.base+at+positionWord, first)
	}
	r.pos = first
}

func room(n int) uint32 {
	if n <= inline {
		return line
	}
	return line + uint32(n+line-1)&^(line-1)
}

func (r *ring) longest() int { return len(r.mem) - line }

func (r *ring) mask() uint32 { return uint32(len(r.mem)) - 1 }

func (r *ring) peer() uint32 { return r.words.Load32(r.base + kernelLine + positionWord) }

func (r *ring) move(n uint32) {
	r.pos += n
	r.words.Store32(r.base+hostLine+positionWord, r.pos)
}

func (r *ring) stop() { r.words.Store32(r.base+hostLine+stoppedWord, 1) }

// A message longer than p stays in the ring.
func (r *ring) read(p []byte) (n int, ok bool, err error) {
	have := r.peer() - r.pos
	if have == 0 {
		return 0, false, nil
	}
	first := r.mem[r.pos&r.mask():][:line]
	size, what, code, at := word(first, 0), kind(word(first, 1)), word(first, 2), word(first, 3)
	if at != r.pos || what > failure || size > uint32(r.longest()) || room(int(size)) > have || have > uint32(len(r.mem)) {
		return 0, false, &DamagedError{Position: r.pos}
	}
	switch what {
	case end:
		r.move(line)
		return 0, true, io.EOF
	case failure:
		r.move(line)
		return 0, true, &KernelError{Code: code}
	}
	n = int(size)
	if n > len(p) {
		return 0, false, &SizeError{Size: n, Most: len(p)}
	}
	if n <= inline {
		copy(p, first[16:16+n])
	} else {
		from := int((r.pos + line) & r.mask())
		done := copy(p[:n], r.mem[from:])
		copy(p[done:n], r.mem)
	}
	r.move(room(n))
	return n, true, nil
}

func (r *ring) write(what kind, code uint32, p []byte) (ok bool, err error) {
	if len(p) > r.longest() {
		return false, &SizeError{Size: len(p), Most: r.longest()}
	}
	if r.words.Load32(r.base+kernelLine+stoppedWord) != 0 {
		return false, &KernelError{Code: r.words.Load32(r.base + kernelLine + codeWord), Stopped: true}
	}
	used, need := r.pos-r.peer(), room(len(p))
	switch {
	case used > uint32(len(r.mem)):
		return false, &DamagedError{Position: r.pos}
	case uint32(len(r.mem))-used < need:
		return false, nil
	}
	first := r.mem[r.pos&r.mask():][:line]
	for i, v := range [...]uint32{uint32(len(p)), uint32(what), code, r.pos} {
		binary.LittleEndian.PutUint32(first[4*i:], v)
	}
	if len(p) <= inline {
		copy(first[16:], p)
	} else {
		done := copy(r.mem[(r.pos+line)&r.mask():], p)
		copy(r.mem, p[done:])
	}
	r.move(need)
	return true, nil
}

func word(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
