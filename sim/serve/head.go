package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// Op is the operation of a message and of its reply.
type Op uint8

// Operations of every service. A service's own start at OpService.
const (
	opPad   Op = iota // fills the end of a ring, because a record is contiguous
	OpHello           // the first message of either side
	OpLoad            // reads Width bytes at Off of Object; the reply has them in Val
	OpStore           // writes the low Width bytes of Val at Off of Object
	OpRead            // reads Val bytes at Off of Object; they are the reply's payload
	OpWrite           // writes the payload at Off of Object

	OpService Op = 32
)

// Status is how a request ended.
type Status uint8

// Values of Status.
const (
	StatusOK    Status = iota
	StatusErrno        // Val: the errno
	StatusText         // payload: the text of an error that is no errno
	StatusFault        // the access faulted, as on a mapping whose device is gone
)

// Head is the start of a request or a reply. Unused fields are 0.
type Head struct {
	Op     Op
	Width  uint8 // of an access: 1, 2, 4 or 8 bytes
	Status Status
	Kind   uint8  // the service's
	Object uint32 // the service's number of the request's object
	Size   uint32 // length of the payload that follows, in bytes
	Off    uint64
	Val    uint64
}

// HeadSize is the length of an encoded Head in bytes; its numbers are little-endian:
//
//	0 Op   1 Width   2 Status   3 Kind   4 Object   8 Size   12 zero   16 Off   24 Val
const HeadSize = 32

const valueAt = 24

// Put encodes the head into the first HeadSize bytes of b.
func (h *Head) Put(b []byte) {
	_ = b[HeadSize-1]
	binary.LittleEndian.PutUint64(b, uint64(h.Op)|uint64(h.Width)<<8|uint64(h.Status)<<16|uint64(h.Kind)<<24|uint64(h.Object)<<32)
	binary.LittleEndian.PutUint64(b[8:], uint64(h.Size))
	binary.LittleEndian.PutUint64(b[16:], h.Off)
	binary.LittleEndian.PutUint64(b[valueAt:], h.Val)
}

// Take decodes the head; the carrier checks Size.
func (h *Head) Take(b []byte) {
	_ = b[HeadSize-1]
	w := binary.LittleEndian.Uint64(b)
	h.Op, h.Width, h.Status, h.Kind, h.Object = Op(w), uint8(w>>8), Status(w>>16), uint8(w>>24), uint32(w>>32)
	h.Size = binary.LittleEndian.Uint32(b[8:])
	h.Off = binary.LittleEndian.Uint64(b[16:])
	h.Val = binary.LittleEndian.Uint64(b[valueAt:])
}

// ValidWidth reports whether w is a width for OpLoad and OpStore.
func ValidWidth(w uint8) bool { return w == 1 || w == 2 || w == 4 || w == 8 }

var (
	// ErrProtocol: the peer violates the protocol, or has another version.
	ErrProtocol = errors.New("the peer doesn't speak this program's protocol of served cards")
	// ErrUnsupported.
	ErrUnsupported = errors.New("serving cards to other processes needs linux")
)

// Fail returns the reply for err, StatusOK for nil, and its payload.
func Fail(err error) (Head, []byte) {
	var no syscall.Errno
	switch {
	case err == nil:
		return Head{}, nil
	case errors.As(err, &no):
		return Head{Status: StatusErrno, Val: uint64(no)}, nil
	}
	return Head{Status: StatusText}, []byte(err.Error())
}

// Err is the inverse of Fail; a fault is EFAULT.
func (h *Head) Err(payload []byte) error {
	switch h.Status {
	case StatusOK:
		return nil
	case StatusErrno:
		return syscall.Errno(h.Val)
	case StatusText:
		return errors.New(string(payload))
	case StatusFault:
		return syscall.EFAULT
	}
	return fmt.Errorf("serve: %w: status %d", ErrProtocol, h.Status)
}
