//go:build linux

package vm_test

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/vm"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/serve/vfiouser"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

// A kernel without a driver finds the cards and reaches them, and they reach memory. REPRISE_QEMU
// is a QEMU with vfio-user, with arguments after spaces; REPRISE_VM_KERNEL a kernel image.
func TestWithoutDriver(t *testing.T) {
	qemu, kernel := qemuOf(t, "")
	c := vm.Config{Hardware: vm.Hardware{QEMU: qemu, Kernel: kernel}, Init: build(t, "./guest", "amd64")}
	for _, m := range []chip.Machine{chip.N150(), chip.P150(), chip.T3000()} {
		t.Run(m.Name, func(t *testing.T) {
			if testing.Short() && m.Name != "p150" {
				t.Skip("one machine is enough")
			}
			found(t, c, m)
		})
	}
}

// QEMU's riscv64 machine has no room for Blackhole's 32 GiB of BAR. REPRISE_QEMU_RISCV64 and
// REPRISE_VM_KERNEL_RISCV64 are a QEMU and a kernel image.
func TestRISCV(t *testing.T) {
	qemu, kernel := qemuOf(t, "_RISCV64")
	c := vm.Config{Hardware: vm.Hardware{Arch: "riscv64", QEMU: qemu, Kernel: kernel}, Init: build(t, "./guest", "riscv64")}
	for _, m := range []chip.Machine{chip.N150(), chip.T3000()} {
		t.Run(m.Name, func(t *testing.T) { found(t, c, m) })
	}
}

func found(t *testing.T, c vm.Config, m chip.Machine) {
	t.Helper()
	c.Sockets, c.Console = serve(t, m), t.Output()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r := boot(ctx, t, &c)
	if n := len(r.Cards); n != len(c.Sockets) || len(r.Pass) != 4*n {
		t.Errorf("%d cards and %d tests passed, want %d and %d", n, len(r.Pass), len(c.Sockets), 4*len(c.Sockets))
	}
}

// withDriver runs a machine with the vendor's driver for each kind of cards.
func withDriver(t *testing.T, machines []chip.Machine, run func(context.Context, *testing.T, chip.Machine, *vm.Config)) {
	t.Helper()
	qemu, kernel := qemuOf(t, "")
	module, init := moduleOf(t), build(t, "./guest", "amd64")
	for _, m := range machines {
		t.Run(m.Name, func(t *testing.T) {
			ctx, cancel := withDeadline(t)
			defer cancel()
			run(ctx, t, m, &vm.Config{Hardware: vm.Hardware{QEMU: qemu, Kernel: kernel, IOMMU: true}, Init: init,
				Console: t.Output(), Module: module})
		})
	}
}

// boot runs a machine, in which nothing may fail.
func boot(ctx context.Context, t *testing.T, c *vm.Config) vm.Result {
	t.Helper()
	r, err := c.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Fail {
		t.Error(f)
	}
	return r
}

// passes runs a machine with an IOMMU, which leaves three parts of looking at each card.
func passes(ctx context.Context, t *testing.T, c *vm.Config) {
	t.Helper()
	if l := os.Getenv("REPRISE_VM_COMMANDS"); l != "" {
		c.Commands = strings.Split(l, ";")
	}
	r := boot(ctx, t, c)
	if n, want := len(r.Pass), 3*len(c.Sockets)+1+len(c.Commands); n != want {
		t.Errorf("%d tests passed, want %d", n, want)
	}
}

// The runtime works with the vendor's driver as with its model. REPRISE_VM_MODULE is the driver,
// built for the kernel. REPRISE_VM_COMMANDS are other commands, separated by semicolons, and
// REPRISE_VM_FILES their files: paths in the machine, "=" and those outside, separated by spaces.
// REPRISE_VM_KVM lets the kernel run the guest.
func TestWithDriver(t *testing.T) {
	withDriver(t, []chip.Machine{chip.N150(), chip.P150()}, func(ctx context.Context, t *testing.T, m chip.Machine, c *vm.Config) {
		c.Sockets, c.Accelerate = serve(t, m), os.Getenv("REPRISE_VM_KVM") != ""
		c.Files = map[string]string{"/reprise": build(t, "../../cmd/reprise", "amd64")}
		c.Commands = []string{"/reprise ls", "hwtest -short -run kmd/", "/reprise demo --batch 2 --device /dev/tenstorrent/0"}
		for _, f := range strings.Fields(os.Getenv("REPRISE_VM_FILES")) {
			to, from, _ := strings.Cut(f, "=")
			c.Files[to] = from
		}
		passes(ctx, t, c)
	})
}

func TestThrownAway(t *testing.T) {
	withDriver(t, []chip.Machine{chip.N150(), chip.P150()}, func(ctx context.Context, t *testing.T, m chip.Machine, c *vm.Config) {
		var stops atomic.Int32
		c.Sockets = serveTo(t, m, func(err error) {
			var why *emu.Refusal
			if !errors.As(err, &why) {
				t.Error(err)
				return
			}
			t.Log(err)
			stops.Add(1)
		})
		c.Commands = []string{"hwtest -short -unsafe -run ^(faults|traces)$/bad|hang|touches", "victim /dev/tenstorrent/0 --once"}
		passes(ctx, t, c)
		if n := stops.Load(); n != 3 {
			t.Errorf("the chip has stopped %d times, want 3: once for each kernel that touches what isn't there", n)
		}
	})
}

func TestLife(t *testing.T) {
	all := []chip.Machine{chip.N150(), chip.P150(), chip.T3000(), chip.QuietBox()}
	withDriver(t, all, func(ctx context.Context, t *testing.T, m chip.Machine, c *vm.Config) {
		c.Sockets, c.Memory, c.Commands = serve(t, m), 2048, []string{"life"}
		r := boot(ctx, t, c)
		lived := 0
		for _, p := range r.Pass {
			if strings.HasPrefix(p, "life: ") {
				lived++
			}
		}
		if want := 10; lived+len(r.Skip)-len(r.Cards) != want {
			t.Errorf("%d cases passed, %d skipped, want %d", lived, len(r.Skip), want)
		}
	})
}

// It takes many minutes.
func TestMesh(t *testing.T) {
	all := []chip.Machine{chip.N300(), chip.P300(), chip.QuietBox(), chip.T3000()}
	withDriver(t, all, func(ctx context.Context, t *testing.T, m chip.Machine, c *vm.Config) {
		if testing.Short() && m.Name != "n300" {
			t.Skip("one machine is enough")
		}
		c.Sockets, c.Memory = serve(t, m), 2048
		var nodes []string
		for i := range c.Sockets {
			nodes = append(nodes, fmt.Sprintf("/dev/tenstorrent/%d", i))
		}
		c.Commands = []string{"hwtest -short -unsafe -run ^mesh$ -device " + strings.Join(nodes, ",")}
		passes(ctx, t, c)
	})
}

func TestModel(t *testing.T) {
	for name, iommu := range map[string]bool{"IOMMU": true, "no IOMMU": false} {
		t.Run(name, func(t *testing.T) {
			withDriver(t, []chip.Machine{chip.N150(), chip.P150()}, func(ctx context.Context, t *testing.T, m chip.Machine, c *vm.Config) {
				c.Sockets, c.IOMMU = serve(t, m), iommu
				c.Commands = []string{"differ -seeds 10", "differ -seed 100 -seeds 3 -steps 1000 -resets"}
				if n := len(boot(ctx, t, c).Pass); n < 3+1+len(c.Commands) {
					t.Errorf("%d tests passed, want %d", n, 3+1+len(c.Commands))
				}
			})
		})
	}
}

func TestSimulator(t *testing.T) {
	withDriver(t, []chip.Machine{chip.N150(), chip.P150()}, func(ctx context.Context, t *testing.T, m chip.Machine, c *vm.Config) {
		if testing.Short() {
			t.Skip("the simulator takes a while")
		}
		variable := map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}[m.Arch]
		c.Sockets = []string{serveFunction(t, ttsimtest.Start(t, variable).Functions()[0], m.Arch, m.Chips[0].Kind,
			func(err error) { t.Error(err) })}
		c.Files = map[string]string{"/reprise": build(t, "../../cmd/reprise", "amd64")}
		c.Commands = []string{"/reprise ls", "/reprise doctor", "hwtest -short -run kmd/", "hwtest -short -run bringup/all",
			"victim /dev/tenstorrent/0 --once"}
		passes(ctx, t, c)
	})
}

func moduleOf(t *testing.T) string {
	t.Helper()
	module := os.Getenv("REPRISE_VM_MODULE")
	if module == "" {
		t.Skip("REPRISE_VM_MODULE doesn't name the vendor's driver, built for the kernel")
	}
	return module
}

func withDeadline(t *testing.T) (context.Context, context.CancelFunc) {
	if d, ok := t.Deadline(); ok {
		return context.WithDeadline(t.Context(), d.Add(-10*time.Second))
	}
	return context.WithCancel(t.Context())
}

// qemuOf skips the test where there is no machine; suffix ends the variables' names.
func qemuOf(t *testing.T, suffix string) (command []string, kernel string) {
	t.Helper()
	command, kernel = strings.Fields(os.Getenv("REPRISE_QEMU"+suffix)), os.Getenv("REPRISE_VM_KERNEL"+suffix)
	if len(command) == 0 || kernel == "" {
		t.Skipf("REPRISE_QEMU%s and REPRISE_VM_KERNEL%[1]s don't name a QEMU and a kernel", suffix)
	}
	out, err := exec.Command(command[0], append(command[1:len(command):len(command)], "-device", "help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, out)
	}
	if !strings.Contains(string(out), "vfio-user-pci") {
		t.Skipf("%v has no vfio-user, which QEMU has since 10.1", command)
	}
	return command, kernel
}

func build(t *testing.T, dir, arch string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "command")
	cmd := exec.Command("go", "build", "-tags", "static", "-o", name, dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s for the machine: %v: %s", dir, err, out)
	}
	static(t, name)
	return name
}

func static(t *testing.T, name string) {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	if f.Section(".interp") != nil || len(libraries) > 0 {
		t.Errorf("%s isn't static: it needs a loader and %v", name, libraries)
	}
}

func serve(t *testing.T, m chip.Machine) []string {
	t.Helper()
	return serveTo(t, m, func(err error) { t.Error(err) })
}

func serveTo(t *testing.T, m chip.Machine, report func(error)) []string {
	t.Helper()
	e := sim.NewMachine(m, sim.Paced())
	if err := e.Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	var sockets []string
	for i, b := range m.Chips {
		if b.PCI {
			sockets = append(sockets, serveFunction(t, e.Chip(i), m.Arch, b.Kind, report))
		}
	}
	return sockets
}

func serveFunction(t *testing.T, fn driver.Function, a chip.Arch, board uint16, report func(error)) (socket string) {
	t.Helper()
	card, err := vfiouser.New(fn, vfiouser.Config{Arch: a, Board: board, Report: report})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "card")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- card.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return path
}
