package dispatch

import "github.com/reprise-tt/reprise/dispatch/cq"

// dialect is how tt-metal's command-queue firmware reads commands differently.
type dialect struct {
	movedWaits bool
	slot       uint8
}

// movedWaitStream is a WAIT's flag for a stream in revisions where CLEAR_MEMORY took its bit; the
// flag to clear a stream follows it.
const movedWaitStream = 2 * uint32(cq.WaitStream)

func (d *machine) dialect(set *workerSet) dialect {
	return dialect{movedWaits: d.ctl.WaitStream == movedWaitStream, slot: set.slot}
}

func (t dialect) translate(l cq.Layout, stream []byte) {
	for e, err := range cq.All(l, stream) {
		if err != nil {
			return
		}
		c, _, ok := e.Dispatch()
		if !ok {
			continue
		}
		at := e.Offset + cq.HeaderSize
		switch c := c.(type) {
		case cq.Wait:
			if t.movedWaits {
				const moved = cq.WaitStream | cq.ClearStream
				stream[at+cq.AtWaitFlags] = uint8(c.Flags&^moved | c.Flags&moved<<1)
			}
		case cq.SendGoSignal:
			if c.Multicast != cq.NoMulticast {
				stream[at+cq.AtGoMulticast] += t.slot
			}
		}
	}
}
