package vfiouser

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// order is the byte order of messages: the machine's, which is always little-endian for Reprise.
var order = binary.LittleEndian

// command is the kind of a message.
type command uint16

const (
	cmdVersion       command = 1
	cmdDMAMap        command = 2
	cmdDMAUnmap      command = 3
	cmdDeviceInfo    command = 4
	cmdRegionInfo    command = 5
	cmdRegionIOFDs   command = 6
	cmdIRQInfo       command = 7
	cmdSetIRQs       command = 8
	cmdRegionRead    command = 9
	cmdRegionWrite   command = 10
	cmdDMARead       command = 11
	cmdDMAWrite      command = 12
	cmdDeviceReset   command = 13
	cmdWriteMulti    command = 15
	cmdDeviceFeature command = 16
	cmdMigRead       command = 17
	cmdMigWrite      command = 18
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
	headerSize = 16
	// maxData bounds a message's data in bytes; it is the protocol's default.
	maxData = 1 << 20
	// maxMessage bounds a message: a header, the longest fixed part and the data.
	maxMessage = headerSize + 32 + maxData
	// maxDescriptors bounds a message's descriptors.
	maxDescriptors = 8
)

// header is the start of each message.
type header struct {
	ID      uint16
	Command command
	Size    uint32 // of the whole message
	Flags   uint32
	Errno   uint32 // of a reply with flagError
}

func (h header) put(b []byte) {
	order.PutUint16(b[0:], h.ID)
	order.PutUint16(b[2:], uint16(h.Command))
	order.PutUint32(b[4:], h.Size)
	order.PutUint32(b[8:], h.Flags)
	order.PutUint32(b[12:], h.Errno)
}

// parseHeader decodes a header. After an error, which wraps ErrProtocol, the stream is useless.
func parseHeader(b []byte) (header, error) {
	h := header{
		ID: order.Uint16(b[0:]), Command: command(order.Uint16(b[2:])),
		Size: order.Uint32(b[4:]), Flags: order.Uint32(b[8:]), Errno: order.Uint32(b[12:]),
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

// dmaMap makes client memory reachable.
type dmaMap struct {
	argsz, flags       uint32
	offset, addr, size uint64
}

func parseDMAMap(b []byte) (m dmaMap, err error) {
	if len(b) != dmaMapSize {
		return m, syscall.EINVAL
	}
	m = dmaMap{order.Uint32(b), order.Uint32(b[4:]), order.Uint64(b[8:]), order.Uint64(b[16:]), order.Uint64(b[24:])}
	if m.argsz < dmaMapSize || m.flags&^(dmaReadable|dmaWritable) != 0 || m.size == 0 || m.addr+m.size-1 < m.addr {
		return m, syscall.EINVAL
	}
	return m, nil
}

// dmaUnmap ends a mapping.
type dmaUnmap struct {
	argsz, flags uint32
	addr, size   uint64
}

func parseDMAUnmap(b []byte) (m dmaUnmap, err error) {
	if len(b) < dmaUnmapSize {
		return m, syscall.EINVAL
	}
	m = dmaUnmap{order.Uint32(b), order.Uint32(b[4:]), order.Uint64(b[8:]), order.Uint64(b[16:])}
	// The flags are unused; in the ioctl they request more than the reply can hold.
	if m.argsz < dmaUnmapSize || m.flags != 0 || len(b) != dmaUnmapSize {
		return m, syscall.EINVAL
	}
	return m, nil
}

// parseInfo decodes a request for information of size bytes: argsz, flags and, except for the
// device, an index at 8.
func parseInfo(b []byte, size int) (index uint32, err error) {
	if len(b) != size || order.Uint32(b) < uint32(size) {
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

// setIRQs configures or triggers interrupts.
type setIRQs struct {
	argsz, flags, index, start, count uint32
	data                              []byte
}

func parseSetIRQs(b []byte) (s setIRQs, err error) {
	if len(b) < setIRQsSize {
		return s, syscall.EINVAL
	}
	s = setIRQs{order.Uint32(b), order.Uint32(b[4:]), order.Uint32(b[8:]), order.Uint32(b[12:]), order.Uint32(b[16:]), b[setIRQsSize:]}
	data, action := s.flags&irqDataMask, s.flags&irqActions
	one := func(v uint32) bool { return v != 0 && v&(v-1) == 0 }
	if s.argsz < setIRQsSize || s.flags&^(irqDataMask|irqActions) != 0 || !one(data) || !one(action) {
		return s, syscall.EINVAL
	}
	if data == irqDataBool && uint64(len(s.data)) != uint64(s.count) {
		return s, syscall.EINVAL
	}
	return s, nil
}

// access is a REGION_READ, or a REGION_WRITE with its data.
type access struct {
	offset        uint64
	region, count uint32
	data          []byte
}

func parseAccess(b []byte, write bool) (a access, err error) {
	if len(b) < accessSize {
		return a, syscall.EINVAL
	}
	a = access{order.Uint64(b), order.Uint32(b[8:]), order.Uint32(b[12:]), b[accessSize:]}
	want := uint32(0)
	if write {
		want = a.count
	}
	if a.count > maxData || uint64(len(a.data)) != uint64(want) {
		return a, syscall.EINVAL
	}
	return a, nil
}

func (a *access) put(b []byte) {
	order.PutUint64(b, a.offset)
	order.PutUint32(b[8:], a.region)
	order.PutUint32(b[12:], a.count)
}

// parseMulti decodes the i-th write of a REGION_WRITE_MULTI that multiCount has checked.
func parseMulti(b []byte, i int) (a access, err error) {
	e := b[multiSize+i*multiEntrySize:][:multiEntrySize]
	a = access{offset: order.Uint64(e), region: order.Uint32(e[8:]), count: order.Uint32(e[12:])}
	if a.count > 8 {
		return a, syscall.EINVAL
	}
	a.data = e[16 : 16+a.count]
	return a, nil
}

// multiCount returns the number of writes in a REGION_WRITE_MULTI.
func multiCount(b []byte) (int, error) {
	if len(b) < multiSize {
		return 0, syscall.EINVAL
	}
	n := order.Uint64(b)
	if n > maxData/multiEntrySize || int(n)*multiEntrySize != len(b)-multiSize {
		return 0, syscall.EINVAL
	}
	return int(n), nil
}
