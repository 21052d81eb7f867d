package firmware_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim/emu"
)

// Whoever is told that a kernel has ended may read what it wrote, and the next program takes over
// its NoC's counters. The emulator refuses a tile that tells the dispatcher of its end sooner.
func TestKernelsEndWithTheirRequests(t *testing.T) {
	const pageSize, source, destination, pages = 64, 0x100000, 0x400000, 5
	for _, arch := range arches {
		dense, err := digits.KernelsFor(arch)
		must(t, err)
		copies := func(proc chip.Processor) map[chip.Processor]kernel {
			return map[chip.Processor]kernel{proc: {name: kernels.Copy, args: []uint32{source, destination, 0, pages, pageSize, 0}}}
		}
		reader := kernel{name: kernels.CopyReader, args: []uint32{source, 0, pages, pageSize, 16}}
		for _, c := range []struct {
			name    string
			kernels map[chip.Processor]kernel
		}{
			{"copy on BRISC", copies(chip.BRISC)},
			{"copy on NCRISC", copies(chip.NCRISC)},
			{"copy_writer on NCRISC", map[chip.Processor]kernel{
				chip.BRISC: reader, chip.NCRISC: {name: kernels.CopyWriter, args: []uint32{destination, 0, pages, pageSize, 16}},
			}},
			{"copy_writer on BRISC", map[chip.Processor]kernel{
				chip.NCRISC: reader, chip.BRISC: {name: kernels.CopyWriter, args: []uint32{destination, 0, pages, pageSize, 16}},
			}},
			{"writer of digits", map[chip.Processor]kernel{
				chip.BRISC: reader, chip.NCRISC: {file: dense.Writer, args: []uint32{destination, 0, 1, pageSize}},
			}},
		} {
			for noc := range uint8(2) {
				t.Run(fmt.Sprintf("%v %s NoC %d", arch, c.name, noc), func(t *testing.T) {
					m := emulated(t, emu.Config{Arch: arch, Seed: uint64(noc), Delay: 300, RefuseRaces: true})
					p := program{mode: modeDevice, noc: noc, kernels: map[chip.Processor]kernel{}, buffers: make([][4]uint32, 17)}
					for i := range p.buffers {
						p.buffers[i] = [4]uint32{m.scratch() + 0x100 + uint32(i)*8*pageSize, 8 * pageSize, 8, pageSize}
					}
					for proc, k := range c.kernels {
						if k.name == kernels.Copy {
							k.args[5] = m.scratch()
						}
						p.kernels[proc] = k
					}
					want := bytes.Repeat([]byte{1, 2, 3, noc + 4}, pageSize/4)
					for i := range uint32(pages) {
						m.writePage(source, pageSize, i, want)
					}
					m.writePage(destination, pageSize, 0, make([]byte, pageSize))
					m.run(m.work[8], p)
					m.until("counted", m.work[0], func() bool { return m.completions(m.work[0], 0) == 1 })
					if got := m.readPage(destination, pageSize, 0); !bytes.Equal(got, want) {
						t.Errorf("the kernel has ended, and its page holds %x, not %x", got, want)
					}
				})
			}
		}
	}
}
