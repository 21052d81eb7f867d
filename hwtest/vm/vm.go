// Package vm boots QEMU machines with Tenstorrent cards, which are sockets of vfio-user servers.
// QEMU has the client since 10.1. Neither a kernel nor the vendor's driver comes with Reprise.
package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Hardware is what a machine is made of, and its kernel.
type Hardware struct {
	// Arch is "amd64", the default, or "riscv64".
	Arch string
	// QEMU is a command line that starts qemu-system-x86_64 or qemu-system-riscv64.
	QEMU []string
	// Kernel is a Linux image with PCI, a serial console and initial file systems built in.
	Kernel string
	// Sockets are the cards.
	Sockets []string
	// Memory is the machine's memory in MiB, 1024 if zero.
	Memory int
	// IOMMU gives an amd64 machine one, as large pins want it.
	IOMMU bool
	// Accelerate uses the kernel's virtual machines where there are some.
	Accelerate bool
}

const (
	patience      = 2 * time.Minute
	defaultMemory = 1024 // MiB
)

// ErrBoot is wrapped by the error of a machine that stopped before its program's end.
var ErrBoot = errors.New("the machine did not get to its end")

func (h *Hardware) arguments(initial, kernel string, serial ...string) []string {
	memory := cmp.Or(h.Memory, defaultMemory)
	accel := "tcg"
	if h.Accelerate {
		accel = "kvm:tcg"
	}
	machine := "q35"
	if h.Arch == "riscv64" {
		machine = "virt"
	}
	args := []string{
		// 32 GiB of BAR need more address bits than the default processor of amd64 has.
		"-machine", machine + ",memory-backend=ram,accel=" + accel, "-cpu", "max", "-m", fmt.Sprintf("%dM", memory), "-smp", "2",
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", memory),
		"-kernel", h.Kernel, "-initrd", initial,
		"-nodefaults", "-display", "none", "-no-reboot",
	}
	args = append(args, serial...)
	if h.Arch != "riscv64" {
		// The guest's kernel then handles slots itself, and can reset a card through sysfs.
		args = append(args, "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")
	}
	if h.IOMMU && h.Arch != "riscv64" {
		// Caching mode passes each mapping on.
		args = append(args, "-device", "intel-iommu,caching-mode=on,intremap=off,aw-bits=48")
		kernel = "intel_iommu=on iommu.passthrough=0 " + kernel
	}
	args = append(args, "-append", kernel)
	for i, s := range h.Sockets {
		args = append(args,
			"-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%d", i, i+1),
			// QEMU gives up on a card that doesn't answer in 5 seconds, which the simulator may
			// need.
			"-device", fmt.Sprintf(`{"driver":"vfio-user-pci","bus":"port%d","socket":{"type":"unix","path":%q},"x-msg-timeout":%d}`, i, s,
				patience.Milliseconds()))
	}
	return args
}

type process struct {
	ctx  context.Context
	cmd  *exec.Cmd
	said strings.Builder
}

func (h *Hardware) command(ctx context.Context, args []string) (*process, error) {
	if len(h.QEMU) == 0 {
		return nil, fmt.Errorf("vm: %w: no QEMU was given", ErrBoot)
	}
	p := &process{ctx: ctx, cmd: exec.CommandContext(ctx, h.QEMU[0], append(h.QEMU[1:len(h.QEMU):len(h.QEMU)], args...)...)}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) } // QEMU then leaves the terminal as it was
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.Stderr = &p.said
	return p, nil
}

func (p *process) start() error {
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("vm: start QEMU: %w", err)
	}
	return nil
}

func (p *process) wait() error {
	err := p.cmd.Wait()
	if p.ctx.Err() != nil {
		return fmt.Errorf("vm: %w: %w", ErrBoot, p.ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("vm: %w: QEMU: %w: %s", ErrBoot, err, strings.TrimSpace(p.said.String()))
	}
	return nil
}
