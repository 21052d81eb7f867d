package traces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// memory is the DRAM of a device, or a folder with copies of it.
type memory struct {
	ctx    context.Context // ends reads
	ch     *chip.Chip
	dev    *kmd.Device // nil for copies
	folder string
	files  map[int]*os.File // of the folder, by bank
}

// openMemory opens a device for reading. Other users aren't disturbed.
func openMemory(ctx context.Context, t kmd.Target) (*memory, error) {
	d, ch, err := cli.OpenChip(ctx, t, kmd.WithoutPower(), kmd.WithoutWaiting())
	return &memory{ctx: ctx, ch: ch, dev: d, files: map[int]*os.File{}}, err
}

// ReadDRAM implements metaltrace.Memory.
func (m *memory) ReadDRAM(bank int, addr uint64, b []byte) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	k := &m.ch.DRAMBanks()[bank]
	if addr > k.Size || uint64(len(b)) > k.Size-addr {
		return fmt.Errorf("%d B at %#x end beyond the bank's %#x B", len(b), addr, k.Size)
	}
	if m.dev != nil {
		return m.dev.Read(k.HostEndpoint, k.Offset+addr, b)
	}
	f := m.files[bank]
	if f == nil {
		var err error
		if f, err = os.Open(filepath.Join(m.folder, strconv.Itoa(bank)+".bin")); err != nil {
			return err
		}
		m.files[bank] = f
	}
	if _, err := f.ReadAt(b, int64(addr)); err != nil {
		return fmt.Errorf("%s: %d B at %#x: %w", f.Name(), len(b), addr, err)
	}
	return nil
}

// trace reads a trace at an address of all banks.
func (m *memory) trace(addr uint64, pageSize, pages int) ([]byte, error) {
	banks := m.ch.DRAMBanks()
	rows := uint64((pages + len(banks) - 1) / len(banks))
	if size := banks[0].Size; addr > size || rows*uint64(pageSize) > size-addr {
		return nil, fmt.Errorf("%d pages of %d B over %d banks from %#x on end beyond a bank's %#x B", pages, pageSize, len(banks), addr, size)
	}
	b := make([]byte, pages*pageSize)
	return b, metaltrace.ReadInterleaved(m, len(banks), addr, pageSize, 0, b)
}

// scan finds possible traces in the last window bytes of the banks.
func (m *memory) scan(window uint64) ([]metaltrace.Candidate, error) {
	banks := m.ch.DRAMBanks()
	return metaltrace.Scan(m.ctx, m, len(banks), cq.Layout(m.ch.Arch()), banks[0].Size, window)
}

func (m *memory) close() error {
	var err error
	if m.dev != nil {
		err = m.dev.Close()
	}
	for _, f := range m.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// readDRAM reads a device's trace.
func readDRAM(ctx context.Context, t kmd.Target, addr uint64, pageSize, pages int) (b []byte, ch *chip.Chip, err error) {
	m, err := openMemory(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	b, err = m.trace(addr, pageSize, pages)
	return b, m.ch, errors.Join(err, m.close())
}
