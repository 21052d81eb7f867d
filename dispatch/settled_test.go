package dispatch

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// What is written settled is followed by one stall of the prefetcher, in the batch that has the
// last data: also if they fill the batch, take several, or lie in pages that are longer than a
// batch.
func TestWriteSettled(t *testing.T) {
	const page = 4096
	full := memmap.MaxCommandSize / page
	for _, c := range []struct{ page, pages int }{
		{1024, 1}, {page, full - 1}, {page, full}, {page, full + 1}, {page, 3 * full}, {2 * memmap.MaxCommandSize, 1}, {2 * memmap.MaxCommandSize, 2},
	} {
		q, take := hostOnly(t)
		data := make([]byte, c.page*c.pages)
		for i := range data {
			data[i] = byte(i / 64)
		}
		iv := Interleaved{DRAM: true, PageSize: uint32(c.page), HostPage: uint32(c.page), Pages: c.pages, Banks: 8}
		if err := q.WriteSettled(t.Context(), &iv, 0, data); err != nil {
			t.Fatal(err)
		}
		var written []byte
		var kinds []string
		start := uint32(0)
		for i := range q.rings.fetch.put {
			end := *q.rings.issue.end(i)
			for e, err := range cq.All(q.d.layout(), q.rings.issue.mem[start:end]) {
				if err != nil {
					t.Fatal(err)
				}
				kinds = append(kinds, e.Command.Name())
				for r := range e.Relayed {
					if w, ok := r.Command.(cq.WritePaged); ok {
						written = append(written, w.Data...)
					}
				}
			}
			start = end
		}
		take()
		stall := cq.Stall{}.Name()
		n := 0
		for _, k := range kinds {
			if k == stall {
				n++
			}
		}
		if n != 1 || kinds[len(kinds)-1] != stall {
			t.Errorf("%d pages of %d B: %d stalls in %v", c.pages, c.page, n, kinds)
		}
		if !bytes.Equal(written, data) {
			t.Errorf("%d pages of %d B: %d B were written, not all of them as they should", c.pages, c.page, len(written))
		}
	}
}
