//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
)

func look(dir string) {
	name := filepath.Base(dir)
	c := &card{dir: dir}
	for _, t := range []struct {
		what string
		run  func() error
	}{
		{"identity", c.identity},
		{"BARs", c.bars},
		{"window to L1", c.window},
		{"chip to memory of this machine", c.memory},
	} {
		if !passes(name+" "+t.what, t.run) {
			return // the next one needs this one
		}
	}
}

type card struct {
	dir string
	p   *chip.Params
	bar [6][]byte // 0 is mapped
}

func (c *card) identity() error {
	config, err := os.ReadFile(c.dir + "/config")
	if err != nil {
		return err
	}
	if len(config) < 64 {
		return fmt.Errorf("%d bytes of configuration space", len(config))
	}
	id := binary.LittleEndian.Uint32(config)
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		if p := a.Params(); id == uint32(p.PCI.Vendor)|uint32(p.PCI.Device)<<16 {
			c.p = p
		}
	}
	if c.p == nil {
		return fmt.Errorf("ids %#08x are no card's", id)
	}
	if class := binary.LittleEndian.Uint32(config[8:]); class != c.p.PCI.Class<<8|uint32(c.p.PCI.Revision) {
		return fmt.Errorf("class and revision %#x", class)
	}
	fmt.Printf("CARD %s %v, subsystem %#x, %d bytes of configuration space\n", filepath.Base(c.dir), c.p.Arch,
		binary.LittleEndian.Uint16(config[0x2E:]), len(config))
	return nil
}

func (c *card) bars() error {
	text, err := os.ReadFile(c.dir + "/resource")
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for _, i := range []int{0, 2, 4} {
		var start, end, flags uint64
		if _, err := fmt.Sscan(lines[i], &start, &end, &flags); err != nil {
			return fmt.Errorf("resource %d: %w", i, err)
		}
		if start == 0 || end-start+1 != c.p.PCI.BARSize[i] {
			return fmt.Errorf("BAR %d is at %#x to %#x, want %d bytes somewhere", i, start, end, c.p.PCI.BARSize[i])
		}
	}
	if err := os.WriteFile(c.dir+"/enable", []byte("1"), 0); err != nil {
		return err
	}
	f, err := os.OpenFile(c.dir+"/resource0", os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	c.bar[0], err = unix.Mmap(int(f.Fd()), 0, int(c.p.PCI.BARSize[0]), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (c *card) word(off uint64) *uint32 { return (*uint32)(unsafe.Pointer(&c.bar[0][off])) }

// store is one store of 4 bytes. One of package sync/atomic is an exchange on amd64, which is a
// load too, and a register may not have that.
//
//go:noinline
func store(to *uint32, v uint32) { *to = v }

// aim points the first window at an address of a tile, and returns its offset in the BAR.
func (c *card) aim(tile chip.XY, addr uint64) (uint64, error) {
	w := c.p.Windows[0]
	regs, err := chip.EncodeWindow(c.p.Arch, w.Size, chip.WindowConfig{Addr: addr &^ (w.Size - 1), Target: tile, Ordering: chip.Strict})
	if err != nil {
		return 0, err
	}
	at := c.p.WindowRegister(w.First)
	for i := range c.p.BAR.WindowRegsSize / 4 {
		store(c.word(at+4*uint64(i)), regs[i])
	}
	return w.Offset + addr&(w.Size-1), nil
}

func (c *card) window() error {
	tile, err := worker(c.p.Arch)
	if err != nil {
		return err
	}
	off, err := c.aim(tile, 0x20000)
	if err != nil {
		return err
	}
	const n = 64
	for i := range uint64(n) {
		store(c.word(off+4*i), uint32(0xC0DE0000+i))
	}
	start := time.Now()
	for i := range uint64(n) {
		if v := atomic.LoadUint32(c.word(off + 4*i)); v != uint32(0xC0DE0000+i) {
			return fmt.Errorf("word %d of tile %v is %#x", i, tile, v)
		}
	}
	fmt.Printf("LOAD %v each\n", time.Since(start)/n)
	return nil
}

func (c *card) memory() error {
	if _, err := os.Stat(c.dir + "/iommu_group"); err == nil {
		return fmt.Errorf("an IOMMU lets the chip reach what a driver has mapped: %w", errors.ErrUnsupported)
	}
	config, err := os.OpenFile(c.dir+"/config", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer config.Close()
	var command [2]byte
	if _, err := config.ReadAt(command[:], 4); err != nil {
		return err
	}
	command[0] |= 4 // may reach memory
	if _, err := config.WriteAt(command[:], 4); err != nil {
		return err
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE|unix.MAP_LOCKED)
	if err != nil {
		return err
	}
	phys, err := physical(page)
	if err != nil {
		return err
	}
	t, err := chip.New(c.p.Arch, chip.Harvesting{})
	if err != nil {
		return err
	}
	// Without an outbound region, an offset in the aperture is the bus address.
	off, err := c.aim(t.PCIe(chip.NOC0), c.p.PCI.NOCBase+phys)
	if err != nil {
		return err
	}
	store(c.word(off+8), 0x5EED)
	if v := atomic.LoadUint32(c.word(off + 8)); v != 0x5EED {
		return fmt.Errorf("the chip reads %#x at bus address %#x", v, phys+8)
	}
	if v := atomic.LoadUint32((*uint32)(unsafe.Pointer(&page[8]))); v != 0x5EED {
		return fmt.Errorf("the chip has written %#x to bus address %#x", v, phys+8)
	}
	return unix.Munmap(page)
}

// physical is the address of a page that stays where it is
// (Documentation/admin-guide/mm/pagemap.rst).
func physical(page []byte) (uint64, error) {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size := uint64(os.Getpagesize())
	var b [8]byte
	if _, err := f.ReadAt(b[:], int64(uint64(uintptr(unsafe.Pointer(&page[0])))/size*8)); err != nil {
		return 0, err
	}
	e := binary.LittleEndian.Uint64(b[:])
	if e>>63 == 0 || e&(1<<55-1) == 0 {
		return 0, errors.New("the page is nowhere: " + strconv.FormatUint(e, 16))
	}
	return e & (1<<55 - 1) * size, nil
}
