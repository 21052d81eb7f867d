package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// Messenger is a Function whose management firmware has a message queue. Message answers one message; its first word
// is 0 if the firmware did what it was asked.
type Messenger interface {
	Message(request [8]uint32) (answer [8]uint32)
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
