package dispatch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kernels/watch"
	"github.com/reprise-tt/reprise/kmd"
)

// tt-metal waits as long for the base firmware.
const firmwareTimeout = 10 * time.Second

// Segment is bytes of base firmware for an address of the tile; the firmware copies those for local
// RAM there.
type Segment struct {
	Addr uint32
	Data []byte
}

// Firmware is base firmware for a kind of core.
type Firmware struct {
	Layout   *abi.Layout
	Segments [chip.NumProcessors][]Segment
	// Numbers of banks that the firmware was compiled for; 0 for any.
	DRAMBanks, L1Banks int
	CountsArgs         bool
}

func (f *Firmware) argFormat() program.ArgFormat {
	if f != nil && f.CountsArgs {
		return program.Counted
	}
	return 0
}

// FirmwareError is returned for base firmware that doesn't fit the chip.
type FirmwareError struct {
	Revision abi.Revision
	Why      string
}

func (e *FirmwareError) Error() string {
	return fmt.Sprintf("dispatch: base firmware of %v: %s", e.Revision, e.Why)
}

func ownFirmware(arch chip.Arch) (*Firmware, error) {
	images, err := firmware.Base(arch)
	if err != nil {
		return nil, err
	}
	f := &Firmware{Layout: abi.Own(arch)}
	for p, image := range images {
		f.Segments[p] = []Segment{{Addr: f.Layout.L1.Firmware[p], Data: image}}
	}
	return f, nil
}

func (f *Firmware) refuse(format string, a ...any) error {
	return &FirmwareError{Revision: f.Layout.Revision, Why: fmt.Sprintf(format, a...)}
}

func (f *Firmware) check(ch *chip.Chip, workers int) error {
	if f.Layout.Arch != ch.Arch() {
		return f.refuse("it is for %v, the chip is a %v: give firmware of that architecture", f.Layout.Arch, ch.Arch())
	}
	if n := len(ch.DRAMBanks()); f.DRAMBanks != 0 && f.DRAMBanks != n {
		return f.refuse("it was compiled for %d DRAM banks, the chip has %d: build it on a machine with this kind of card", f.DRAMBanks, n)
	}
	if f.L1Banks != 0 && f.L1Banks != workers {
		return f.refuse("it was compiled for %d L1 banks, one for each worker, the chip has %d: build it on a machine with this kind of card",
			f.L1Banks, workers)
	}
	if n := f.Layout.L1.LaunchEntries; n != program.LaunchEntries {
		return f.refuse("it has %d launch messages, this runtime uses %d", n, program.LaunchEntries)
	}
	for p := range f.Segments {
		if len(f.Segments[p]) == 0 {
			return f.refuse("it has none for %v", chip.Processor(p))
		}
		for _, s := range f.Segments[p] {
			if _, err := f.place(chip.Processor(p), &s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Firmware) place(p chip.Processor, s *Segment) (uint32, error) {
	l, params := f.Layout, f.Layout.Arch.Params()
	start, size, to := l.L1.Firmware[p], l.L1.FirmwareSize[p], l.L1.Firmware[p]
	if s.Addr >= params.LocalRAM {
		start, size, to = params.LocalRAM, params.LocalRAMSize[p], l.Boot.Scratch[p]
		if to == 0 {
			return 0, f.refuse("%v has initial data of local RAM, for which this revision has no place", p)
		}
	}
	if s.Addr < start || s.Addr-start > size || uint32(len(s.Data)) > size-(s.Addr-start) {
		return 0, f.refuse("%v has %d B at %#x, its place is %#x..%#x", p, len(s.Data), s.Addr, start, start+size)
	}
	return to + s.Addr - start, nil
}

func (d *machine) checkFirmware() error {
	if f := d.opts.Firmware; f != nil {
		if err := f.check(d.ch, len(d.l1Banks)); err != nil {
			return err
		}
	}
	if fw := d.opts.QueueFirmware; fw != nil {
		return fw.Base.check(d.ch, len(d.l1Banks))
	}
	return nil
}

func (d *machine) bringUp(ctx context.Context) error {
	if err := d.multicastWord(d.tensixRange(), d.pr.SoftReset, d.pr.ResetAll); err != nil {
		return fmt.Errorf("dispatch: bring-up: hold cores in reset: %w", err)
	}
	own, err := ownFirmware(d.ch.Arch())
	if err != nil {
		return fmt.Errorf("dispatch: bring-up: %w", err)
	}
	worker, queue := cmp.Or(d.opts.Firmware, own), own
	if fw := d.opts.QueueFirmware; fw != nil {
		queue = fw.Base
	}
	if worker == queue {
		if err := d.loadFirmware(own, d.tensixRange()); err != nil {
			return err
		}
	} else {
		if err := d.loadFirmware(worker, d.grid); err != nil {
			return err
		}
		if err := d.loadFirmware(queue, d.queueGrid()); err != nil {
			return err
		}
	}
	d.printing.started()
	if err := d.multicastWord(d.tensixRange(), d.pr.SoftReset, d.pr.ResetAllButBRISC); err != nil {
		return fmt.Errorf("dispatch: bring-up: release cores from reset: %w", err)
	}
	for c := range d.ch.Workers() {
		if err := d.awaitDone(ctx, c, firmwareTimeout, func() {}); err != nil {
			return fmt.Errorf("dispatch: bring-up: base firmware of core %v: %w", c, err)
		}
	}
	d.goSlots = map[chip.Core]uint8{}
	return d.selectGoMessages(ctx)
}

func (d *machine) loadFirmware(f *Firmware, cores chip.Range) error {
	l1 := &f.Layout.L1
	for p := range chip.Processor(chip.NumProcessors) {
		for _, s := range f.Segments[p] {
			at, err := f.place(p, &s)
			if err != nil {
				return err
			}
			if err := d.multicast(cores, uint64(at), slices.Concat(s.Data, make([]byte, -len(s.Data)&3))); err != nil {
				return fmt.Errorf("dispatch: bring-up: load firmware of %v: %w", p, err)
			}
		}
	}
	virtual, err := d.virtualMap(f.Layout)
	if err != nil {
		return err
	}
	for _, w := range []struct {
		what string
		addr uint32
		data []byte
	}{
		{"mailbox", l1.Mailbox, f.Layout.Mailbox()},
		{"rings of prints", l1.Print, make([]byte, print.HeadersSize)},
		{"failed checks", l1.Watch, make([]byte, watch.AreaSize)},
		{"tiles", l1.Tiles, abi.Tiles(d.ch)},
		{"zeros", l1.Zeros, make([]byte, l1.ZerosSize)},
		{"bank table", l1.BankTable, f.Layout.Banks.Encode(d.ch.DRAMBanks(), d.l1Banks)},
		{"virtual coordinates", f.Layout.Boot.Virtual, virtual},
	} {
		if w.addr == 0 {
			continue // the revision has no place for it
		}
		if err := d.multicast(cores, uint64(w.addr), w.data); err != nil {
			return fmt.Errorf("dispatch: bring-up: write %s: %w", w.what, err)
		}
	}
	if err := d.multicastWord(cores, 0, jump(l1.Firmware[chip.BRISC])); err != nil {
		return fmt.Errorf("dispatch: bring-up: write reset vector: %w", err)
	}
	for c := range cores.Cores() {
		if err := d.write(c, l1.CoreInfo, f.Layout.EncodeInfo(d.ch, c, d.grid.Contains(c))); err != nil {
			return fmt.Errorf("dispatch: bring-up: write core information of %v: %w", c, err)
		}
	}
	return nil
}

func (d *machine) virtualMap(l *abi.Layout) ([]byte, error) {
	var columns, rows []chip.XY
	w, h := d.ch.Grid()
	for x := range w {
		xy, err := d.ch.Virtual(chip.Core{X: x})
		if err != nil {
			return nil, err
		}
		columns = append(columns, xy)
	}
	for y := range h {
		xy, err := d.ch.Virtual(chip.Core{Y: y})
		if err != nil {
			return nil, err
		}
		rows = append(rows, xy)
	}
	return l.VirtualMap(columns, rows)
}

// awaitDone waits until a core's first go message is DONE.
func (d *machine) awaitDone(ctx context.Context, c chip.Core, limit time.Duration, meanwhile func()) error {
	xy, err := d.ch.Virtual(c)
	if err != nil {
		return err
	}
	w := newWaiter(limit, Pace{}, &d.naps)
	for {
		v, err := d.kd.Read32(xy, uint64(d.report.LayoutOf(c).L1.Go))
		if err != nil {
			return err
		}
		if v>>24 == postmortem.SignalDone {
			return nil
		}
		if err := d.kd.Fault(); err != nil {
			return err
		}
		meanwhile()
		if err := w.pause(ctx); err != nil {
			return fmt.Errorf("go message is %#08x, expected the signal DONE; %v: %w", v, d.report.Core(c), err)
		}
	}
}

// jump encodes JAL x0 from address 0, where BRISC starts, to a target below 1 MiB.
func jump(target uint32) uint32 {
	return target&0xFF000 | target&0x800<<9 | target&0x7FE<<20 | 0x6F
}

// FirmwareHash is the SHA-256 of all firmware on the chip, on which traces depend.
func (d *machine) FirmwareHash() ([sha256.Size]byte, error) {
	f := d.opts.Firmware
	if f == nil {
		return HashFirmware(d.ch.Arch(), nil)
	}
	return HashFirmware(d.ch.Arch(), func(yield func(uint32, []byte) bool) {
		for p := range f.Segments {
			for _, s := range f.Segments[p] {
				if !yield(s.Addr, s.Data) {
					return
				}
			}
		}
	})
}

// HashFirmware returns the FirmwareHash of a device with this runtime's own command-queue firmware.
// workers are the segments, by processor and address, of other base firmware; nil for none.
func HashFirmware(a chip.Arch, workers iter.Seq2[uint32, []byte]) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	base, err := firmware.Base(a)
	if err != nil {
		return sum, err
	}
	images := base[:]
	for _, name := range []string{firmware.Prefetch, firmware.Dispatch, firmware.DispatchS} {
		image, err := firmware.CQ(a, name)
		if err != nil {
			return sum, err
		}
		images = append(images, image)
	}
	h := sha256.New()
	for _, image := range images {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(image))))
		h.Write(image)
	}
	if workers != nil {
		for addr, data := range workers {
			h.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, addr), uint32(len(data))))
			h.Write(data)
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

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
