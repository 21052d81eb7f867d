package vfiouser

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"syscall"
)

// order is that of messages: the machine's.
var order = binary.LittleEndian

type command uint16

const (
	cmdVersion     command = 1
	cmdDMAMap      command = 2
	cmdDMAUnmap    command = 3
	cmdDeviceInfo  command = 4
	cmdRegionInfo  command = 5
	cmdIRQInfo     command = 7
	cmdSetIRQs     command = 8
	cmdRegionRead  command = 9
	cmdRegionWrite command = 10
	cmdDMARead     command = 11
	cmdDMAWrite    command = 12
	cmdDeviceReset command = 13
	cmdWriteMulti  command = 15
)

// Bits of a header's flags.
const (
	flagType    = 0xF
	typeCommand = 0
	typeReply   = 1
	flagNoReply = 1 << 4
	flagError   = 1 << 5
)

const (
	headerSize     = 16
	maxData        = 1 << 20                   // bytes of a message's data, the protocol's default
	maxMessage     = headerSize + 32 + maxData // with the longest fixed part
	maxDescriptors = 8
)

type header struct {
	ID      uint16
	Command command
	Size    uint32 // of the whole message
	Flags   uint32
	Errno   uint32 // of a reply with flagError
}

func (h header) put(b []byte) { _, _ = binary.Encode(b, order, h) } // b has headerSize bytes

// After an error the stream is useless.
func parseHeader(b []byte) (header, error) {
	h, _, err := decode[header](b)
	if err != nil {
		return h, err
	}
	if h.Size < headerSize || h.Size > maxMessage {
		return h, fmt.Errorf("vfiouser: message %d of command %d has %d bytes: %w: want %d to %d",
			h.ID, h.Command, h.Size, ErrProtocol, headerSize, maxMessage)
	}
	return h, nil
}

// Sizes of the fixed parts of messages, after the header.
const (
	versionSize    = 4
	dmaMapSize     = 32
	dmaUnmapSize   = 24
	deviceInfoSize = 16
	regionInfoSize = 32
	irqInfoSize    = 16
	setIRQsSize    = 20
	accessSize     = 16
	dmaAccessSize  = 16
	multiSize      = 8
	multiEntrySize = 24
)

// Flags of a DMA_MAP.
const (
	dmaReadable = 1 << 0
	dmaWritable = 1 << 1
)

type dmaMap struct {
	Argsz, Flags       uint32
	Offset, Addr, Size uint64
}

type dmaUnmap struct {
	Argsz, Flags uint32
	Addr, Size   uint64
}

func decode[T any](b []byte) (t T, rest []byte, err error) {
	n, err := binary.Decode(b, order, &t)
	if err != nil {
		return t, nil, syscall.EINVAL
	}
	return t, b[n:], nil
}

func parseInfo(b []byte, size int, count uint32) (index uint32, err error) {
	if len(b) != size || order.Uint32(b) < uint32(size) || order.Uint32(b[8:]) >= count {
		return 0, syscall.EINVAL
	}
	return order.Uint32(b[8:]), nil
}

// Bits of a SET_IRQS.
const (
	irqDataNone      = 1 << 0
	irqDataBool      = 1 << 1
	irqDataEventFD   = 1 << 2
	irqDataMask      = irqDataNone | irqDataBool | irqDataEventFD
	irqActionMask    = 1 << 3
	irqActionUnmask  = 1 << 4
	irqActionTrigger = 1 << 5
	irqActions       = irqActionMask | irqActionUnmask | irqActionTrigger
)

type setIRQs struct{ Argsz, Flags, Index, Start, Count uint32 }

func parseSetIRQs(b []byte) (s setIRQs, values []byte, err error) {
	s, values, err = decode[setIRQs](b)
	data, action := s.Flags&irqDataMask, s.Flags&irqActions
	if err != nil || s.Argsz < setIRQsSize || s.Flags&^(irqDataMask|irqActions) != 0 || bits.OnesCount32(data) != 1 ||
		bits.OnesCount32(action) != 1 || data == irqDataBool && uint64(len(values)) != uint64(s.Count) {
		return s, nil, syscall.EINVAL
	}
	return s, values, nil
}

type accessHead struct {
	Offset        uint64
	Region, Count uint32
}

type access struct {
	accessHead
	data []byte
}

func parseAccess(b []byte, write bool) (a access, err error) {
	h, rest, err := decode[accessHead](b)
	a = access{h, rest}
	want := uint32(0)
	if write {
		want = a.Count
	}
	if err != nil || a.Count > maxData || uint64(len(a.data)) != uint64(want) {
		return a, syscall.EINVAL
	}
	return a, nil
}
