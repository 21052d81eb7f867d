package dispatch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/kmd"
)

type hostKernel struct {
	proc chip.Processor
	name string // of the firmware image
	args []uint32

	image []byte
}

// semaphores are a core's initial values, by id.
type semaphores map[uint32]uint32

func (s semaphores) bytes() []byte {
	var b []byte
	for id, v := range s {
		if need := 16 * int(id+1); len(b) < need {
			b = append(b, make([]byte, need-len(b))...)
		}
		binary.LittleEndian.PutUint32(b[16*id:], v)
	}
	return b
}

// startHostKernels starts kernels in host mode: the core reports no end, and its launch pointer
// stays.
func (d *machine) startHostKernels(c chip.Core, ks []hostKernel, sems semaphores) error {
	l1, launch := &d.queue.L1, &d.queue.Launch
	le := binary.LittleEndian
	slot := make([]byte, memmap.SlotArgs*chip.NumProcessors)
	semOff := len(slot)
	slot = append(slot, sems.bytes()...)
	msg := make([]byte, l1.LaunchSize)
	le.PutUint32(msg[launch.ConfigBase:], l1.KernelConfig)
	le.PutUint16(msg[launch.Semaphores:], uint16(semOff))
	msg[launch.Mode] = 1 // host mode
	var format program.ArgFormat
	if fw := d.opts.QueueFirmware; fw != nil {
		format = fw.Base.argFormat()
	}
	for proc := range uint32(chip.NumProcessors) { // common arguments
		le.PutUint16(msg[launch.Args+4*proc+2:], format.Offset(0, 0))
	}
	var enables uint32
	for _, k := range ks {
		image := k.image
		if image == nil {
			var err error
			if image, err = firmware.CQ(d.ch.Arch(), k.name); err != nil {
				return err
			}
		}
		format.Put(slot[memmap.SlotArgs*int(k.proc):], k.args)
		for len(slot)%program.SlotAlign != 0 {
			slot = append(slot, 0)
		}
		le.PutUint16(msg[launch.Args+4*uint32(k.proc):], uint16(memmap.SlotArgs*int(k.proc)))
		le.PutUint32(msg[launch.Text+4*uint32(k.proc):], uint32(len(slot)))
		if k.proc == chip.NCRISC && d.queue.Boot.IRAMSize > 0 {
			le.PutUint16(msg[launch.NCRISCSize:], uint16(len(image)/16))
		}
		enables |= 1 << k.proc
		slot = append(slot, image...)
	}
	le.PutUint32(msg[launch.Enables:], enables)
	msg[launch.FirstRemote] = uint8(launch.CircularBuffers)
	if uint32(len(slot)) > l1.KernelConfigSize {
		return fmt.Errorf("its kernels need %d B, the kernel-config memory has %d B", len(slot), l1.KernelConfigSize)
	}
	if err := d.write(c, l1.KernelConfig, slot); err != nil {
		return err
	}
	if err := d.write(c, l1.Launch, msg); err != nil {
		return err
	}
	return d.write(c, l1.Go, []byte{0, 0, 0, postmortem.SignalGo})
}

func (d *machine) dispatchXYs() []uint32 {
	var out []uint32
	for id := range d.opts.Queues {
		_, c := d.queueCores(id)
		if xy, err := d.ch.Virtual(c); err == nil {
			out = append(out, d.ch.Arch().NOCXY(xy))
		}
	}
	return out
}

func (d *machine) openL1(xy chip.XY) (*kmd.Window, error) {
	size := uint64(0)
	for _, c := range d.pr.Windows {
		if c.Size >= uint64(d.pr.L1Size) && (size == 0 || c.Size < size) {
			size = c.Size
		}
	}
	w, err := d.hostSide().OpenWindow(size, kmd.Uncached)
	if err != nil {
		return nil, err
	}
	if err := w.Configure(kmd.WindowConfig{Target: xy, Ordering: kmd.Strict}); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}
