//go:build linux

package driver

import (
	"bytes"
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func pinAt(f seam.File, va, size uint64, flags uint32) (kabi.PinPagesOutExtended, error) {
	a := kabi.PinPagesExtended{In: kabi.PinPagesIn{OutputSizeBytes: 16, Flags: flags, VirtualAddress: va, Size: size}}
	err := f.Ioctl(kabi.IoctlPinPages, kabi.Bytes(&a))
	return a.Out, err
}

func pinned(f seam.File, b []byte, flags uint32) (kabi.PinPagesOutExtended, error) {
	return pinAt(f, address(b), uint64(len(b)), flags)
}

func unpin(f seam.File, va, size, reserved uint64) error {
	a := kabi.UnpinPages{In: kabi.UnpinPagesIn{VirtualAddress: va, Size: size, Reserved: reserved}}
	return f.Ioctl(kabi.IoctlUnpinPages, kabi.Bytes(&a))
}

func TestAssertion24_PinArguments(t *testing.T) {
	f := newRig(t, chip.Blackhole).open(0)
	b := pages(t, 8, unix.MAP_PRIVATE)
	va, page := address(b), pageSize()
	for i, flags := range []uint32{0, 1} {
		_, err := pinAt(f, va+uint64(i)*page, page, flags)
		want(t, "pin", err, nil)
	}
	_, err := pinAt(f, va, page, 16)
	want(t, "unknown flag", err, syscall.EINVAL)
	_, err = pinAt(f, va, 0, 0)
	want(t, "nothing", err, syscall.EINVAL)
	_, err = pinAt(f, va+page/2, page, 0)
	want(t, "half a page in", err, syscall.EINVAL)
	_, err = pinAt(f, va, page/2, 0)
	want(t, "half a page", err, syscall.EINVAL)
	if err := unix.Munmap(b[4*page : 8*page : 8*page]); err == nil {
		t.Fatal("x/sys unmaps part of a mapping")
	}
	if _, _, no := unix.Syscall(unix.SYS_MUNMAP, uintptr(va+4*page), uintptr(4*page), 0); no != 0 {
		t.Fatal(no)
	}
	_, err = pinAt(f, va+4*page, page, 0)
	want(t, "unmapped", err, syscall.EFAULT)
	_, err = pinAt(f, va+3*page, 2*page, 0)
	want(t, "half mapped", err, syscall.EINVAL)
	ro, err := unix.Mmap(-1, 0, int(page), unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	want(t, "map read-only", err, nil)
	defer unix.Munmap(ro)
	_, err = pinned(f, ro, 0)
	want(t, "memory that can't be written", err, syscall.EFAULT)
	_, err = pinned(f, ro, kabi.PinPagesReadOnly)
	want(t, "the same for reading", err, nil)
}

func TestAssertion25_Contiguity(t *testing.T) {
	b := pages(t, 4, unix.MAP_PRIVATE)
	f := newRig(t, chip.Wormhole).open(0)
	_, err := pinned(f, b, kabi.PinPagesNOCDMA)
	want(t, "behind an IOMMU", err, nil)

	huge := uint64(0)
	g := newRig(t, chip.Wormhole, func(c *Config) {
		c.NoIOMMU = true
		c.PageSizeAt = func(uint64) uint64 { return huge }
	}).open(0)
	_, err = pinned(g, b, 0)
	want(t, "without an IOMMU", err, syscall.EINVAL)
	_, err = pinned(g, b[:pageSize()], 0)
	want(t, "one page without an IOMMU", err, nil)
	huge = 1 << 62
	_, err = pinned(g, b, 0)
	want(t, "a huge page without an IOMMU", err, nil)
}

func TestPageSizeOfOrdinaryMemory(t *testing.T) {
	b := pages(t, 4, unix.MAP_PRIVATE)
	b[0] = 1
	equal(t, pageSizeAt(address(b)), pageSize(), "size of pages")
}

func TestAssertion26_PinningTwice(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	f, other := r.open(0), r.open(0)
	b := pages(t, 4, unix.MAP_PRIVATE)
	_, err := pinned(f, b, 0)
	want(t, "first", err, nil)
	_, err = pinned(f, b, kabi.PinPagesNOCDMA)
	want(t, "again", err, syscall.EEXIST)
	_, err = pinned(f, b[:pageSize()], 0)
	want(t, "another size", err, nil)
	_, err = pinned(other, b, 0)
	want(t, "another file", err, nil)
}

func TestAssertion27_UnpinIsExact(t *testing.T) {
	f := newRig(t, chip.Wormhole).open(0)
	b := pages(t, 4, unix.MAP_PRIVATE)
	va, n := address(b), uint64(len(b))
	_, err := pinned(f, b, kabi.PinPagesNOCDMA)
	want(t, "pin", err, nil)
	want(t, "nothing", unpin(f, va, 0, 0), syscall.EINVAL)
	want(t, "half", unpin(f, va, n/2, 0), syscall.EINVAL)
	want(t, "double", unpin(f, va, 2*n, 0), syscall.EINVAL)
	want(t, "inside", unpin(f, va+pageSize(), n-pageSize(), 0), syscall.EINVAL)
	want(t, "reserved", unpin(f, va, n, 1), syscall.EINVAL)
	want(t, "exact, in whole pages", unpin(f, va, n+1, 0), nil)
	want(t, "again", unpin(f, va, n, 0), syscall.EINVAL)
}

func TestAssertion28_Aperture(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		r := newRig(t, a)
		f := r.open(0)
		p := a.Params().PCI
		b := pages(t, 32, unix.MAP_PRIVATE)
		page := pageSize()
		at := func(i, n uint64, flags uint32) uint64 {
			t.Helper()
			o, err := pinAt(f, address(b)+i*page, n*page, flags)
			want(t, "pin", err, nil)
			return o.NOCAddress - p.NOCBase
		}
		equal(t, at(0, 2, kabi.PinPagesNOCDMA), 0, "first from the bottom")
		equal(t, at(2, 1, kabi.PinPagesNOCDMA), 2*page, "second from the bottom")
		equal(t, at(3, 2, kabi.PinPagesNOCTopDown), p.NOCSize-2*page, "first from the top")
		equal(t, at(5, 1, kabi.PinPagesNOCDMA|kabi.PinPagesNOCTopDown), p.NOCSize-3*page, "second from the top")
		want(t, "unpin", unpin(f, address(b), 2*page, 0), nil)
		equal(t, at(6, 3, kabi.PinPagesNOCDMA), 3*page, "three pages don't fit the hole of two")
		equal(t, at(9, 1, kabi.PinPagesNOCDMA), 0, "one page fits the hole")
		want(t, "unpin", unpin(f, address(b)+3*page, 2*page, 0), nil)
		equal(t, at(10, 3, kabi.PinPagesNOCTopDown), p.NOCSize-6*page, "three pages don't fit the hole of two at the top")
		equal(t, at(13, 2, kabi.PinPagesNOCTopDown), p.NOCSize-2*page, "two pages fit it exactly")
		for i := uint64(7); i < 17; i++ {
			at(8+i, 1, kabi.PinPagesNOCDMA)
		}
		_, err := pinAt(f, address(b)+25*page, page, kabi.PinPagesNOCDMA)
		want(t, "a seventeenth region", err, syscall.ENOSPC)
		_, err = pinAt(f, address(b)+25*page, page, 0)
		want(t, "a pin without one", err, nil)
	})
}

func TestAssertion28_NoRoom(t *testing.T) {
	d := newRig(t, chip.Wormhole).drv.devices[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, _, err := d.iatu.mapOutbound(d.fn, false, 0xFFFE0000, 0); err != nil {
		t.Fatalf("all of it: %v", err)
	}
	_, _, err := d.iatu.mapOutbound(d.fn, true, 4096, 0)
	want(t, "one page more", err, syscall.ENOMEM)
	b := newRig(t, chip.Blackhole).drv.devices[0]
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _, err = b.iatu.mapOutbound(b.fn, false, 1<<40+4096, 0)
	want(t, "more than a Blackhole region", err, syscall.EINVAL)
}

func TestApertureInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(archs).Draw(t, "arch")
		drv := value(New(Config{Arch: a, Functions: []Function{newRegFile(a)}}))(t)
		d := drv.devices[0]
		limit := d.arch.nocLimit
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(d.iatu.regions)-1).Draw(t, "region")
			if !d.iatu.regions[i].free && rapid.Bool().Draw(t, "unmap") {
				d.iatu.unmapOutbound(d.fn, &i)
				continue
			}
			size := rapid.SampledFrom([]uint64{4096, 1 << 20, 1 << 30, 0x7FFF0000}).Draw(t, "size")
			region, noc, err := d.iatu.mapOutbound(d.fn, rapid.Bool().Draw(t, "top down"), size, 0)
			if err != nil {
				continue
			}
			r := d.iatu.regions[region]
			if noc-d.arch.params.PCI.NOCBase != r.base || r.limit-r.base+1 != size || r.limit > limit {
				t.Fatalf("region %+v for %#x", r, size)
			}
			for j, o := range d.iatu.regions {
				if j != region && !o.free && o.base <= r.limit && r.base <= o.limit {
					t.Fatalf("%+v overlaps %+v", r, o)
				}
			}
		}
	})
}

func TestRegionRegisters(t *testing.T) {
	b := pages(t, 1, unix.MAP_PRIVATE)
	for _, tt := range []struct {
		arch chip.Arch
		want [][2]uint64 // register and value; math.MaxUint64 is replaced by the low half of the bus address
	}{
		{chip.Wormhole, [][2]uint64{{8, 0}, {12, 0}, {0x14, math.MaxUint64}, {0x18, 0}, {0x10, 4095}, {0, 0}, {4, 0x88280000}}},
		{chip.Blackhole, [][2]uint64{{8, 0}, {12, 0}, {0x14, math.MaxUint64}, {0x18, 0}, {0x10, 4095}, {0x20, 0}, {0, 1 << 13},
			{4, 1 << 31}, {0x1C, 0}}},
	} {
		r := newRig(t, tt.arch)
		f := r.open(0)
		o, err := pinned(f, b, kabi.PinPagesNOCDMA)
		want(t, "pin", err, nil)
		base := uint64(tt.arch.Params().PCI.IATUBase)
		check := func(what string, w [][2]uint64) {
			t.Helper()
			if len(r.fn.stores) != len(w) {
				t.Fatalf("%v %s: %d stores, want %d", tt.arch, what, len(r.fn.stores), len(w))
			}
			for i, s := range r.fn.stores {
				v := w[i][1]
				if v == math.MaxUint64 {
					v = o.PhysicalAddress
				}
				if s != [4]uint64{2, base + w[i][0], 4, v} {
					t.Errorf("%v %s: store %d is %#x, want register %#x = %#x", tt.arch, what, i, s, w[i][0], v)
				}
			}
			r.fn.stores = nil
		}
		check("enable", tt.want)
		want(t, "unpin", unpin(f, address(b), uint64(len(b)), 0), nil)
		off := make([][2]uint64, len(tt.want))
		for i, w := range tt.want {
			off[i] = [2]uint64{w[0], 0}
			if tt.arch == chip.Blackhole && w[0] == 0 {
				off[i][1] = 1 << 13
			}
		}
		check("disable", off)
	}
}

func TestAssertion29_ShortPinAnswer(t *testing.T) {
	f := newRig(t, chip.Wormhole).open(0)
	b := pages(t, 1, unix.MAP_PRIVATE)
	a := kabi.PinPages{In: kabi.PinPagesIn{OutputSizeBytes: 8, Flags: kabi.PinPagesNOCDMA, VirtualAddress: address(b), Size: pageSize()}}
	want(t, "pin", f.Ioctl(kabi.IoctlPinPages, kabi.Bytes(&a)), nil)
	if a.Out.PhysicalAddress == 0 {
		t.Error("no physical address")
	}
}

func TestAssertion30_ReadOnlyPins(t *testing.T) {
	b := pages(t, 1, unix.MAP_PRIVATE)
	no := newRig(t, chip.Wormhole, func(c *Config) { c.NoIOMMU = true }).open(0)
	_, err := pinned(no, b, kabi.PinPagesReadOnly)
	want(t, "without an IOMMU", err, syscall.EOPNOTSUPP)
	old := newRig(t, chip.Wormhole, version(2, 8)).open(0)
	_, err = pinned(old, b, kabi.PinPagesReadOnly)
	want(t, "before 2.9", err, syscall.EINVAL)
	r := newRig(t, chip.Wormhole)
	f := r.open(0)
	o, err := pinned(f, b, kabi.PinPagesReadOnly)
	want(t, "pin", err, nil)
	want(t, "device reads", r.fn.dma.ReadHost(o.PhysicalAddress, make([]byte, 4)), nil)
	var de *DMAError
	if err := r.fn.dma.WriteHost(o.PhysicalAddress, make([]byte, 4)); !errors.As(err, &de) || !de.Write {
		t.Errorf("device writes: %v", err)
	}
}

func allocateBuffer(f seam.File, size uint32, i, flags uint8) (kabi.AllocateDMABufOut, error) {
	a := kabi.AllocateDMABuf{In: kabi.AllocateDMABufIn{RequestedSize: size, BufIndex: i, Flags: flags}}
	err := f.Ioctl(kabi.IoctlAllocateDMABuf, kabi.Bytes(&a))
	return a.Out, err
}

func TestAssertion31_DMABuffers(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	page := uint32(pageSize())
	for _, size := range []uint32{0, 1, page - 1, 256<<20 + page} {
		_, err := allocateBuffer(f, size, 0, 0)
		want(t, "size", err, syscall.EINVAL)
	}
	for i := range 256 {
		o, err := allocateBuffer(f, page, uint8(i), 0)
		want(t, "allocate", err, nil)
		w := (pageSize()-256)<<32 + uint64(i)<<32
		equal(t, o.MappingOffset, w, "buffer %d", i)
		equal(t, o.Size, page, "buffer %d", i)
		m, err := f.Mmap(o.MappingOffset, int(page))
		want(t, "map", err, nil)
		m.Mem[0] = byte(i)
		got := []byte{0}
		if err := r.fn.dma.ReadHost(o.PhysicalAddress, got); err != nil || got[0] != byte(i) {
			t.Errorf("device sees %d in buffer %d, %v", got[0], i, err)
		}
		want(t, "unmap", m.Unmap(), nil)
	}
	_, err := allocateBuffer(f, page, 9, 0)
	want(t, "index in use", err, syscall.EINVAL)
	_, err = f.Mmap((pageSize()-256)<<32, int(2*page))
	want(t, "more than a buffer", err, syscall.EINVAL)
	g := r.open(0)
	o, err := allocateBuffer(g, page, 0, kabi.AllocateDMABufNOCDMA)
	want(t, "with a NoC address", err, nil)
	equal(t, o.NOCAddress, uint64(1)<<60+1<<58-uint64(page), "NoC address")
	want(t, "close", g.Close(), nil)
	expect.Error(t, r.fn.dma.ReadHost(o.PhysicalAddress, []byte{0})) // a closed file's buffer
}

func TestAssertion32_PinsOutliveMappings(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	b, err := unix.Mmap(-1, 0, int(2*pageSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
	want(t, "map", err, nil)
	copy(b, "still here")
	va, n := address(b), uint64(len(b))
	o, err := pinned(f, b, 0)
	want(t, "pin", err, nil)
	want(t, "unmap", unix.Munmap(b), nil)
	got := make([]byte, 10)
	if err := r.fn.dma.ReadHost(o.PhysicalAddress, got); err != nil || string(got) != "still here" {
		t.Errorf("device sees %q, %v", got, err)
	}
	want(t, "unpin", unpin(f, va, n, 0), nil)
	expect.Error(t, r.fn.dma.ReadHost(o.PhysicalAddress, got)) // unpinned memory
}

func TestPinOfUnmappedPrivateMemory(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	b, err := unix.Mmap(-1, 0, int(pageSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	want(t, "map", err, nil)
	o, err := pinned(f, b, 0)
	want(t, "pin", err, nil)
	want(t, "unmap", unix.Munmap(b), nil)
	var de *DMAError
	if err := r.fn.dma.WriteHost(o.PhysicalAddress, make([]byte, 100)); !errors.As(err, &de) {
		t.Errorf("write: %v", err)
	}
}

func TestDMAStaysInItsRange(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	f := r.open(0)
	b := pages(t, 2, unix.MAP_PRIVATE)
	o, err := pinned(f, b, 0)
	want(t, "pin", err, nil)
	for _, tt := range []struct {
		at uint64
		n  int
		ok bool
	}{
		{0, 4, true}, {1, 7, true}, {uint64(len(b)) - 8, 8, true}, {uint64(len(b)) - 4, 8, false},
		{uint64(len(b)), 4, false}, {math.MaxUint64 - o.PhysicalAddress, 8, false}, {-o.PhysicalAddress, 4, false},
	} {
		w := bytes.Repeat([]byte{byte(tt.n)}, tt.n)
		err := r.fn.dma.WriteHost(o.PhysicalAddress+tt.at, w)
		equal(t, err == nil, tt.ok, "%d bytes at +%#x: %v", tt.n, tt.at, err)
		if tt.ok && !bytes.Equal(b[tt.at:][:tt.n], w) {
			t.Errorf("%d bytes at +%#x are elsewhere", tt.n, tt.at)
		}
	}
}
