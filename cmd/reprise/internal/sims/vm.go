package sims

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/vm"
	"github.com/reprise-tt/reprise/hwtest/vm/inside"
	"github.com/reprise-tt/reprise/sim/serve/vfiouser"
)

// VmCmd runs a program in a virtual machine.
type VmCmd struct {
	Machine  []string `help:"Emulated machines whose cards the virtual machine has, such as p150, n150, n300 or t3000." default:"p150" placeholder:"NAME"`
	Kernel   string   `help:"Kernel image of Linux for x86-64; this machine's if absent." placeholder:"FILE"`
	Module   string   `help:"Tenstorrent's driver, tenstorrent.ko, built for that kernel; the one that is installed for it if absent." placeholder:"FILE"`
	Share    string   `help:"Folder to share with the machine at the same path. Changed files are copied back at the end." type:"path" placeholder:"DIR"`
	Add      []string `help:"Program or file to copy into the machine at the same path." type:"path" sep:"none" placeholder:"FILE"`
	Memory   int      `help:"Memory of the machine in MiB, at least; more if the files need more." default:"2048" placeholder:"MIB"`
	NoIOMMU  bool     `name:"no-iommu" help:"A machine without an IOMMU."`
	KVM      bool     `name:"kvm" help:"Use /dev/kvm, if available, instead of emulating each instruction."`
	QEMU     string   `name:"qemu" help:"QEMU with vfio-user." default:"qemu-system-x86_64" placeholder:"PROGRAM"`
	Messages bool     `help:"Print all kernel messages."`

	Program []string `arg:"" optional:"" passthrough:"" help:"Program of this machine and its arguments, after --: reprise itself, one with its libraries, or a command of busybox. A shell if absent."`
}

func (VmCmd) Help() string {
	return "Boots a virtual machine that has emulated cards, loads the vendor's driver, runs a program and turns the machine off. " +
		"The program's standard output is this command's; the console, with the program's standard error, is on standard error. " +
		"It exits with the program's status. Whatever is missing on this machine is named with the Debian package that has it. For x86-64 Linux. " +
		"Exit codes: the program's, 128 and the signal's number if a signal ended it; 1 something went wrong, 2 wrong flags or arguments, 130 interrupted."
}

// Validate checks what doesn't depend on this machine.
func (c *VmCmd) Validate() error {
	if len(c.Program) > 0 && c.Program[0] == "--" {
		c.Program = c.Program[1:] // it belongs to those that are passed
	}
	_, err := c.machines()
	if err == nil && c.Memory < 256 {
		err = cli.Wrong("--memory", c.Memory, "Linux and the driver need more", "give 256 or more")
	}
	return err
}

func (c *VmCmd) machines() (l []chip.Machine, err error) {
	if len(c.Machine) == 0 {
		return nil, cli.Wrong("--machine", "", "it is empty", "use one of"+machineNames()).By(errNotServed)
	}
	for _, n := range c.Machine {
		m, err := machineNamed(n)
		if err != nil {
			return nil, err
		}
		l = append(l, m)
	}
	return l, nil
}

// Run boots the machine. A cli.ExitStatus is the program's.
func (c *VmCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	p, release, err := c.program(s)
	if err != nil {
		return err
	}
	machines, err := c.machines()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "reprise-vm")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithCancel(ctx)
	g, serving := errgroup.WithContext(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, g.Wait())
	}()
	for i, m := range machines {
		cards, end, err := emulatedCards(m)
		if err != nil {
			return err
		}
		defer func() { cancel(); _ = g.Wait(); err = errors.Join(err, end()) }()
		for j, v := range cards {
			label := fmt.Sprintf("card %d of an emulated %s", j, m.Name)
			v.conf.Report = func(err error) { _, _ = fmt.Fprintf(s.Err, "reprise: %s: %v\n", label, err) }
			served, err := vfiouser.New(v.fn, v.conf)
			if err != nil {
				return err
			}
			socket := filepath.Join(dir, fmt.Sprintf("card.%d.%d", i, j))
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
			if err != nil {
				return fmt.Errorf("serve a card: %w", err)
			}
			g.Go(func() error { return served.Serve(serving, l) })
			p.Sockets = append(p.Sockets, socket)
		}
	}
	_, _ = fmt.Fprintf(s.Err, "booting Linux %s with %s\n", release, strings.Join(c.Machine, ", "))
	status, err := p.Run(serving)
	if err == nil && status != 0 {
		return cli.ExitStatus(status)
	}
	return err
}

// program is the program and the machine without cards, with the kernel's release.
func (c *VmCmd) program(s cli.Streams) (p *vm.Program, release string, err error) {
	f, err := c.find()
	if err != nil {
		return nil, "", err
	}
	p = &vm.Program{
		Hardware: vm.Hardware{QEMU: []string{f.qemu}, Kernel: f.kernel, Memory: c.Memory, IOMMU: !c.NoIOMMU, Accelerate: c.KVM},
		Module:   f.module, Busybox: f.busybox, Files: c.Add, Share: c.Share, Dir: "/",
		InitArgs: []string{insideCommand}, Args: f.args,
		Env:            []string{"HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:" + vm.BusyboxDir},
		Stdout:         s.Out,
		Console:        s.Err,
		KernelMessages: 4,
	}
	if c.Messages {
		p.KernelMessages = 7
	}
	if p.Init, err = os.Executable(); err != nil {
		return nil, "", fmt.Errorf("find this program to copy it into the machine: %w", err)
	}
	if c.Share != "" {
		p.Dir = c.Share
		if wd, err := os.Getwd(); err == nil && within(wd, c.Share) {
			p.Dir = wd
		}
	}
	if len(c.Program) == 0 {
		p.Terminal = true
		p.Env = append(p.Env, "TERM="+os.Getenv("TERM"))
		if w, h, err := term.GetSize(int(os.Stdin.Fd())); err == nil {
			p.Rows, p.Columns = uint16(h), uint16(w)
		}
	}
	return p, f.release, nil
}

// within reports whether a path is a folder or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// found holds the parts of the machine.
type found struct {
	qemu, kernel, release, module, busybox string
	args                                   []string
}

// missingError lists what this machine lacks, with the source of each.
type missingError []string

func (e missingError) Error() string { return strings.Join(e, "\nreprise: ") }

// find finds the parts of the machine. A missingError lists the missing ones.
func (c *VmCmd) find() (f found, err error) {
	var missing missingError
	lack := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	f.qemu, err = exec.LookPath(c.QEMU)
	if err != nil {
		lack("QEMU is missing (%s): %s", c.QEMU, getQEMU)
	} else if version, ok, err := vm.QEMUVersion([]string{f.qemu}); err != nil {
		lack("QEMU doesn't run: %v: %s", err, getQEMU)
	} else if !ok {
		lack("QEMU %s (%s) has no vfio-user, which QEMU has since 10.1: %s", version, f.qemu, getQEMU)
	}
	f.kernel = c.Kernel
	if f.kernel == "" {
		f.kernel = "/boot/vmlinuz-" + thisRelease()
	}
	switch f.release, err = vm.KernelRelease(f.kernel); {
	case errors.Is(err, os.ErrPermission):
		lack("the kernel %s can't be read: make a copy that you can read, and name it with --kernel", f.kernel)
	case errors.Is(err, os.ErrNotExist):
		lack("the kernel %s is missing: name one with --kernel (Debian: package linux-image-amd64 has /boot/vmlinuz-…)", f.kernel)
	case err != nil:
		lack("%v: name one with --kernel (Debian: package linux-image-amd64 has /boot/vmlinuz-…)", err)
	}
	f.module = c.Module
	if f.module == "" && f.release != "" {
		f.module = installedModule("/lib/modules/" + f.release)
	}
	what := ""
	if f.module == "" {
		what = "the driver is missing"
	} else if built, err := vm.ModuleRelease(f.module); errors.Is(err, os.ErrNotExist) {
		what = fmt.Sprintf("the driver %s is missing", f.module)
	} else if err != nil {
		what = err.Error()
	} else if built != "" && f.release != "" && built != f.release {
		what = fmt.Sprintf("the driver %s is for kernel %s, and %s is %s", f.module, built, f.kernel, f.release)
	}
	if what != "" {
		headers := "linux-headers-amd64"
		if f.release != "" {
			headers = "linux-headers-" + f.release
		}
		lack("%s: build the module of https://github.com/tenstorrent/tt-kmd for that kernel as its README says, and name it with --module "+
			"(Debian: packages %s, make, gcc)", what, headers)
	}
	if b, err := exec.LookPath("busybox"); err == nil {
		f.busybox = b
	}
	f.args = c.findProgram(&f, lack)
	for _, n := range append([]string{c.Share}, c.Add...) {
		if _, err := os.Stat(n); n != "" && err != nil {
			lack("%v", err)
		}
	}
	if missing != nil {
		return f, missing
	}
	return f, nil
}

func (c *VmCmd) findProgram(f *found, lack func(string, ...any)) []string {
	if len(c.Program) == 0 {
		switch {
		case !term.IsTerminal(int(os.Stdin.Fd())):
			lack("a shell needs a terminal: give a program after --")
		case f.busybox == "":
			lack("busybox, the machine's shell, is missing: install Debian's package busybox-static, or give a program after --")
		}
		return []string{vm.BusyboxDir + "/busybox", "sh"}
	}
	name, rest := c.Program[0], c.Program[1:]
	if name == "reprise" {
		return append([]string{vm.InitPath}, rest...)
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		return append([]string{path}, rest...)
	}
	if f.busybox != "" && !strings.Contains(name, "/") {
		if out, err := exec.Command(f.busybox, "--list").Output(); err == nil && slices.Contains(strings.Fields(string(out)), name) {
			return append([]string{vm.BusyboxDir + "/" + name}, rest...)
		}
	}
	lack("the program %s is missing: %v", name, cli.Cause(err))
	return nil
}

const getQEMU = "install Debian 13's package of its backports (apt-get install -t trixie-backports qemu-system-x86), or name another one with --qemu"

// installedModule returns the path of a kernel's installed driver; "" if there is none.
func installedModule(dir string) string {
	for _, pattern := range []string{"updates/dkms", "updates", "extra"} {
		if l, err := filepath.Glob(filepath.Join(dir, pattern, "tenstorrent.ko*")); err == nil && len(l) > 0 {
			return l[0]
		}
	}
	return ""
}

// insideCommand is the hidden command of a virtual machine's first process.
const insideCommand = "vm-inside"

// InsideCmd is the first process of a virtual machine.
type InsideCmd struct{}

func (InsideCmd) Run() error { return inside.Main() }
