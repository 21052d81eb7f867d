package watch

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// Checked calls, and cases of checks of circular buffers. Source: kernels/include/reprise/kernel.h
// and watch.h.
const (
	callWait = iota
	callReserve
	callPush
	callPop
	callSawPages
	callSawRoom
)

const (
	bufferNumber = 1 + iota
	bufferAbsent
	bufferSize
	bufferPages
	bufferEnd
)

// Cases of checks of requests, and bits of their control words. Source:
// kernels/include/reprise/watch.h and noc.h.
const (
	nocLength = 1 + iota
	nocLocal
	nocTile
	nocRange
	nocAlignment
	nocFirmware
	nocRectangle
	nocInline
)

const (
	ctrlAtomic    = 1 << 0
	ctrlWrite     = 1 << 1
	ctrlInline    = 1 << 3
	ctrlMulticast = 1 << 5
)

// value is the alignment of a request.
func (f *Failure) describe(what byte, value uint32, args [6]uint32) {
	switch f.Check {
	case Assertion:
		if f.Text == "" {
			f.Text = "an assertion failed"
		} else {
			f.Text = "assertion " + f.Text + " failed"
		}
	case CircularBuffer:
		f.Buffer = &Buffer{Number: args[1], Pages: args[2], Allowed: args[3], Size: args[4]}
		f.Text = fmt.Sprintf("circular buffer %d: %s", args[1], f.Buffer.says(what, args[0]))
	case NoC:
		f.Request = request(args)
		f.Text = f.Request.says(what, args[0], value)
	case Stack:
		f.Text = fmt.Sprintf("stack overflow: the stack has reached the kernel's data, which end at %#x, and is at %#x now", args[0], f.SP)
	default:
		f.Text = fmt.Sprintf("%v failed: %#x", f.Check, args)
	}
}

func (b *Buffer) says(what byte, call uint32) string {
	does := fmt.Sprintf("call %d with", call)
	switch call {
	case callWait:
		does = "waits for"
	case callReserve:
		does = "reserves"
	case callPush:
		does = "pushes"
	case callPop:
		does = "pops"
	case callSawPages, callSawRoom:
		does = "asks for"
	}
	does = fmt.Sprintf("the kernel %s %s", does, pages(b.Pages))
	switch what {
	case bufferNumber:
		return does + ", but circular buffers are numbered from 0 to 31"
	case bufferAbsent:
		return does + ", but the program has no such buffer on this core"
	case bufferSize:
		return fmt.Sprintf("%s, but the buffer has %d: it would wait for ever", does, b.Size)
	case bufferPages:
		before := "reserved"
		if call == callPop {
			before = "waited for"
		}
		return fmt.Sprintf("%s, but has %s %d", does, before, b.Allowed)
	case bufferEnd:
		return fmt.Sprintf("%s, which go around the end of its %s: use numbers of pages that divide its size", does, pages(b.Size))
	}
	return fmt.Sprintf("%s: case %d", does, what)
}

func pages(n uint32) string {
	if n == 1 {
		return "1 page"
	}
	return fmt.Sprintf("%d pages", n)
}

func request(args [6]uint32) *Request {
	r := &Request{
		NoC: chip.NOC(args[0] >> 24), Tile: corner(args[1]), Address: uint64(args[3])<<32 | uint64(args[2]), Local: args[4], Length: args[5],
	}
	if args[0]&ctrlMulticast != 0 {
		first := corner(args[1] >> 12)
		r.First = &first
	}
	return r
}

func corner(v uint32) chip.XY { return chip.XY{X: uint8(v & 63), Y: uint8(v >> 6 & 63)} }

func (r *Request) says(what byte, ctrl, alignment uint32) string {
	var does string
	switch {
	case ctrl&ctrlAtomic != 0:
		does = fmt.Sprintf("atomic on the word at %#x of tile %v", r.Address, r.Tile)
	case ctrl&ctrlInline != 0:
		does = fmt.Sprintf("write of a word to %#x of tile %v", r.Address, r.Tile)
	case ctrl&ctrlMulticast != 0:
		does = fmt.Sprintf("multicast of %d bytes from %#x to %#x of tiles %v to %v", r.Length, r.Local, r.Address, *r.First, r.Tile)
	case ctrl&ctrlWrite != 0:
		does = fmt.Sprintf("write of %d bytes from %#x to %#x of tile %v", r.Length, r.Local, r.Address, r.Tile)
	default:
		does = fmt.Sprintf("read of %d bytes from %#x of tile %v to %#x", r.Length, r.Address, r.Tile, r.Local)
	}
	does += fmt.Sprintf(" by %v: ", r.NoC)
	switch what {
	case nocLength:
		return does + "one request takes 1 byte to 8 KiB on Wormhole, 16 KiB on Blackhole"
	case nocLocal:
		return does + "the address in the own L1 is beyond its end"
	case nocTile:
		return does + "the chip has no such tile"
	case nocRange:
		return does + "it is beyond the tile's memory"
	case nocAlignment:
		if ctrl&(ctrlAtomic|ctrlInline) != 0 {
			return does + "the address is no multiple of 4"
		}
		return does + fmt.Sprintf("the addresses must be equal modulo %d", alignment)
	case nocFirmware:
		return does + "it would overwrite the firmware"
	case nocRectangle:
		return does + "its corners aren't workers in the NoC's direction"
	case nocInline:
		return does + "a Blackhole's L1 takes no inline writes"
	}
	return does + fmt.Sprintf("case %d", what)
}
