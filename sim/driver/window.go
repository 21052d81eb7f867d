package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

// The registers are only 4-byte aligned on Blackhole.
func (d *device) configureWindow(id uint32, size uint64, c *kabi.NOCTLBConfig) error {
	p := d.arch.params
	if c.Addr&(size-1) != 0 || p.Arch == chip.Wormhole && c.Addr >= 1<<36 {
		return syscall.EINVAL
	}
	lo, hi := packWindow(p.Arch, size, c)
	reg := p.WindowRegister(int(id))
	if p.Arch == chip.Wormhole {
		d.fn.BARStore(0, reg, 8, lo)
		return nil
	}
	d.fn.BARStore(0, reg, 4, lo&0xFFFFFFFF)
	d.fn.BARStore(0, reg+4, 4, lo>>32)
	d.fn.BARStore(0, reg+8, 4, hi)
	if id < uint32(p.BAR.StridedCount) {
		if bit := uint32(1) << id; d.strided.Load()&bit != 0 {
			d.strided.And(^bit)
			d.fn.BARStore(0, uint64(p.BAR.StridedRegs)+4*uint64(id), 4, 0)
		}
	}
	return nil
}

func (d *device) noteStore(off uint64, n uint64) {
	p := d.arch.params
	base := uint64(p.BAR.StridedRegs)
	for i := range uint64(p.BAR.StridedCount) {
		if r := base + 4*i; off < r+4 && off+n > r {
			d.strided.Or(1 << i)
		}
	}
}

func (d *device) kernelAccess(x, y, noc uint8, addr uint64, width int, v uint64, store bool) (uint64, error) {
	d.kernelWindow.Lock()
	defer d.kernelWindow.Unlock()
	p := d.arch.params
	class, _ := p.WindowClassOf(p.BAR.KernelWindow)
	bar, off, _ := p.WindowOffset(p.BAR.KernelWindow)
	in := addr & (class.Size - 1)
	cfg := kabi.NOCTLBConfig{Addr: addr - in, XEnd: uint16(x), YEnd: uint16(y), NOC: noc, Ordering: uint8(chip.Strict)}
	if err := d.configureWindow(uint32(p.BAR.KernelWindow), class.Size, &cfg); err != nil {
		return 0, err
	}
	if d.faults.load() {
		return 1<<(8*width) - 1, nil
	}
	if store {
		d.fn.BARStore(bar, off+in, width, v)
		return 0, nil
	}
	return d.fn.BARLoad(bar, off+in, width), nil
}

// A cleanup write that hardware can't express is dropped. The driver's unpinning takes long enough
// for its arrival; here a read, which can't overtake it, waits.
func (d *device) kernelWrite32(x, y, noc uint8, addr uint64, v uint32) {
	if d.fn != nil {
		_, _ = d.kernelAccess(x, y, noc, addr, 4, uint64(v), true)
		_ = d.fn.ConfigRead(0)
	}
}
