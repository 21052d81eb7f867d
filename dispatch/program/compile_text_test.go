package program

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Few bytes of kernels are among the commands that bring them, many are relayed from DRAM, and all
// are in tt-metal's form. Cores that have no kernel get none.
func TestKernelsAmongTheCommands(t *testing.T) {
	d := target(t)
	rows := func(i, n int) []chip.Range { // the i-th of n
		h := (d.Grid.End.Y + 1) / n
		return []chip.Range{{Start: chip.Core{Y: i * h}, End: chip.Core{X: d.Grid.End.X, Y: (i+1)*h - 1}}}
	}
	for _, c := range []struct {
		name   string
		texts  []int // bytes, of each group
		stock  bool
		inline bool
	}{
		{"one", []int{256}, false, true},
		{"as much as there may be", []int{maxInlineText}, false, true},
		{"more", []int{maxInlineText + SlotAlign}, false, false},
		{"several", []int{256, 64, 512}, false, true},
		{"too much of several", []int{2 << 10, 2 << 10, 64}, false, false},
		{"tt-metal's form", []int{256}, true, false},
	} {
		d.Stock = c.stock
		p := &Program{Name: "p", CircularBuffers: []CircularBuffer{{Cores: rows(len(c.texts), len(c.texts)+1), Addr: d.Workers.L1.Unreserved,
			PageSize: 64, Pages: 1}}}
		var want [][]byte
		for i, n := range c.texts {
			text := bytes.Repeat([]byte{byte(i + 1)}, n)
			p.Kernels = append(p.Kernels, Kernel{Name: string(rune('a' + i)), Cores: rows(i, len(c.texts)+1), Text: text})
			want = append(want, text)
		}
		im, err := d.Compile(p)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got [][]byte
		relays := 0
		for e, err := range cq.All(d.layout(), im.text.bytes) {
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if r, ok := e.Command.(cq.RelayPagedPacked); ok {
				relays += len(r.Subs)
			}
			for r := range e.Relayed {
				w, ok := r.Command.(cq.WritePackedLarge)
				if !ok || r.Header {
					continue
				}
				data := w.Data
				for _, s := range w.Subs {
					got, data = append(got, data[:s.Length]), data[s.Length:]
				}
			}
		}
		if !c.inline {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: kernels among the commands (-want +got):\n%s", c.name, diff)
		}
		if n := len(im.text.relays); n != relays || c.inline != (n == 0) {
			t.Errorf("%s: %d relays, %d of them to be placed", c.name, relays, n)
		}
	}
}
