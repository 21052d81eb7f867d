package metal

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ErrEthernet means that a file is for a processor of an Ethernet core, where Reprise runs nothing
// of tt-metal's.
var ErrEthernet = errors.New("it is for a processor of an Ethernet core: Reprise runs kernels and base firmware of tt-metal on workers, and its command queues")

// An EthernetFile is a kernel or base firmware for one processor of an Ethernet core.
type EthernetFile struct {
	Path string // of the ELF file
	// Processor is the processor as tt-metal calls it, such as active_erisc.
	Processor string
	// Firmware is set for base firmware, which has no Name and no Hash, and for a file outside of a
	// cache's layout.
	Firmware bool
	// Name, Hash, Build and Commit are as of a [Kernel].
	Name, Hash, Build, Commit string
}

// ethernetProcessors are the processors of Ethernet cores: with a link, one on Wormhole, and one or
// two on Blackhole as the firmware needs; and of idle ones.
var ethernetProcessors = []string{"erisc", "active_erisc", "subordinate_active_erisc", "idle_erisc", "subordinate_idle_erisc"}

// ethernetOf returns the processor of an Ethernet core whose file has that name.
func ethernetOf(name string) (string, bool) {
	p, elf := strings.CutSuffix(name, ".elf")
	return p, elf && slices.Contains(ethernetProcessors, p)
}

// ethernetFile describes a file by its absolute path.
func ethernetFile(full, processor string) EthernetFile {
	k, isKernel := locate(full, 0)
	if isKernel {
		return EthernetFile{Processor: processor, Name: k.Name, Hash: k.Hash, Build: k.Build, Commit: k.Commit}
	}
	f := EthernetFile{Processor: processor, Firmware: true}
	// <build key>/firmware/[<hash>/]<processor>/<processor>.elf
	dir := firmwareDir(full)
	if filepath.Base(dir) != "firmware" {
		dir = filepath.Dir(dir)
	}
	if build := filepath.Dir(dir); filepath.Base(dir) == "firmware" {
		f.Build = filepath.Base(build)
		if c := filepath.Base(filepath.Dir(build)); isCommit(c) {
			f.Commit = c
		}
	}
	return f
}

// refuseEthernet returns an error if a path is that of an Ethernet core's file.
func refuseEthernet(path string) error {
	if p, ok := ethernetOf(filepath.Base(path)); ok {
		return fmt.Errorf("metal: %s: %s: %w", path, p, ErrEthernet)
	}
	return nil
}

func sortEthernet(all []EthernetFile) {
	slices.SortFunc(all, func(a, b EthernetFile) int { return cmp.Compare(a.Path, b.Path) })
}
