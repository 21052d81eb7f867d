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

// A kernel ends when its last write has arrived, and no sooner: whoever is told that it has ended may read what it wrote.
// The networks of these chips are so slow that a write which nobody waits for arrives long after the host has looked. (It can
// miss a kernel that ends too soon, if the host is late; it never refuses one that is right.)
func TestKernelsEndWithTheirWrites(t *testing.T) {
	const pageSize, source, destination = 64, 0x100000, 0x400000
	for _, arch := range arches {
		dense, err := digits.KernelsFor(arch)
		if err != nil {
			t.Fatal(err)
		}
		copies := func(proc chip.Processor) map[chip.Processor]kernel {
			return map[chip.Processor]kernel{proc: {name: kernels.Copy, args: []uint32{source, destination, 0, 1, pageSize, 0}}}
		}
		reader := kernel{name: kernels.CopyReader, args: []uint32{source, 0, 1, pageSize, 16}}
		for _, c := range []struct {
			name    string
			kernels map[chip.Processor]kernel
		}{
			{"copy on BRISC", copies(chip.BRISC)},
			{"copy on NCRISC", copies(chip.NCRISC)},
			{"copy_writer", map[chip.Processor]kernel{
				chip.BRISC: reader, chip.NCRISC: {name: kernels.CopyWriter, args: []uint32{destination, 0, 1, pageSize, 16}},
			}},
			{"writer of digits", map[chip.Processor]kernel{
				chip.BRISC: reader, chip.NCRISC: {file: dense.Writer, args: []uint32{destination, 0, 1, pageSize}},
			}},
		} {
			for noc := range uint8(2) {
				t.Run(fmt.Sprintf("%v %s NoC %d", arch, c.name, noc), func(t *testing.T) {
					m := emulated(t, emu.Config{Arch: arch, Seed: uint64(noc), Delay: 200_000})
					p := program{mode: modeHost, noc: noc, kernels: map[chip.Processor]kernel{}, buffers: make([][4]uint32, 17)}
					for i := range p.buffers {
						p.buffers[i] = [4]uint32{m.scratch() + 0x100 + uint32(i)*2*pageSize, 2 * pageSize, 2, pageSize}
					}
					for proc, k := range c.kernels {
						if k.name == kernels.Copy {
							k.args[5] = m.scratch()
						}
						p.kernels[proc] = k
					}
					want := bytes.Repeat([]byte{1, 2, 3, noc + 4}, pageSize/4)
					m.writePage(source, pageSize, 0, want)
					m.writePage(destination, pageSize, 0, make([]byte, pageSize))
					// Where every processor waits, time passes until something comes; so one is kept busy elsewhere.
					m.launch(m.work[3], program{mode: modeHost, semaphores: []uint32{1}, kernels: map[chip.Processor]kernel{
						chip.BRISC: {name: kernels.MulticastWait, args: []uint32{0, 0x160000, 0, m.scratch()}},
					}})
					m.signal(m.work[3], 0, signalGo, 0, m.work[0])
					m.run(m.work[8], p)
					if got := m.readPage(destination, pageSize, 0); !bytes.Equal(got, want) {
						t.Errorf("the kernel has ended, and its page holds %x, not %x", got, want)
					}
				})
			}
		}
	}
}
