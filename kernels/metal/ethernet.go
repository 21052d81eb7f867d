package metal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ErrEthernet means that a file is for a processor of an Ethernet core.
var ErrEthernet = errors.New("it is for a processor of an Ethernet core: Reprise runs kernels and base firmware of tt-metal on workers, and its command queues")

// An EthernetFile is for one processor of an Ethernet core.
type EthernetFile struct {
	Path   string `json:"file"` // of the ELF file
	Name   string `json:"name,omitempty"`
	Hash   string `json:"hash,omitempty"`
	Build  string `json:"build,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Processor is tt-metal's name, such as active_erisc.
	Processor string `json:"processor"`
	// Firmware is set for base firmware and outside of a cache's layout; then Name and Hash are
	// empty.
	Firmware bool `json:"firmware"`
}

// With a link there is one on Wormhole, and one or two on Blackhole as the firmware needs.
var ethernetProcessors = []string{"erisc", "active_erisc", "subordinate_active_erisc", "idle_erisc", "subordinate_idle_erisc"}

func ethernetOf(name string) (string, bool) {
	p, elf := strings.CutSuffix(name, ".elf")
	return p, elf && slices.Contains(ethernetProcessors, p)
}

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

func refuseEthernet(path string) error {
	if p, ok := ethernetOf(filepath.Base(path)); ok {
		return fmt.Errorf("metal: %s: %s: %w", path, p, ErrEthernet)
	}
	return nil
}
