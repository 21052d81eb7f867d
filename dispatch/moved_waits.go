package dispatch

import (
	"bytes"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// movedWaitStream is the flag of a WAIT for a stream, in revisions of tt-metal in which CLEAR_MEMORY has the bit that was its. The one
// to clear a stream follows it.
const movedWaitStream = 2 * uint32(cq.WaitStream)

// moveWaits changes the flags of all WAITs in a stream to those of such revisions.
func moveWaits(l cq.Layout, stream []byte) {
	for e, err := range cq.All(l, stream) {
		if err != nil {
			return // it isn't this runtime's own stream, and is sent as it is
		}
		if c, _, ok := e.Dispatch(); ok {
			if w, ok := c.(cq.Wait); ok {
				const moved = cq.WaitStream | cq.ClearStream
				stream[e.Offset+cq.HeaderSize+cq.AtWaitFlags] = uint8(w.Flags&^moved | w.Flags&moved<<1)
			}
		}
	}
}

// TraceBytes returns the commands of a trace as the queue's firmware reads them: as they are, unless it is of a revision of tt-metal
// with other flags.
func (q *Queue) TraceBytes(image []byte) []byte {
	if !q.movedWaits {
		return image
	}
	image = bytes.Clone(image)
	moveWaits(q.d.layout(), image)
	return image
}
