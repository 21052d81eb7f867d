package session

import (
	"bytes"
	"syscall"
	"testing"
)

func TestUsedPages(t *testing.T) {
	page := syscall.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, 16*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	mem[3*page+1] = 7
	r, err := split(addressOf(mem), uint64(len(mem)))
	if err != nil {
		t.Fatal(err)
	}
	var m memory
	m.add(&pin{va: addressOf(mem)}, r)
	if mem[3*page+1] != 7 || r.device[3*page+1] != 7 || m.fromHost() != nil || m.fromDevice() != nil {
		t.Error("the bytes aren't the same on both sides")
	}
	mem[5*page], r.device[9*page] = 1, 2
	if ds := m.fromHost(); len(ds) != 1 || ds[0].Off != uint64(5*page) || r.device[5*page] != 1 {
		t.Errorf("the host wrote %v", ds)
	}
	if ds := m.fromDevice(); len(ds) != 1 || ds[0].Off != uint64(9*page) || mem[9*page] != 2 {
		t.Errorf("the device wrote %v", ds)
	}
	for side, p := range r.used {
		n := 0
		for i := range 16 {
			if p.has(i * page) {
				n++
			}
		}
		if p.all || n > 3 {
			t.Errorf("side %d: %d pages are used, at most 3 were; unknown %v", side, n, p.all)
		}
	}
	before := bytes.Clone(mem)
	if err := m.drop(m.pins[0], true); err != nil || !bytes.Equal(mem, before) {
		t.Errorf("joined: %v, the same bytes %v", err, bytes.Equal(mem, before))
	}
	mem[0] = 1 // it can be used
}
