package share

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// op is what a request asks for.
type op uint8

const (
	opHello op = iota + 1 // begins a process; the connection stays idle, and its end is the process's
	opJoin                // makes a connection one of a process, named by val, for its requests
	opFS                  // payload: a name of the machine's file system
	opOpen                // val: flags
	opClose               // object: file
	opIoctl               // object: file, val: request, off: of a pin's memory in the file that comes along
	opMmap                // object: file, off, val: length
	opUnmap               // object: mapping, and those that follow as well
	opLoad                // width, off
	opStore               // width, off, val
	opRead                // off, val: length
	opWrite               // off
	opFault               // object: file
	opLast                // object: file, to be released behind all others of the process
)

// request is the head of a request. Its numbers are little-endian on the wire.
type request struct {
	op     op
	width  uint8
	object uint32
	n      uint32 // bytes that follow
	off    uint64
	val    uint64
}

const requestBytes = 28

func (r *request) put(b []byte) {
	b[0], b[1], b[2], b[3] = byte(r.op), r.width, 0, 0
	binary.LittleEndian.PutUint32(b[4:], r.object)
	binary.LittleEndian.PutUint32(b[8:], r.n)
	binary.LittleEndian.PutUint64(b[12:], r.off)
	binary.LittleEndian.PutUint64(b[20:], r.val)
}

func (r *request) take(b []byte) {
	r.op, r.width = op(b[0]), b[1]
	r.object = binary.LittleEndian.Uint32(b[4:])
	r.n = binary.LittleEndian.Uint32(b[8:])
	r.off = binary.LittleEndian.Uint64(b[12:])
	r.val = binary.LittleEndian.Uint64(b[20:])
}

// status is how a request ended.
type status uint8

const (
	done     status = iota
	failed          // val: errno
	said            // payload: the text of an error that is no errno
	busError        // the access faulted
)

// Kinds of memory in a reply to opMmap.
const (
	accesses = iota // of which each is a request
	memory          // the file that comes along, val: offset in it
)

// reply is the head of a reply.
type reply struct {
	status status
	kind   uint8
	object uint32
	n      uint32 // bytes that follow
	val    uint64
}

const replyBytes = 20

func (r *reply) put(b []byte) {
	b[0], b[1], b[2], b[3] = byte(r.status), r.kind, 0, 0
	binary.LittleEndian.PutUint32(b[4:], r.object)
	binary.LittleEndian.PutUint32(b[8:], r.n)
	binary.LittleEndian.PutUint64(b[12:], r.val)
}

func (r *reply) take(b []byte) {
	r.status, r.kind = status(b[0]), b[1]
	r.object = binary.LittleEndian.Uint32(b[4:])
	r.n = binary.LittleEndian.Uint32(b[8:])
	r.val = binary.LittleEndian.Uint64(b[12:])
}

// maxPayload is the most bytes that follow a head. Longer reads and writes are made in pieces.
const maxPayload = 1 << 20

// ErrProtocol is wrapped by the error of a peer that speaks something else.
var ErrProtocol = errors.New("not a card's socket, or one of another release")

// answer turns an error into a reply and what follows it.
func answer(err error) (reply, []byte) {
	var no syscall.Errno
	switch {
	case err == nil:
		return reply{status: done}, nil
	case errors.As(err, &no):
		return reply{status: failed, val: uint64(no)}, nil
	}
	text := err.Error()
	return reply{status: said, n: uint32(len(text))}, []byte(text)
}

// problem is the inverse of answer.
func (r *reply) problem(payload []byte) error {
	switch r.status {
	case done:
		return nil
	case failed:
		return syscall.Errno(r.val)
	case said:
		return errors.New(string(payload))
	case busError:
		return syscall.EFAULT
	}
	return fmt.Errorf("%w: status %d", ErrProtocol, r.status)
}
