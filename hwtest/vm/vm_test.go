//go:build linux

package vm_test

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/vm"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
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
	devtest.Must(t, err)
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
		expect.Equal(t, stops.Load(), 3, "stops of the chip, one for each kernel that touches what isn't there")
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
		expect.Equal(t, lived+len(r.Skip)-len(r.Cards), 10, "%d cases passed, %d skipped", lived, len(r.Skip))
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
	f := expect.Value(elf.Open(name))(t)
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	devtest.Must(t, err)
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
	devtest.Must(t, e.Err())
	t.Cleanup(func() {
		expect.Fails(t, e.Close(), nil, "e.Close()")
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
	devtest.Must(t, err)
	path := filepath.Join(t.TempDir(), "card")
	l := expect.Value(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- card.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		expect.Fails(t, <-ended, nil, "<-ended")
	})
	return path
}

// leftOut are tests of tt-umd that take too long at 50 µs an access, or need what the emulator
// doesn't model.
var leftOut = []struct {
	program  string   // its folder and file
	machines []string // nil for all
	tests    string   // as --gtest_filter has them
	why      string
}{
	{"wormhole_b0/unit_tests", nil, "ClusterWH.MultiThreadedMemBar", "200 MB by loads and stores of 8 bytes"},
	{"blackhole/unit_tests", nil, "ClusterBH.MultiThreadedMemBar", "430 MB by loads and stores of 8 bytes"},
	{"wormhole_b0/unit_tests", []string{"n300"}, "WormholeNebulaX2TestFixture.*", "10,000 to 400,000 transfers over Ethernet, each of many loads and stores, six times"},
	{"wormhole_b0/unit_tests", []string{"t3000"}, "ClusterWH.BroadcastWrite:ClusterWH.VirtualCoordinateBroadcast*", "100 MB to and from all workers of eight chips, each"},
	{"api/api_tests", nil, "TestDeviceIO.DMA2", "400 MB by stores of 8 bytes"},
	{"api/api_tests", []string{"p150"}, "TestDeviceIO.DMA1", "130 MB by loads of 8 bytes"},
	{"api/api_tests", []string{"n300", "t3000"}, "AllTriscNcriscCoreCombinations/ClusterAssertDeassertRiscsTest.*", "fifteen times L1 of all workers, a minute each on an n300"},
	{"api/api_tests", []string{"t3000"}, "TestRiscProgram.Deassert*:ApiTTDeviceTest.TestRemoteTTDevice:TestDeviceIOFixture.SysmemReadWrite",
		"L1 of all workers of eight chips, and a GiB of host memory for each card"},
	{"api/api_tests", []string{"t3000"}, "WarmResetTest.StaleFileDescriptorClusterRecovery", "two processes that pin 8 GiB each"},
	{"unified/unified_tests", nil, "Multiprocess.MultipleClusters:Multiprocess.MultipleThreads*Running:Multiprocess.MultipleThreadsSingleCluster:" +
		"Multiprocess.*OpenClose:Multiprocess.WorkloadVSMonitor:Multiprocess.LongLivedMonitor", "1 to 5 million loads and stores"},
	{"hang_detection/hang_detection_tests", nil, "PerNoc/*.TestIsNocHungAPI/*:PerNoc/*.PerOpTimeoutThrowsOnHungNoc/*:HangDetectionTest.*:WarmResetAfterNocHangTest.*",
		"a NoC that hangs isn't modelled: the loads that make silicon's hang find zero"},
}

func filterOf(program, machine string) (filter string, why []string) {
	for _, l := range leftOut {
		if strings.HasSuffix(program, "/"+l.program) && (l.machines == nil || slices.Contains(l.machines, machine)) {
			filter += ":" + l.tests
			why = append(why, l.tests+": "+l.why)
		}
	}
	if filter != "" {
		filter = "-" + filter[1:]
	}
	return filter, why
}

func runsOn(program string, m chip.Machine) bool {
	switch filepath.Base(filepath.Dir(program)) {
	case "wormhole_b0":
		return m.Arch == chip.Wormhole
	case "blackhole":
		return m.Arch == chip.Blackhole
	}
	return true
}

// The vendor's own test programs pass with the vendor's driver. REPRISE_VM_TTKMD_TEST is tt-kmd's
// (test/ttkmd_test); REPRISE_VM_UMD_TESTS are tt-umd's, separated by spaces, in the folders in
// which they are built. REPRISE_VM_UMD_FILTER is a --gtest_filter instead of all but leftOut,
// REPRISE_VM_UMD_SHARE a folder that they read. Other variables are those of [TestWithDriver].
func TestVendorsPrograms(t *testing.T) {
	qemu, kernel := qemuOf(t, "")
	module := moduleOf(t)
	programs := strings.Fields(os.Getenv("REPRISE_VM_UMD_TESTS"))
	kmd := os.Getenv("REPRISE_VM_TTKMD_TEST")
	if kmd == "" && len(programs) == 0 {
		t.Skip("neither REPRISE_VM_TTKMD_TEST nor REPRISE_VM_UMD_TESTS names a program of the vendor's")
	}
	command := build(t, "../../cmd/reprise", "amd64")
	for _, m := range []chip.Machine{chip.N150(), chip.P150(), chip.N300(), chip.T3000()} {
		run := func(t *testing.T, p vm.Program) (out string, cards int) {
			t.Helper()
			ctx, cancel := withDeadline(t)
			defer cancel()
			sockets := serve(t, m)
			var stdout bytes.Buffer
			p.QEMU, p.Kernel, p.Sockets, p.IOMMU, p.Accelerate = qemu, kernel, sockets, true, os.Getenv("REPRISE_VM_KVM") != ""
			p.Memory = 4096 + 2048*len(sockets) // some tests map 4 GiB, others 2 GiB for each card
			p.Module, p.Init, p.InitArgs = module, command, []string{"vm-inside"}
			p.Env = append(p.Env, "HOME=/tmp")
			p.Stdout, p.Console, p.KernelMessages = io.MultiWriter(&stdout, t.Output()), t.Output(), 4
			status, err := p.Run(ctx)
			if err != nil {
				t.Fatalf("%v on %s: %v", p.Args, m.Name, err)
			}
			expect.Equal(t, status, 0, "%v on %s ended with status", p.Args, m.Name)
			return stdout.String(), len(sockets)
		}
		if kmd != "" {
			t.Run(m.Name+"/ttkmd_test", func(t *testing.T) {
				out, cards := run(t, vm.Program{Args: []string{kmd}})
				expect.Equal(t, strings.Count(out, "Testing /dev/tenstorrent/"), cards, "cards that it tested")
				t.Logf("cards: %d, pairs: %d", cards, cards*cards)
			})
		}
		for _, program := range programs {
			if !runsOn(program, m) {
				continue
			}
			t.Run(m.Name+"/"+filepath.Base(program), func(t *testing.T) {
				args := []string{program}
				filter := os.Getenv("REPRISE_VM_UMD_FILTER")
				if filter == "" {
					var why []string
					filter, why = filterOf(program, m.Name)
					for _, w := range why {
						t.Log("left out: " + w)
					}
				}
				if filter != "" {
					args = append(args, "--gtest_filter="+filter)
				}
				share := os.Getenv("REPRISE_VM_UMD_SHARE")
				out, _ := run(t, vm.Program{Args: args, Share: share, Dir: share, Env: []string{"TT_LOGGER_LEVEL=warning"}})
				c := counted(out)
				if c.passed+c.skipped == 0 {
					t.Error("no test ran")
				}
				t.Logf("%v", c)
			})
		}
	}
}

type counts struct{ passed, skipped, failed int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d skipped, %d failed", c.passed, c.skipped, c.failed)
}

func counted(out string) (c counts) {
	for _, m := range regexp.MustCompile(`(?m)^\[  (PASSED|SKIPPED|FAILED)  ?\] (\d+) tests?[.,]`).FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "PASSED":
			c.passed = n
		case "SKIPPED":
			c.skipped = n
		case "FAILED":
			c.failed = n
		}
	}
	return c
}

func TestLeftOut(t *testing.T) {
	for _, q := range []struct{ program, machine, want string }{
		{"/build/misc/umd_misc_tests", "n150", ""},
		{"/build/blackhole/unit_tests", "p150", "-ClusterBH.MultiThreadedMemBar"},
		{"/build/wormhole_b0/unit_tests", "n150", "-ClusterWH.MultiThreadedMemBar"},
		{"/build/wormhole_b0/unit_tests", "n300", "-ClusterWH.MultiThreadedMemBar:WormholeNebulaX2TestFixture.*"},
	} {
		if got, why := filterOf(q.program, q.machine); got != q.want || (got == "") != (why == nil) {
			t.Errorf("%s on %s: %q, want %q; reasons %q", q.program, q.machine, got, q.want, why)
		}
	}
}

func TestCountGoogletest(t *testing.T) {
	for out, want := range map[string]counts{
		"[       OK ] A.B (3 ms)\n[==========] 3 tests from 1 test suite ran. (9 ms total)\n[  PASSED  ] 1 test.\n[  SKIPPED ] 2 tests, listed below:\n[  SKIPPED ] A.C\n": {passed: 1, skipped: 2},
		"[  FAILED  ] A.B (1 ms)\n[  PASSED  ] 14 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.B\n\n 1 FAILED TEST\n":                                        {passed: 14, failed: 1},
		"Segmentation fault\n": {},
	} {
		if got := counted(out); got != want {
			t.Errorf("%v, want %v: %q", got, want, out)
		}
	}
}
