package print

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func FuzzDecode(f *testing.F) {
	entry := append([]byte{0x31, 0, 0, 0, 7, 0, 2, 4},
		"at %u: %5.1f\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00./k.c\x00"...)
	p := Program{Name: "p", Kernels: []Kernel{{Name: "k", Formats: entry}}}
	p.Identify()
	record := func(kind uint32, words ...uint32) (b []byte) {
		for _, w := range append([]uint32{magic<<16 | kind<<8 | uint32(4+len(words)), p.ID, 1, 0}, words...) {
			b = le.AppendUint32(b, w)
		}
		return b
	}
	f.Add(entry, record(kindFormat, 0, 3, 0x3FC00000), p.ID)
	f.Add(entry, record(kindStream, itemLiteral<<24, itemSigned<<24, 0xFFFFFFFF, itemEndl<<24), p.ID)
	f.Add(entry, record(kindStream, itemSlice<<24|1<<8|5, 4, 2, itemData<<24|4, 0x3FC04000), p.ID)
	f.Add(append(append([]byte{}, entry[:8]...),
		"{0:>5} {1:#x} {}\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00./k.c\x00"...),
		record(kindStream, itemBraces<<24, itemUnsigned<<24, 7, itemFloat<<24, 0x3FC00000), p.ID)
	f.Add([]byte{}, []byte("garbage in a ring"), uint32(0))
	f.Fuzz(func(t *testing.T, formats, ring []byte, id uint32) {
		d := NewDecoder("")
		prog := &Program{ID: id, Name: "p", Kernels: []Kernel{{Name: "k", Formats: formats}}}
		d.Add(prog)
		at := place{chip.Core{}, chip.BRISC}
		n := 0
		lines, _ := d.decode(nil, at, wordsOf(ring[:min(len(ring), RingSize)]))
		for _, r := range d.end(lines, at) {
			n += len(r.Text)
		}
		if most := (len(formats) + maxWidth*4 + 64) * (RingSize + 64); n > most {
			t.Errorf("%d bytes of text", n)
		}
	})
}
