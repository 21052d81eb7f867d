package print_test

import (
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

// Words of records, as kernels write them.
const (
	magic      = 0x5250
	kindFormat = 0
	kindStream = 1

	itemLiteral  = 1
	itemUnsigned = 2
	itemSigned   = 3
	itemFloat    = 6
	itemEndl     = 11
	itemSlice    = 21
	itemData     = 22
	itemBraces   = 23
)

// fuzzed is a device with one core, whose first processor prints.
type fuzzed struct {
	l1
	program *print.Program
}

func (d *fuzzed) Printing(uint64) ([]*print.Program, uint64) { return []*print.Program{d.program}, 1 }

func FuzzDecode(f *testing.F) {
	entry := append([]byte{0x31, 0, 0, 0, 7, 0, 2, 4},
		"at %u: %5.1f\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00./k.c\x00"...)
	p := print.Program{Name: "p", Kernels: []print.Kernel{{Name: "k", Formats: entry}}}
	p.Identify()
	record := func(kind uint32, words ...uint32) (b []byte) {
		for _, w := range append([]uint32{magic<<16 | kind<<8 | uint32(4+len(words)), p.ID, 1, 0}, words...) {
			b = binary.LittleEndian.AppendUint32(b, w)
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
		at := chip.Range{}
		d := &fuzzed{program: &print.Program{ID: id, Name: "p", Cores: []chip.Range{at},
			Kernels: []print.Kernel{{Name: "k", Formats: formats}}}}
		n := copy(d.mem[print.AreaSize-chip.NumProcessors*print.RingSize:][:print.RingSize], ring)
		binary.LittleEndian.PutUint32(d.word(chip.BRISC, putWord), uint32(n))
		text := 0
		for _, r := range print.Left(d, []chip.Core{{}}) {
			text += len(r.Text)
		}
		const maxWidth = 256
		if most := (len(formats) + maxWidth*4 + 64) * (print.RingSize + 64); text > most {
			t.Errorf("%d bytes of text", text)
		}
	})
}
