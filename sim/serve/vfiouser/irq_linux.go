package vfiouser

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Interrupt types of a PCI device (linux/vfio.h, VFIO_PCI_INTX_IRQ_INDEX and on).
const (
	irqINTx  = 0
	irqMSI   = 1
	irqCount = 5 // with MSI-X, errors and requests, which the cards lack

	irqInfoEventFD    = 1 << 0
	irqInfoMaskable   = 1 << 1
	irqInfoAutomasked = 1 << 2
	irqInfoNoResize   = 1 << 3
)

func irqInfo(index uint32) (flags, count uint32) {
	switch index {
	case irqINTx:
		return irqInfoEventFD | irqInfoMaskable | irqInfoAutomasked, 1
	case irqMSI:
		return irqInfoEventFD | irqInfoNoResize, 1
	}
	return 0, 0
}

type interrupts struct {
	mu   sync.Mutex
	line [2]irqLine // INTA and the message
}

type irqLine struct {
	fd              int // event descriptor, if has
	has             bool
	masked, pending bool
}

// Descriptors that set keeps become -1 in fds.
func (t *interrupts) set(s setIRQs, data []byte, fds []int) error {
	_, n := irqInfo(s.Index)
	if s.Index >= irqCount || s.Start > n || s.Count > n-s.Start {
		return syscall.EINVAL
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	action := s.Flags & irqActions
	if s.Flags&irqDataEventFD != 0 {
		switch {
		case action != irqActionTrigger:
			return syscall.EOPNOTSUPP // events for masking and unmasking
		case len(fds) != 0 && len(fds) != int(s.Count):
			return syscall.EINVAL
		case s.Count == 0:
			return nil
		}
		return t.line[s.Index].assign(fds)
	}
	if len(fds) != 0 {
		return syscall.EINVAL
	}
	if s.Count == 0 {
		if action == irqActionTrigger && s.Flags&irqDataNone != 0 && s.Start == 0 && n > 0 { // disables the type
			t.line[s.Index].drop()
		}
		return nil
	}
	if s.Flags&irqDataBool != 0 && data[0] == 0 {
		return nil
	}
	l := &t.line[s.Index]
	switch {
	case action == irqActionTrigger:
		l.trigger(s.Index == irqINTx)
	case s.Index != irqINTx:
		return syscall.EINVAL
	case action == irqActionMask:
		l.masked = true
	default:
		l.masked = false
		if l.pending {
			l.trigger(true)
		}
	}
	return nil
}

func (l *irqLine) assign(fds []int) error {
	if len(fds) == 0 {
		l.drop()
		return nil
	}
	// Another kind of file could block, or mean something to others.
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fds[0])); err != nil || name != "anon_inode:[eventfd]" {
		return syscall.EINVAL
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return err
	}
	l.drop()
	l.fd, l.has = fds[0], true
	fds[0] = -1
	return nil
}

func (l *irqLine) drop() {
	if l.has {
		_ = unix.Close(l.fd) // an event descriptor has nothing to lose
	}
	*l = irqLine{}
}

// A level interrupt masks itself, and waits while masked.
func (l *irqLine) trigger(level bool) {
	if level && l.masked {
		l.pending = true
		return
	}
	if !l.has {
		return
	}
	l.pending, l.masked = false, level
	one := [8]byte{1}
	_, _ = unix.Write(l.fd, one[:]) // a full counter has told the client already
}

func (t *interrupts) clear() {
	t.mu.Lock()
	for i := range t.line {
		t.line[i].drop()
	}
	t.mu.Unlock()
}
