// Package relay holds the programs that carry command queues over an Ethernet link to a Wormhole
// chip without a PCI interface, with their L1 maps and arguments. The sources are C, in src; the
// images are committed and embedded.
//
// The numbers are those of src/relay.h. To the base firmware of Ethernet tiles the program is
// customers' code (tt-isa-documentation WormholeB0/EthernetTile/L1.md): it lies at Code, is started
// by a flag, and has its data between 0x18000 and 0x3FFFF.
package relay

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild relay

import (
	"embed"
	"encoding/binary"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
)

//go:embed images
var archives embed.FS

var committed = images.New(archives, "images")

// Image returns a copy of the program of the Ethernet tiles.
func Image() []byte { return file("relay.bin") }

// Forward returns the kernel that forwards words of a core's L1 to the far tile, for any multiple
// of 16 in L1. Its arguments are those of [Far.ForwardMirror] and [Far.ForwardFetch].
func Forward() []byte { return file("forward.bin") }

func file(name string) []byte {
	b, err := committed.File(chip.Wormhole, name)
	if err != nil {
		panic(err)
	}
	return b
}

// Addresses in an Ethernet tile's L1.
const (
	Code   = 0x9040  // first instruction
	Launch = 0x9004  // 1 starts the program, which stores 0 at its end
	Args   = 0x3E000 // 256 B
	Stop   = 0x3E100 // the host stores 1 to end it
	State  = 0x3E110 // Running or Ended

	Data     = 0x18000 // channels of all queues, which the host clears first
	DataSize = MaxQueues * channelStride

	Sent     = 0x1A000 // in lines of 16 B, the last may have less: the host clears it first
	SentSize = MaxQueues * 4 * 4096

	MaxQueues = 2

	channelStride = 0x1000
)

// Words at State.
const (
	Running = 0x314E5552
	Ended   = 0x31444E45
)

// FetchRead is the address of the prefetcher's pointer in the near tile's L1.
func FetchRead(q int) uint32 { return Data + uint32(q)*channelStride }

// CompletionRead is the address of the host's pointer in the near tile's L1.
func CompletionRead(q int) uint32 { return Data + uint32(q)*channelStride + 0x10 }

// Fetch is the address of the fetch queue in the near tile's L1: at most 3808 B.
func Fetch(q int) uint32 { return Data + uint32(q)*channelStride + 0x120 }

// CompletionWrite is the address of the dispatcher's pointer in the far tile's L1.
func CompletionWrite(q int) uint32 { return Data + uint32(q)*channelStride + 0x20 }

// Fetched is the address of the prefetcher's pointer in the far tile's L1.
func Fetched(q int) uint32 { return Data + uint32(q)*channelStride + 0x50 }

// Near is the arguments of the near tile's program.
type Near struct {
	Self    chip.XY
	PCIe    chip.XY
	High    uint32 // half of host addresses
	Entries uint32 // of a fetch queue
	Queues  []NearQueue
}

// NearQueue is host memory of a queue: lower halves of addresses, and sizes in bytes.
type NearQueue struct{ Issue, IssueSize, Completion, CompletionSize, CompletionWrite uint32 }

// Bytes encodes the arguments.
func (n *Near) Bytes() []byte {
	b := words(nil, 0, uint32(len(n.Queues)), n.Self.Packed(), n.PCIe.Packed(), n.High, 0, 0, 0)
	for i, q := range n.Queues {
		b = words(b, q.Issue, q.IssueSize, q.Completion, q.CompletionSize, q.CompletionWrite, Fetch(i)+2*n.Entries)
	}
	return b
}

// Far is the arguments of the far tile's program.
type Far struct {
	Self   chip.XY
	Mirror chip.XY // the core whose L1 prefetchers and dispatchers take for host memory
	Queues []FarQueue
}

// FarQueue is a queue's rings and words on the remote chip.
type FarQueue struct {
	Issue, IssueSize           uint32 // in Mirror's L1
	Completion, CompletionSize uint32 // in Mirror's L1
	Published                  uint32
	Prefetch                   chip.XY
	Fetch, FetchSize, Fetched  uint32
	Dispatch                   chip.XY
	CompletionRead             uint32
}

// Bytes encodes the arguments.
func (f *Far) Bytes() []byte {
	b := words(nil, 1, uint32(len(f.Queues)), f.Self.Packed(), f.Mirror.Packed(), 0, 0, 0, 0)
	for _, q := range f.Queues {
		b = words(b, q.Issue, q.IssueSize, q.Prefetch.Packed(), q.Fetch, q.FetchSize, q.Completion, q.CompletionSize, q.Dispatch.Packed(),
			q.CompletionRead)
	}
	return b
}

// ForwardMirror returns the arguments of the mirror's kernel, on BRISC with NoC 0.
func (f *Far) ForwardMirror() []uint32 {
	const toggle, page = 1 << 31, 4096 / 16
	a := []uint32{uint32(len(f.Queues)), f.Self.Packed()}
	for i, q := range f.Queues {
		a = append(a, q.Published, CompletionWrite(i), q.Completion/16, q.CompletionSize/16, page, toggle, q.Completion/16)
	}
	return a
}

// ForwardFetch returns the arguments of the kernel on the prefetch core of queue i, on NCRISC with
// NoC 1.
func (f *Far) ForwardFetch(i int) []uint32 {
	q := &f.Queues[i]
	return []uint32{1, chip.Wormhole.Mirror(f.Self).Packed(), q.Fetched, Fetched(i), q.Fetch, q.FetchSize, 2, 0, q.Fetch + q.FetchSize}
}

func words(b []byte, vs ...uint32) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}
