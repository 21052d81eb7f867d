package print_test

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

type l1 struct {
	mu    sync.Mutex
	mem   [print.AreaSize]byte
	visit func()
}

func (*l1) Name() string              { return "played" }
func (*l1) PrintArea() (uint32, bool) { return 0, true }
func (*l1) PrintEpoch() uint64        { return 0 }

func (d *l1) Printing(since uint64) ([]*print.Program, uint64) {
	if since == 1 {
		return nil, 1
	}
	return []*print.Program{{Name: "both", Cores: []chip.Range{chip.Single(0, 0)},
		Kernels: []print.Kernel{{Processor: chip.BRISC}, {Processor: chip.NCRISC}}}}, 1
}

func (d *l1) OnPrinting(f func()) func() {
	d.visit = f
	return func() {}
}

func (d *l1) ReadL1(_ chip.Core, addr uint32, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(p, d.mem[addr:])
	return nil
}

func (d *l1) WriteL1(_ chip.Core, addr uint32, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.mem[addr:], p)
	return nil
}

func (d *l1) word(p chip.Processor, i int) []byte { return d.mem[32*int(p)+4*i:] }

const putWord = 4

func (d *l1) begins(p chip.Processor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	binary.LittleEndian.PutUint32(d.word(p, putWord), binary.LittleEndian.Uint32(d.word(p, putWord))|1)
}

func (d *l1) hands(p chip.Processor, time uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	put := binary.LittleEndian.Uint32(d.word(p, putWord)) &^ 1
	b := d.mem[0x100+print.RingSize*int(p)+int(put):]
	binary.LittleEndian.PutUint32(b, 0x52500004)
	binary.LittleEndian.PutUint64(b[8:], time)
	binary.LittleEndian.PutUint32(d.word(p, putWord), put+16)
}

func TestLateLineComesFirst(t *testing.T) {
	d := &l1{}
	var mu sync.Mutex
	var got []uint64
	l, err := print.Listen(d, func(r print.Record) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Time)
	}, print.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := func(what string, want ...uint64) {
		t.Helper()
		for range 3 {
			d.visit()
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	d.hands(chip.BRISC, 100)
	d.hands(chip.NCRISC, 101)
	check("nobody is at it", 100, 101)
	d.begins(chip.BRISC)
	d.hands(chip.NCRISC, 709)
	d.hands(chip.NCRISC, 800)
	check("BRISC may have taken an earlier time", 100, 101)
	d.hands(chip.BRISC, 708)
	check("BRISC has handed its line over", 100, 101, 708, 709, 800)
	d.begins(chip.NCRISC)
	check("nothing is held back", 100, 101, 708, 709, 800)
	d.hands(chip.BRISC, 801)
	if err := l.Drain(); err != nil {
		t.Fatal(err)
	}
	check("a kernel that ended in the middle of a line holds back nothing that is asked for", 100, 101, 708, 709, 800, 801)
}
