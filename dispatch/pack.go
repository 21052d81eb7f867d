package dispatch

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// PackedPage returns the bytes of a page in which commands for the dispatcher may share it (cq.Pack), 0 if each has to have
// its own.
func (d *Device) PackedPage() int {
	if d.opts.StockWireFormat {
		return 0
	}
	return pageSize
}

// pack makes the commands that were emitted last share relays and pages, unless the device is to get the stock wire format, and
// finds where they may be cut.
func (c *compiler) pack() error {
	if page := c.d.PackedPage(); page > 0 {
		packed, moved, err := cq.Pack(c.d.layout(), page, c.to.bytes)
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
	for e, err := range cq.All(c.d.layout(), c.to.bytes) {
		if err != nil {
			return err
		}
		if _, header := e.Command.(cq.RelayInlineNoFlush); !header { // its data are in the next command
			c.to.cuts = append(c.to.cuts, e.Offset+len(e.Raw))
		}
	}
	return nil
}

// mover follows offsets, and keeps the first one that leads nowhere.
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

// move makes the offsets those of packed commands.
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
