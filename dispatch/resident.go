package dispatch

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// residentSaving is by how many bytes the commands of a run have to shrink for arguments and configuration to be kept in
// DRAM beside the kernels. For less, the prefetcher's round trip to DRAM isn't worth it.
const residentSaving = 8 << 10

// block is bytes that the cores of a rectangle get, at an offset in the program's slot.
type block struct {
	to   chip.VirtualRect
	off  uint32
	data []byte
}

// relay puts blocks beside the kernels and relays them from there. One entry of a relay brings the data of many blocks,
// since they lie one behind the other.
func (c *compiler) relay(blocks []block) {
	align := c.b.Layout().DRAMAlign()
	for chunk := range slices.Chunk(blocks, cq.MaxLargeSubs) {
		w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: uint16(align), OffsetIndex: offsetConfig}
		page, n := len(c.im.binary)/BinaryPageSize, 0
		for _, b := range chunk {
			w.Subs = append(w.Subs, cq.LargeSub{NOC: c.rect(b.to), Addr: b.off, Length: uint32(len(b.data)), Dests: uint8(b.to.Cores), Unlink: true})
			c.im.binary = append(c.im.binary, b.data...)
			for n += len(b.data); n%align != 0; n++ {
				c.im.binary = append(c.im.binary, 0)
			}
		}
		c.fillPage()
		var relay cq.RelayPagedPacked
		for off := 0; off < n; off += maxRelayLength {
			relay.Subs = append(relay.Subs, cq.PagedSub{LogPageSize: binaryPageLog, Length: uint32(min(n-off, maxRelayLength))})
		}
		c.b.WritePackedLargeHeader(w)
		at := c.b.RelayPagedPacked(relay)
		for i := range relay.Subs {
			c.im.relays = append(c.im.relays, relayPatch{at: at + cq.AtPagedSub(i), page: page + i*maxRelayLength/BinaryPageSize})
		}
		c.cut()
	}
}
