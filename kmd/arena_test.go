//go:build linux

package kmd_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
)

func huge(sizes ...int) func(size, page, node int) ([]byte, error) {
	return func(size, page, node int) ([]byte, error) {
		if page > unix.Getpagesize() && !slices.Contains(sizes, page) {
			return nil, syscall.ENOMEM
		}
		if page == unix.Getpagesize() {
			return kmd.MapMemory(size)
		}
		const align = 2 << 20
		b, err := kmd.MapMemory(size + align)
		if err != nil {
			return nil, err
		}
		skip := int((align - kmd.AddressOf(b)%align) % align)
		return b[skip : skip+size : skip+size], nil
	}
}

func openWith(t *testing.T, m *machine, node seam.Node, opts ...kmd.Option) *kmd.Device {
	t.Helper()
	return value(kmd.Open(t.Context(), target{node}, opts...))(t)
}

func TestPinRefusesTheHeap(t *testing.T) {
	m := blackhole(t)
	page := unix.Getpagesize()
	for _, size := range []int{page, 1 << 20, 100 << 20} {
		b := make([]byte, size+page)
		skip := (page - int(kmd.AddressOf(b)%uint64(page))) % page
		expect.Says(t, second(m.dev.Pin(kmd.PinConfig{Memory: b[skip : skip+size]})), nil, "Go's heap")
		mapped := value(kmd.MapMemory(size))(t)
		h := value(m.dev.Pin(kmd.PinConfig{Memory: mapped}))(t)
		must(t, errors.Join(h.Close(), unix.Munmap(mapped)))
	}
}

func TestPinInChunks(t *testing.T) {
	m := blackhole(t)
	var steps [][2]int
	h, err := m.dev.Pin(kmd.PinConfig{Size: 100_000, Chunk: 30_000, Progress: func(n, total int) {
		steps = append(steps, [2]int{n, total})
	}})
	must(t, err)
	want := [][2]int{{32768, 102400}, {65536, 102400}, {98304, 102400}, {102400, 102400}}
	noDiff(t, steps, want, "steps")
	for _, off := range []int{0, 32767, 32768, 65532, 102396} {
		if err := m.fn.WriteHost(h.NOCAddr()+uint64(off), []byte{byte(off), 1}); err != nil && off != 32767 {
			t.Fatal(off, err)
		}
		if off != 32767 && h.Bytes()[off] != byte(off) {
			t.Errorf("byte %d is %d", off, h.Bytes()[off])
		}
	}
	equal(t, h.Pins(), 4, "pinned regions")
	if whole, err := m.dev.Pin(kmd.PinConfig{Size: 1, Chunk: math.MaxInt}); err != nil || whole.Pins() != 1 {
		t.Errorf("a chunk that is larger than all there is: %v", err)
	} else if err := whole.Close(); err != nil {
		t.Error(err)
	}
	must(t, h.Close())
	if a, err := m.dev.PinHostMemory(1); err != nil || a.NOCAddr() != chip.Blackhole.Params().PCI.NOCBase {
		t.Errorf("regions stay: %v, %v", a, err)
	} else if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestChunksAreConsecutive(t *testing.T) {
	m := start(t, chip.Wormhole, driver.Config{})
	var pages []*kmd.HostMemory
	for range 3 {
		p := value(m.dev.PinHostMemory(1))(t)
		pages = append(pages, p)
	}
	if err := pages[1].Close(); err != nil { // a gap of one page
		t.Fatal(err)
	}
	h := value(m.dev.Pin(kmd.PinConfig{Size: 4 * 4096, Chunk: 4096}))(t)
	p := chip.Wormhole.Params().PCI
	equal(t, h.NOCAddr(), p.NOCBase+p.NOCSize-4*4096, "at")
	for i := range 4 {
		if err := m.fn.WriteHost(h.NOCAddr()+uint64(4096*i), []byte{byte(i + 1)}); err != nil || h.Bytes()[4096*i] != byte(i+1) {
			t.Errorf("page %d: %d, %v", i, h.Bytes()[4096*i], err)
		}
	}
	top := value(m.dev.Pin(kmd.PinConfig{Size: 4096}))(t)
	_ = top
	n := uint64(0)
	node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
		err := f.Ioctl(req, arg)
		if req == kabi.IoctlPinPages {
			n++
			arg[34] = byte(n * 5)
		}
		return err
	}}
	d := openWith(t, m, node)
	defer d.Close()
	expect.Says(t, second(d.Pin(kmd.PinConfig{Size: 3 * 4096, Chunk: 4096})), kmd.ErrBusy, "between the chunks")
}

func TestPinHugePages(t *testing.T) {
	big := func(uint64) uint64 { return 2 << 20 }
	for _, tt := range []struct {
		name string
		cfg  driver.Config
		have []int
		size int
		pins int
		want error
		text string
	}{
		{"IOMMU, none", driver.Config{}, nil, 6 << 20, 1, nil, ""},
		{"IOMMU, 2 MiB", driver.Config{}, []int{2 << 20}, 6 << 20, 1, nil, ""},
		{"no IOMMU, none", driver.Config{NoIOMMU: true}, nil, 6 << 20, 0, kmd.ErrNotContiguous, "3 huge pages of 2.0 MiB"},
		{"no IOMMU, 2 MiB", driver.Config{NoIOMMU: true, PageSizeAt: big}, []int{2 << 20}, 6<<20 - 4096, 3, nil, ""},
		{"no IOMMU, less than one", driver.Config{NoIOMMU: true, PageSizeAt: big}, []int{2 << 20}, 2 << 20, 1, nil, ""},
		{"no IOMMU, too many", driver.Config{NoIOMMU: true, PageSizeAt: big}, []int{2 << 20}, 34 << 20, 0, kmd.ErrBusy, "16"},
		{"beyond what a Wormhole reaches", driver.Config{}, nil, 4 << 30, 0, kmd.ErrOutOfRange, "4.0 GiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := start(t, chip.Wormhole, tt.cfg)
			d := openWith(t, m, m.node(), kmd.WithMapper(huge(tt.have...)))
			defer d.Close()
			h, err := d.PinHostMemory(tt.size)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("%v, want %v with %q", err, tt.want, tt.text)
			}
			if err != nil {
				return
			}
			equal(t, h.Pins(), tt.pins, "h.Pins()")
			equal(t, len(h.Bytes()), tt.size, "len(h.Bytes())")
			last := h.NOCAddr() + uint64(tt.size) - 8
			if err := m.fn.WriteHost(last, []byte("the last")); err != nil || string(h.Bytes()[tt.size-8:]) != "the last" {
				t.Errorf("%q, %v", h.Bytes()[tt.size-8:], err)
			}
		})
	}
}

func TestMapRealPages(t *testing.T) {
	m := start(t, chip.Blackhole, driver.Config{NUMANode: 1})
	d := value(kmd.Open(t.Context(), cardOf(m, 0)))(t)
	defer d.Close()
	h := value(d.PinHostMemory(4 << 20))(t)
	for i := 0; i < len(h.Bytes()); i += 4096 {
		if h.Bytes()[i] != 0 {
			t.Fatal("memory isn't zeroed")
		}
		h.Bytes()[i] = 1
	}
	must(t, h.Close())
}

func TestReadOnlyPins(t *testing.T) {
	m := blackhole(t)
	h := value(m.dev.PinReadOnly(4096))(t)
	h.Bytes()[0] = 7
	var p [1]byte
	if err := m.fn.ReadHost(h.NOCAddr(), p[:]); err != nil || p[0] != 7 {
		t.Errorf("%d, %v", p[0], err)
	}
	expect.Error(t, m.fn.WriteHost(h.NOCAddr(), p[:])) // the device no longer writes to it
	must(t, h.Close())
}

func TestPinMemoryOfTheCaller(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		mem := value(unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
		for name, part := range map[string][]byte{"part of a page": mem[:100], "nothing": mem[:0:0],
			"from inside a page": mem[16 : 16+8192]} {
			fails(t, second(m.dev.Pin(kmd.PinConfig{Memory: part})), kmd.ErrMisaligned, "%s", name)
		}
		h := value(m.dev.Pin(kmd.PinConfig{Memory: mem, Chunk: 16 << 10}))(t)
		if err := m.fn.WriteHost(h.NOCAddr()+20_000, []byte("from the device")); err != nil ||
			string(mem[20_000:20_015]) != "from the device" {
			t.Errorf("%q, %v", mem[20_000:20_015], err)
		}
		must(t, h.Close())
		mem[0] = 1 // it is still mapped
		must(t, unix.Munmap(mem))
	})
}

func TestRepin(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		h := value(m.dev.Pin(kmd.PinConfig{Size: 64 << 10, Chunk: 32 << 10}))(t)
		reached := func() string {
			got := make([]byte, 4)
			if err := m.fn.ReadHost(h.NOCAddr()+40_000, got); err != nil {
				return err.Error()
			}
			return string(got)
		}
		copy(h.Bytes()[40_000:], "kept")
		if err := h.Repin(); err != nil || reached() != "kept" { // of a device that isn't lost
			t.Errorf("%v, the device sees %q", err, reached())
		}
		value(kmd.Reset(t.Context(), cardOf(m, 0), kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(t)
		fails(t, h.Repin(), kmd.ErrDeviceLost, "while the device is lost")
		must(t, m.dev.Recover(t.Context()))
		if err := h.Repin(); err != nil || reached() != "kept" {
			t.Errorf("%v, the device sees %q", err, reached())
		}
		value(kmd.Reset(t.Context(), cardOf(m, 0), kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(t)
		if err := m.dev.Alive(); !errors.Is(err, kmd.ErrDeviceLost) {
			t.Fatalf("after a reset: %v", err)
		}
		fails(t, h.Repin(), kmd.ErrDeviceLost, "of a device that is known to be lost")
		must(t, m.dev.Recover(t.Context()))
		if err := h.Repin(); err != nil || reached() != "kept" || h.Pins() != 2 {
			t.Errorf("%v, the device sees %q in %d pins, want 2", err, reached(), h.Pins())
		}
		must(t, h.Close())
		fails(t, h.Repin(), kmd.ErrClosed, "closed")
	})
}
