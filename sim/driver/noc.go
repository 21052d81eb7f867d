package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

// Messenger is a Function whose management firmware has a message queue. Message answers one message; its first word
// is 0 if the firmware did what it was asked.
type Messenger interface {
	Message(request [8]uint32) (answer [8]uint32)
}

// smcMessage is a message that a file has posted and not seen the answer of.
type smcMessage struct {
	answer [8]uint32
	early  bool // the answer comes with the poll after the next
}

// smcMessage posts, polls or abandons the one message that a file may have under way (tenstorrent/tt-kmd#266).
func (f *file) smcMessage(arg []byte) error {
	var in kabi.SMCMessage
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	if in.Argsz != uint32(kabi.Size[kabi.SMCMessage]()) || in.QueueIndex != 0 || in.Reserved0 != 0 {
		return syscall.EINVAL
	}
	d := f.dev
	m, ok := d.fn.(Messenger)
	if !ok {
		return syscall.EOPNOTSUPP
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch in.Flags {
	case kabi.SMCPost:
		if f.message != nil {
			return syscall.EBUSY
		}
		f.message = &smcMessage{answer: m.Message(in.Message), early: true}
	case kabi.SMCPoll:
		if f.message == nil {
			return syscall.ESRCH
		}
		if f.message.early {
			f.message.early = false
			return syscall.EAGAIN
		}
		in.Message = f.message.answer
		f.message = nil
		put(arg, &in)
	case kabi.SMCAbandon:
		f.message = nil
	default:
		return syscall.EINVAL
	}
	return nil
}

// nocAccess makes one access to a tile through the driver's own window, where no mapping can go away under it
// (tenstorrent/tt-kmd#283).
func (f *file) nocAccess(arg []byte, store bool) error {
	var in kabi.NOCAccess
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	switch in.Width {
	case 1, 2, 4, 8:
	default:
		return syscall.EINVAL
	}
	if in.Argsz != uint32(kabi.Size[kabi.NOCAccess]()) || in.Flags != 0 || in.Reserved0 != [2]uint8{} || in.NOC > 1 ||
		in.X > 63 || in.Y > 63 || in.Addr%uint64(in.Width) != 0 {
		return syscall.EINVAL
	}
	v, err := f.dev.kernelAccess(uint8(in.X), uint8(in.Y), in.NOC, in.Addr, int(in.Width), in.Value, store)
	if err != nil {
		return err
	}
	if !store {
		in.Value = v
		put(arg, &in)
	}
	return nil
}

// kernelAccess makes an access through the driver's own window, strictly ordered.
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
	if d.faults.any.Load() && d.faults.load() {
		return 1<<(8*width) - 1, nil
	}
	if store {
		d.fn.BARStore(bar, off+in, width, v)
		return 0, nil
	}
	return d.fn.BARLoad(bar, off+in, width), nil
}

// kernelWrite32 is the cleanup write at the end of a file. One that hardware can't express is dropped.
//
// The driver posts it and goes on to unpin memory, for which it waits for the IOMMU and the kernel's memory management;
// by then the store has arrived. Here unpinning takes no time, so the store is pushed there by a read, which doesn't
// overtake it.
func (d *device) kernelWrite32(x, y, noc uint8, addr uint64, v uint32) {
	if d.fn != nil {
		_, _ = d.kernelAccess(x, y, noc, addr, 4, uint64(v), true)
		_ = d.fn.ConfigRead(0)
	}
}
