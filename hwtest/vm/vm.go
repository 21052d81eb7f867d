// Package vm boots a virtual machine that has Tenstorrent cards, and collects what its only program, hwtest/vm/guest,
// says on the console. The cards are sockets of vfio-user servers, such as those of package sim/serve/vfiouser; the machine is
// QEMU's, which has the client since release 10.1. Neither a kernel nor the vendor's driver comes with Reprise.
package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Config describes a machine.
type Config struct {
	// Arch is the machine's architecture as Go calls it: "amd64", the default, or "riscv64".
	Arch string
	// QEMU is the command that starts qemu-system-x86_64 or qemu-system-riscv64, with arguments that come first.
	QEMU []string
	// Kernel is a path of a Linux kernel image with PCI, a serial console and initial file systems built in.
	Kernel string
	// Init is a path of package guest's command, built without cgo for the machine's architecture.
	Init string
	// Sockets are the cards.
	Sockets []string
	// Module is a path of the vendor's driver, built for the kernel. If it is empty, the guest only reads the cards' PCI
	// configuration and BARs.
	Module string
	// Commands run with the driver loaded, in their order. Programs have to be in Files.
	Commands []string
	// Files are files for the machine: from the path inside it to that of the file outside.
	Files map[string]string
	// Memory is the machine's memory in MiB, 1024 if zero.
	Memory int
	// IOMMU gives an amd64 machine one that translates what cards reach, as the runtime's large pins want it.
	IOMMU bool
	// Accelerate lets the kernel's virtual machines run the guest where there are some. Otherwise all instructions are
	// emulated.
	Accelerate bool
	// Console gets everything that the machine prints; nil discards it.
	Console io.Writer
}

// Result is what the guest reported.
type Result struct {
	Pass, Fail, Skip []string // the guest's lines, without the first word
	Cards            []string // likewise, one for each card
	Load             []string // how long a load from a card takes
}

// patience is how long a card may take to answer an access.
const patience = 2 * time.Minute

// ErrBoot is wrapped by the error of a machine that stopped before its program's end.
var ErrBoot = errors.New("the machine did not get to its end")

// Arguments are QEMU's for the machine with a given initial file system.
func (c *Config) Arguments(initial string) []string {
	memory := c.Memory
	if memory == 0 {
		memory = 1024
	}
	accel := "tcg"
	if c.Accelerate {
		accel = "kvm:tcg"
	}
	kernel := "console=ttyS0 panic=-1 loglevel=6"
	machine := "q35"
	if c.Arch == "riscv64" {
		machine = "virt"
	}
	args := []string{
		// 32 GiB of BAR need more address bits than the default processor of amd64 has.
		"-machine", machine + ",memory-backend=ram,accel=" + accel, "-cpu", "max", "-m", fmt.Sprintf("%dM", memory), "-smp", "2",
		// The chip reaches memory through its file.
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", memory),
		"-kernel", c.Kernel, "-initrd", initial,
		"-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
	}
	if c.IOMMU && c.Arch != "riscv64" {
		// Caching mode tells QEMU of each mapping, which it passes on.
		args = append(args, "-device", "intel-iommu,caching-mode=on,intremap=off,aw-bits=48")
		kernel += " intel_iommu=on iommu.passthrough=0"
	}
	args = append(args, "-append", kernel)
	for i, s := range c.Sockets {
		args = append(args,
			"-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%d", i, i+1),
			// QEMU gives up for good on a card that doesn't answer in 5 seconds, which the vendor's simulator may need for what was
			// stored before.
			"-device", fmt.Sprintf(`{"driver":"vfio-user-pci","bus":"port%d","socket":{"type":"unix","path":%q},"x-msg-timeout":%d}`, i, s, patience.Milliseconds()))
	}
	return args
}

// Run boots the machine and waits until it is off. The error wraps ErrBoot if that happened before the end, or ctx's.
func (c *Config) Run(ctx context.Context) (r Result, err error) {
	if len(c.QEMU) == 0 {
		return r, fmt.Errorf("vm: %w: no QEMU was given", ErrBoot)
	}
	dir, err := os.MkdirTemp("", "reprise-vm")
	if err != nil {
		return r, fmt.Errorf("vm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	initial := filepath.Join(dir, "initial")
	if err := c.pack(initial); err != nil {
		return r, fmt.Errorf("vm: initial file system: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.QEMU[0], append(c.QEMU[1:len(c.QEMU):len(c.QEMU)], c.Arguments(initial)...)...)
	cmd.WaitDelay = 5 * time.Second
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, fmt.Errorf("vm: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("vm: start QEMU: %w", err)
	}
	done := r.collect(out, c.Console)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("vm: %w: %w", ErrBoot, ctx.Err())
	case err != nil:
		return r, fmt.Errorf("vm: %w: QEMU: %w: %s", ErrBoot, err, strings.TrimSpace(said.String()))
	case !done:
		return r, fmt.Errorf("vm: %w: see what it printed on its console", ErrBoot)
	}
	return r, nil
}

// collect reads the console to its end, and reports whether the guest's program came to its own.
func (r *Result) collect(in io.Reader, copy io.Writer) (done bool) {
	b := bufio.NewReader(in)
	for {
		line, err := b.ReadString('\n')
		if copy != nil {
			_, _ = io.WriteString(copy, line) // what is missing there is the writer's matter
		}
		kind, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		switch kind {
		case "PASS":
			r.Pass = append(r.Pass, rest)
		case "FAIL":
			r.Fail = append(r.Fail, rest)
		case "SKIP":
			r.Skip = append(r.Skip, rest)
		case "CARD":
			r.Cards = append(r.Cards, rest)
		case "LOAD":
			r.Load = append(r.Load, rest)
		case "DONE":
			done = true
		}
		if err != nil {
			return done
		}
	}
}
