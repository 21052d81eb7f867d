package tracebuf

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Pages of the DRAM buffers that hold programs' kernels. Source: tt-metal device_command.hpp (2^11 B).
const (
	binaryPageLog = 11
	binaryPage    = 1 << binaryPageLog
)

// Validate says whether a trace is one that a recorder could have made for its target: the target exists, the steps
// tile the commands, every command is one that the firmware takes and that a trace may contain, writes to nothing but
// the kernel-config memory and the launch messages of workers, and waits for nothing but completions of earlier steps;
// relocations name all DRAM that the commands read, patch points name words of runtime arguments. Errors are an
// ErrInvalid, as a *FileError.
func (f *File) Validate() error {
	ch, err := f.checkTarget()
	if err != nil {
		return err
	}
	im := &f.Image
	if err := f.checkNames(); err != nil {
		return err
	}
	if err := im.checkShape(); err != nil {
		return err
	}
	if im.Layout != cq.Layout(f.Target.Arch) {
		return invalid("commands", "they are for %v, the target is %v", im.Layout, f.Target.Arch)
	}
	if err := im.checkPrograms(ch); err != nil {
		return err
	}
	if err := im.checkBuffers(ch); err != nil {
		return err
	}
	w := walker{im: im, target: &f.Target, ch: ch, l1: &ch.Params().L1}
	if err := w.walk(); err != nil {
		return err
	}
	if err := w.checkParams(); err != nil {
		return err
	}
	if err := f.checkData("data", f.Data); err != nil {
		return err
	}
	return f.checkData("result", f.Results)
}

func (f *File) checkTarget() (*chip.Chip, error) {
	t := &f.Target
	if !t.Arch.Valid() {
		return nil, invalid("target", "architecture %d, want 1 (Wormhole) or 2 (Blackhole)", uint8(t.Arch))
	}
	if t.Revision != cq.Pinned {
		return nil, invalid("target", "protocol revision %q, this program runs %q only", t.Revision, cq.Pinned)
	}
	ch, err := chip.New(t.Arch, t.Harvesting)
	if err != nil {
		return nil, &FileError{Part: "target", What: err.Error(), Err: err}
	}
	if all := ch.All(); t.Workers.Empty() || !all.Contains(t.Workers.Start) || !all.Contains(t.Workers.End) {
		return nil, invalid("target", "the workers %v, the chip has %v", t.Workers, all)
	}
	if n := len(ch.DRAMBanks()); t.Banks != n {
		return nil, invalid("target", "%d DRAM banks, the chip has %d", t.Banks, n)
	}
	if c, ok := ch.Logical(t.Dispatch); !ok || t.Workers.Contains(c) {
		return nil, invalid("target", "%v is no core that a dispatcher can run on", t.Dispatch)
	}
	return ch, nil
}

func (f *File) checkNames() error {
	check := func(part, s string) error {
		if len(s) > maxName {
			return invalid(part, "its name has %d bytes, at most %d are possible: give it a shorter one", len(s), maxName)
		}
		return nil
	}
	if err := check("trace", f.Name); err != nil {
		return err
	}
	for i := range f.Image.Programs {
		if err := check(fmt.Sprintf("program %d", i), f.Image.Programs[i].Name); err != nil {
			return err
		}
	}
	for i := range f.Image.Steps {
		if err := check(fmt.Sprintf("step %d", i), f.Image.Steps[i].Name); err != nil {
			return err
		}
	}
	for i := range f.Image.Buffers {
		if err := check(fmt.Sprintf("buffer %d", i), f.Image.Buffers[i].Name); err != nil {
			return err
		}
	}
	for i := range f.Image.Params {
		if err := check(fmt.Sprintf("patch point %d", i), f.Image.Params[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// checkShape tests the sizes, and that the steps tile the commands in front of the EXEC_BUF_END.
func (im *Image) checkShape() error {
	if !im.Layout.Valid() {
		return invalid("commands", "their layout is %d", uint8(im.Layout))
	}
	if p := im.PageSize; p < minPageSize || p > maxPageSize || p&(p-1) != 0 {
		return invalid("commands", "pages of %d bytes, want 1024, 2048 or 4096", p)
	}
	end := im.Layout.Stride(2 * cq.HeaderSize) // of the EXEC_BUF_END
	if im.Size < end || im.Size > maxCommands || len(im.Bytes) != roundUp(im.Size, im.PageSize) {
		return invalid("commands", "%d bytes in %d of memory with pages of %d", im.Size, len(im.Bytes), im.PageSize)
	}
	if i := slices.IndexFunc(im.Bytes[im.Size:], func(b byte) bool { return b != 0 }); i >= 0 {
		return invalid(where(im.Size+i), "bytes behind the last command aren't zero")
	}
	if len(im.Steps) == 0 {
		return invalid("steps", "there are none")
	}
	at := 0
	for i, s := range im.Steps {
		if s.Offset != at || s.Size <= 0 || s.Size > im.Size-at {
			return invalid(fmt.Sprintf("step %d", i), "%d bytes at %#x of %#x, want it at %#x, behind the one before", s.Size, s.Offset, im.Size, at)
		}
		if s.Program < 0 || s.Program >= len(im.Programs) {
			return invalid(fmt.Sprintf("step %d", i), "it runs program %d of %d", s.Program, len(im.Programs))
		}
		at += s.Size
	}
	if at != im.Size-end {
		return invalid("steps", "they end at %#x, the commands without their EXEC_BUF_END at %#x", at, im.Size-end)
	}
	if len(im.After) > maxAfter {
		return invalid("queue state", "%d bytes, at most %d are possible", len(im.After), maxAfter)
	}
	return nil
}

func (im *Image) checkPrograms(ch *chip.Chip) error {
	banks := ch.DRAMBanks()
	align := uint64(ch.Params().Align.DRAM())
	for i := range im.Programs {
		p := &im.Programs[i]
		part := fmt.Sprintf("program %d %q", i, p.Name)
		if p.Pages < 0 || len(p.Binary) != p.Pages*binaryPage {
			return invalid(part, "kernels of %d bytes in %d pages of %d bytes", len(p.Binary), p.Pages, binaryPage)
		}
		rows := uint64((p.Pages + len(banks) - 1) / len(banks))
		if p.Addr%align != 0 || p.Addr > banks[0].Size || rows*binaryPage > banks[0].Size-p.Addr {
			return invalid(part, "its kernels lie at %#x, which isn't a multiple of %d inside of a bank of %#x bytes", p.Addr, align, banks[0].Size)
		}
	}
	if end := uint64(ch.Params().L1.Size); im.L1End > end {
		return invalid("circular buffers", "they end at %#x, L1 ends at %#x", im.L1End, end)
	}
	return nil
}

func (im *Image) checkBuffers(ch *chip.Chip) error {
	bank, banks := ch.DRAMBanks()[0].Size, len(ch.DRAMBanks())
	for i, b := range im.Buffers {
		part := fmt.Sprintf("buffer %d %q", i, b.Name)
		end, n := bank, banks
		switch b.Kind {
		case KindDRAM:
		case KindL1:
			end, n = uint64(ch.Params().L1.Size), ch.All().Size()
		default:
			return invalid(part, "kind %d, want 0 (DRAM) or 1 (L1)", b.Kind)
		}
		if b.PageSize <= 0 || b.Size <= 0 || b.Addr >= end || uint64(b.Size)/uint64(n) > end-b.Addr {
			return invalid(part, "%d bytes in pages of %d at %#x, memory ends at %#x", b.Size, b.PageSize, b.Addr, end)
		}
	}
	return nil
}

func (f *File) checkData(what string, data []Data) error {
	last, end := 0, 0
	for i := range data {
		d := &data[i]
		part := fmt.Sprintf("%s %d", what, i)
		if d.Buffer < 0 || d.Buffer >= len(f.Image.Buffers) {
			return invalid(part, "for buffer %d of %d", d.Buffer, len(f.Image.Buffers))
		}
		if d.Buffer != last {
			if d.Buffer < last {
				return invalid(part, "for buffer %d behind data for buffer %d", d.Buffer, last)
			}
			last, end = d.Buffer, 0
		}
		size := f.Image.Buffers[d.Buffer].Size
		if d.Offset < end || len(d.Bytes) == 0 || d.Offset > size || len(d.Bytes) > size-d.Offset {
			return invalid(part, "%d bytes at %d of buffer %q, which has %d; the data before it end at %d", len(d.Bytes), d.Offset, f.Image.Buffers[d.Buffer].Name, size, end)
		}
		end = d.Offset + len(d.Bytes)
	}
	return nil
}

func where(at int) string { return fmt.Sprintf("commands at +%#x", at) }
