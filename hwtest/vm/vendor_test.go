//go:build linux

package vm_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/vm"
)

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
			if status != 0 {
				t.Errorf("%v on %s ended with status %d", p.Args, m.Name, status)
			}
			return stdout.String(), len(sockets)
		}
		if kmd != "" {
			t.Run(m.Name+"/ttkmd_test", func(t *testing.T) {
				out, cards := run(t, vm.Program{Args: []string{kmd}})
				if n := strings.Count(out, "Testing /dev/tenstorrent/"); n != cards {
					t.Errorf("it tested %d cards, want %d", n, cards)
				}
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
