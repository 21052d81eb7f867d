package program

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// PackedPage returns the bytes of a page that dispatcher commands may share (cq.Pack); 0 for none.
func (t *Target) PackedPage() int {
	if t.Stock {
		return 0
	}
	return memmap.PageSize
}

func (c *compiler) pack() error {
	if page := c.t.PackedPage(); page > 0 {
		packed, moved, err := cq.Pack(c.t.layout(), page, c.to.bytes)
		if err != nil {
			return err
		}
		c.to.bytes = packed
		if err := c.to.move(moved); err != nil {
			return err
		}
		if c.to == &c.im.main {
			for i := range c.im.args {
				if err := c.im.args[i].move(moved); err != nil {
					return err
				}
			}
		}
	}
	for e, err := range cq.All(c.t.layout(), c.to.bytes) {
		if err != nil {
			return err
		}
		if _, header := e.Command.(cq.RelayInlineNoFlush); !header {
			c.to.cuts = append(c.to.cuts, e.Offset+len(e.Raw))
		}
	}
	return nil
}

// mover keeps the first offset without a place as an error.
type mover struct {
	by  cq.Moved
	err error
}

func (m *mover) at(o int) int {
	now, ok := m.by.At(o)
	if !ok && m.err == nil {
		m.err = fmt.Errorf("what lay at %#x of its commands is in none of the packed ones", o)
	}
	return now
}

func (m *mover) all(os []int32) {
	for i := range os {
		os[i] = int32(m.at(int(os[i])))
	}
}

func (c *commands) move(by cq.Moved) error {
	m := mover{by: by}
	c.hostID, c.wait = m.at(c.hostID), m.at(c.wait)
	m.all(c.slots)
	m.all(c.texts)
	m.all(c.launchAddr)
	for i := range c.entries {
		c.entries[i].at = int32(m.at(int(c.entries[i].at)))
	}
	for i := range c.relays {
		c.relays[i].at = m.at(c.relays[i].at)
	}
	if c.goWord != 0 {
		c.goWord, c.goCount = m.at(c.goWord), m.at(c.goCount)
	}
	return m.err
}

func (k *kernelArgs) move(by cq.Moved) error {
	m := mover{by: by}
	for i := range k.unique {
		k.unique[i].at = int32(m.at(int(k.unique[i].at)))
	}
	m.all(k.common)
	return m.err
}

// For less, the prefetcher's round trip to DRAM isn't worth it.
const residentSaving = 8 << 10

type block struct {
	to   chip.VirtualRect
	off  uint32
	data []byte
}

func (c *compiler) blocks(blocks []block) {
	align := c.b.Layout().DRAMAlign()
	for chunk := range slices.Chunk(blocks, cq.MaxLargeSubs) {
		w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: uint16(align), OffsetIndex: offsetConfig}
		var data []byte
		for _, b := range chunk {
			w.Subs = append(w.Subs, cq.LargeSub{NOC: c.rect(b.to), Addr: b.off, Length: uint32(len(b.data)),
				Dests: uint8(b.to.Cores), Unlink: true})
			data = append(data, b.data...)
			data = append(data, make([]byte, -len(data)&(align-1))...)
		}
		c.b.WritePackedLargeHeader(w)
		c.relay(data)
	}
}

// endsInPage reports whether a relay's padding up to the alignment of DRAM ends in the dispatcher's
// last page of data, of which the rest is skipped.
func (c *compiler) endsInPage(head, data int) bool {
	align := c.b.Layout().DRAMAlign()
	brought := (data + align - 1) &^ (align - 1)
	return (head+data+memmap.PageSize-1)/memmap.PageSize == (head+brought+memmap.PageSize-1)/memmap.PageSize
}

// relay puts the data of the last header beside the kernels and relays them from there.
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
