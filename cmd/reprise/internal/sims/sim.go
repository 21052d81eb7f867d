// Package sims has the commands that run other programs on emulated cards.
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
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/hwtest/vm"
	"github.com/reprise-tt/reprise/hwtest/vm/inside"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
	servecards "github.com/reprise-tt/reprise/sim/serve/cards"
	"github.com/reprise-tt/reprise/sim/serve/vfiouser"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// SimCmd is about emulated cards that other processes use.
type SimCmd struct {
	Serve simServeCmd `cmd:""`
}

type simServeCmd struct {
	Socket   string  `placeholder:"PATH" xor:"where" required:""`
	Tools    string  `placeholder:"PATH"`
	Device   *string `placeholder:"DEVICE"`
	Resident bool

	VFIOUser string `name:"vfio-user" placeholder:"PATH" xor:"where" required:""`
	Machine  string `placeholder:"NAME"`
	TTSim    string `name:"ttsim" placeholder:"PATH"`
}

func (c *simServeCmd) Validate() error {
	if c.VFIOUser != "" {
		if c.Device != nil {
			return cli.Wrong("--device", *c.Device, "it is for processes of this machine",
				"use it with --socket; --machine and --ttsim are for --vfio-user")
		}
		if c.Tools != "" {
			return cli.Wrong("--tools", c.Tools, "it is for processes of this machine", "use it with --socket")
		}
		_, err := c.virtual()
		return err
	}
	for _, f := range [][2]string{{"--machine", c.Machine}, {"--ttsim", c.TTSim}} {
		if f[1] != "" {
			return cli.Wrong(f[0], f[1], "it is for virtual machines", "use it with --vfio-user; --device is for --socket")
		}
	}
	_, err := c.device()
	return err
}

func (c *simServeCmd) device() (*target.Device, error) {
	name := "emu:blackhole"
	if c.Device != nil {
		name = *c.Device
	}
	d, err := cli.ParseDevice("--device", name)
	if err != nil {
		return nil, err
	}
	if d.Kind != target.Emulator {
		return nil, cli.Wrong("--device", name, "only emulators can be served", "use emu:blackhole or emu:wormhole")
	}
	if m := d.Machine(); m != nil && len(m.Chips) > 1 {
		return nil, cli.Wrong("--device", name, fmt.Sprintf("it has %d chips, and a socket serves one", len(m.Chips)),
			"use emu:blackhole or emu:wormhole; --vfio-user serves the cards of a machine")
	}
	return d, nil
}

func (c *simServeCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	if c.VFIOUser != "" {
		return c.serveVirtual(ctx, s)
	}
	e, err := c.device()
	if err != nil {
		return err
	}
	if c.Resident || c.Tools != "" {
		e = e.Emulated("", sim.Resident())
	}
	if c.Tools != "" {
		e = e.Emulated("", sim.StopAtHold(func(access string) {
			fmt.Fprintf(s.Err, "reprise: the chip stands still until a debugger has come to socket:%s:\n  %s\n", c.Tools, access)
		}))
	}
	card := e.Open().(*sim.Card)
	defer func() { err = errors.Join(err, card.Close()) }()
	d, err := card.Driver()
	if err != nil {
		return err
	}
	if c.Tools != "" {
		tools, err := card.Tools().Driver()
		if err != nil {
			return err
		}
		l, err := serve.Listen(c.Tools)
		if err != nil {
			return err
		}
		go servecards.Serve(ctx, l, tools, 0)
	}
	l, err := serve.Listen(c.Socket)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.Out, "serving an emulated %v as socket:%s\n", e.Arch, c.Socket); err != nil {
		return errors.Join(err, l.Close())
	}
	return servecards.Serve(ctx, l, d, 0)
}

// virtual returns no machine for the vendor's simulator: the library says which chip it is.
func (c *simServeCmd) virtual() (chip.Machine, error) {
	name := c.Machine
	if name == "" {
		if c.TTSim != "" {
			return chip.Machine{}, nil
		}
		name = "p150"
	}
	return machineNamed(name)
}

func machineNamed(name string) (chip.Machine, error) {
	m, ok := chip.MachineNamed(name)
	if !ok {
		return m, wrongMachine(name, "there is no such machine")
	}
	return m, nil
}

func wrongMachine(name, why string) error {
	use := "use one of"
	for _, m := range chip.Machines() {
		use += " " + m.Name
	}
	return cli.Wrong("--machine", name, why, use)
}

type virtualCard struct {
	fn   driver.Function
	conf vfiouser.Config
}

func (v virtualCard) open(label string, s cli.Streams) (*vfiouser.Card, error) {
	v.conf.Report = func(err error) { _, _ = fmt.Fprintf(s.Err, "reprise: %s: %v\n", label, err) }
	return vfiouser.New(v.fn, v.conf)
}

func (c *simServeCmd) virtualCards() (name string, cards []virtualCard, end func() error, err error) {
	m, err := c.virtual()
	if err != nil {
		return "", nil, nil, err
	}
	boards := m.Chips
	if c.TTSim != "" {
		server, err := cli.Server()
		if err != nil {
			return "", nil, nil, fmt.Errorf("--ttsim %q: %w", c.TTSim, err)
		}
		s, err := ttsim.Start(c.TTSim, server)
		if err != nil {
			return "", nil, nil, cli.OpenError("ttsim:"+c.TTSim, err)
		}
		for i, f := range s.Functions() {
			if m.Name != "" && (f.Arch() != m.Arch || i >= len(boards)) {
				err := cli.Wrong("--machine", m.Name, fmt.Sprintf("the simulator's card %d is a %v and no such machine's", i, f.Arch()), "leave --machine out")
				return "", nil, nil, errors.Join(err, s.Close())
			}
			board := uint16(chip.BoardN150)
			switch {
			case m.Name != "":
				board = boards[i].Kind
			case f.Arch() == chip.Blackhole:
				board = chip.BoardP150
			}
			cards = append(cards, virtualCard{f, vfiouser.Config{Arch: f.Arch(), Board: board}})
		}
		return "a simulated " + cards[0].conf.Arch.String(), cards, s.Close, nil
	}
	cards, end, err = emulatedCards(m)
	return "an emulated " + m.Name, cards, end, err
}

func emulatedCards(m chip.Machine) (cards []virtualCard, end func() error, err error) {
	e := sim.NewMachine(m, sim.Paced())
	if err := e.Err(); err != nil {
		return nil, nil, err
	}
	for i, b := range m.Chips {
		if b.PCI {
			cards = append(cards, virtualCard{e.Chip(i), vfiouser.Config{Arch: m.Arch, Board: b.Kind}})
		}
	}
	return cards, e.Close, nil
}

func (c *simServeCmd) serveVirtual(ctx context.Context, s cli.Streams) (err error) {
	name, cards, end, err := c.virtualCards()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	g, ctx := errgroup.WithContext(ctx)
	var listeners []*net.UnixListener
	closed := func(err error) error {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	served := make([]*vfiouser.Card, len(cards))
	for i := range cards {
		path, label := c.VFIOUser, name
		if len(cards) > 1 {
			path, label = fmt.Sprintf("%s.%d", path, i), fmt.Sprintf("card %d of %s", i, name)
		}
		if served[i], err = cards[i].open(label, s); err != nil {
			return closed(err)
		}
		l, err := serve.Listen(path)
		if err != nil {
			return closed(err)
		}
		listeners = append(listeners, l)
		more := ""
		if c.TTSim != "" { // QEMU gives up a card that doesn't answer in 5 seconds
			more = `,"x-msg-timeout":60000`
		}
		if _, err := fmt.Fprintf(s.Out, "serving %s: -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":%q}%s}'\n",
			label, path, more); err != nil {
			return closed(err)
		}
	}
	for i, l := range listeners {
		g.Go(func() error { return served[i].Serve(ctx, l) })
	}
	return g.Wait()
}

// VmCmd runs a program in a virtual machine.
type VmCmd struct {
	Machine  []string `default:"p150" placeholder:"NAME"`
	Kernel   string   `placeholder:"FILE"`
	Module   string   `placeholder:"FILE"`
	Share    string   `type:"path" placeholder:"DIR"`
	Add      []string `type:"path" sep:"none" placeholder:"FILE"`
	Memory   int      `default:"2048" placeholder:"MIB"`
	NoIOMMU  bool     `name:"no-iommu"`
	KVM      bool     `name:"kvm"`
	QEMU     string   `name:"qemu" default:"qemu-system-x86_64" placeholder:"PROGRAM"`
	Messages bool

	Program []string `arg:"" optional:"" passthrough:""`

	machines []chip.Machine
}

// Validate checks what can be checked without looking at this machine.
func (c *VmCmd) Validate() error {
	if len(c.Program) > 0 && c.Program[0] == "--" {
		c.Program = c.Program[1:] // it belongs to those that are passed
	}
	if len(c.Machine) == 0 {
		return wrongMachine("", "it is empty")
	}
	c.machines = nil
	for _, n := range c.Machine {
		m, err := machineNamed(n)
		if err != nil {
			return err
		}
		c.machines = append(c.machines, m)
	}
	if c.Memory < 256 {
		return cli.Wrong("--memory", c.Memory, "Linux and the driver need more", "give 256 or more")
	}
	return nil
}

// Run boots the machine.
func (c *VmCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	p, release, err := c.program(s)
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
	for i, m := range c.machines {
		cards, end, err := emulatedCards(m)
		if err != nil {
			return err
		}
		defer func() { cancel(); _ = g.Wait(); err = errors.Join(err, end()) }()
		for j, v := range cards {
			served, err := v.open(fmt.Sprintf("card %d of an emulated %s", j, m.Name), s)
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

func (c *VmCmd) program(s cli.Streams) (p *vm.Program, release string, err error) {
	f, err := c.find()
	if err != nil {
		return nil, "", err
	}
	p = &vm.Program{
		Hardware: vm.Hardware{QEMU: f.qemu, Kernel: f.kernel, Memory: c.Memory, IOMMU: !c.NoIOMMU, Accelerate: c.KVM},
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
		if wd, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(c.Share, wd); err == nil && filepath.IsLocal(rel) {
				p.Dir = wd
			}
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

type found struct {
	kernel, release, module, busybox string
	qemu, args                       []string
}

// missingError lists what this machine lacks.
type missingError []string

func (e missingError) Error() string { return strings.Join(e, "\nreprise: ") }

func (c *VmCmd) find() (f found, err error) {
	var missing missingError
	lack := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	f.qemu, err = qemuCommand(c.QEMU)
	if err != nil {
		lack("QEMU is missing (%s): %s", c.QEMU, getQEMU)
	} else if version, ok, err := vm.QEMUVersion(f.qemu); err != nil {
		lack("QEMU doesn't run: %v: %s", err, getQEMU)
	} else if !ok {
		lack("QEMU %s (%s) has no vfio-user, which QEMU has since 10.1: %s", version, f.qemu[0], getQEMU)
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

const getQEMU = "install Debian 13's package of its backports (apt-get install -t trixie-backports qemu-system-x86), " +
	"on Debian 12 into a folder, as root (mmdebstrap --variant=extract --include=qemu-system-x86 " +
	"--aptopt='APT::Default-Release \"trixie-backports\"' trixie /opt/qemu 'deb http://deb.debian.org/debian trixie main' " +
	"'deb http://deb.debian.org/debian trixie-backports main'), and name the folder or another QEMU with --qemu"

// qemuCommand returns a program, or the one in a folder with another Debian, with that one's
// libraries.
func qemuCommand(path string) ([]string, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		usr := filepath.Join(path, "usr")
		path = usr + "/bin/qemu-system-x86_64"
		_, err := os.Stat(path)
		return []string{usr + "/lib64/ld-linux-x86-64.so.2", "--library-path", usr + "/lib/x86_64-linux-gnu", path,
			"-L", usr + "/share/qemu", "-L", usr + "/share/seabios"}, err
	}
	path, err := exec.LookPath(path)
	return []string{path}, err
}

func installedModule(dir string) string {
	for _, pattern := range []string{"updates/dkms", "updates", "extra"} {
		if l, err := filepath.Glob(filepath.Join(dir, pattern, "tenstorrent.ko*")); err == nil && len(l) > 0 {
			return l[0]
		}
	}
	return ""
}

const insideCommand = "vm-inside"

// InsideCmd is the first process of a virtual machine.
type InsideCmd struct{}

// Run runs what the machine is for.
func (InsideCmd) Run() error { return inside.Main() }
