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

// blocks puts blocks beside the kernels and relays them from there.
func (c *compiler) blocks(blocks []block) {
	align := c.b.Layout().DRAMAlign()
	for chunk := range slices.Chunk(blocks, cq.MaxLargeSubs) {
		w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: uint16(align), OffsetIndex: offsetConfig}
		var data []byte
		for _, b := range chunk {
			w.Subs = append(w.Subs, cq.LargeSub{NOC: c.rect(b.to), Addr: b.off, Length: uint32(len(b.data)), Dests: uint8(b.to.Cores), Unlink: true})
			data = append(data, b.data...)
			data = append(data, make([]byte, -len(data)&(align-1))...)
		}
		c.b.WritePackedLargeHeader(w)
		c.relay(data)
	}
}

// endsInPage returns whether the padding that a relay brings after the data, up to the alignment of DRAM, is in the
// dispatcher's page in which the data end. Only such bytes are skipped.
func (c *compiler) endsInPage(head, data int) bool {
	align := c.b.Layout().DRAMAlign()
	brought := (data + align - 1) &^ (align - 1)
	return (head+data+pageSize-1)/pageSize == (head+brought+pageSize-1)/pageSize
}

// relay puts the data of the last header beside the kernels and relays them from there. One entry of a relay brings much,
// since the data are contiguous; the last one brings zeros up to the alignment of DRAM, which the dispatcher skips with the
// rest of its page.
func (c *compiler) relay(data []byte) {
	align := c.b.Layout().DRAMAlign()
	page, n := len(c.im.binary)/BinaryPageSize, (len(data)+align-1)&^(align-1)
	c.im.binary = append(c.im.binary, data...)
	c.fillPage()
	var relay cq.RelayPagedPacked
	for off := 0; off < n; off += maxRelayLength {
		relay.Subs = append(relay.Subs, cq.PagedSub{LogPageSize: binaryPageLog, Length: uint32(min(n-off, maxRelayLength))})
	}
	at := c.b.RelayPagedPacked(relay)
	for i := range relay.Subs {
		c.to.relays = append(c.to.relays, relayPatch{at: at + cq.AtPagedSub(i), page: page + i*maxRelayLength/BinaryPageSize})
	}
}
