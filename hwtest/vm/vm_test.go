//go:build linux

package vm_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/vm"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/vfiouser"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A kernel that runs on no hardware of ours finds the emulated cards: it gives their BARs addresses, a program in the
// guest reads who they are, reaches a tile through a window, and the chip reaches the guest's memory.
//
// REPRISE_QEMU is the command of a QEMU with vfio-user, with arguments after spaces; REPRISE_VM_KERNEL a kernel image.
func TestWithoutDriver(t *testing.T) {
	qemu, kernel := qemuOf(t)
	init := guest(t)
	for _, m := range []chip.Machine{chip.N150(), chip.P150(), chip.T3000()} {
		t.Run(m.Name, func(t *testing.T) {
			if testing.Short() && m.Name != "p150" {
				t.Skip("one machine is enough")
			}
			sockets := serve(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			c := vm.Config{QEMU: qemu, Kernel: kernel, Init: init, Sockets: sockets, Console: t.Output()}
			r, err := c.Run(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Fail {
				t.Error(f)
			}
			if n := len(r.Cards); n != len(sockets) || len(r.Pass) != 4*n {
				t.Errorf("%d cards and %d tests passed, want %d and %d", n, len(r.Pass), len(sockets), 4*len(sockets))
			}
		})
	}
}

// qemuOf skips the test where there is no machine.
func qemuOf(t *testing.T) (command []string, kernel string) {
	t.Helper()
	command, kernel = strings.Fields(os.Getenv("REPRISE_QEMU")), os.Getenv("REPRISE_VM_KERNEL")
	if len(command) == 0 || kernel == "" {
		t.Skip("REPRISE_QEMU and REPRISE_VM_KERNEL don't name a QEMU and a kernel")
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

// guest builds the machine's program.
func guest(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "init")
	cmd := exec.Command("go", "build", "-o", name, "./guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the guest's program: %v: %s", err, out)
	}
	return name
}

// serve serves the cards of an emulated machine until the test ends.
func serve(t *testing.T, m chip.Machine) (sockets []string) {
	t.Helper()
	e := sim.NewMachine(m)
	if err := e.Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	t.Cleanup(func() {
		cancel()
		for range sockets {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, b := range m.Chips {
		if !b.PCI {
			continue
		}
		card, err := vfiouser.New(e.Chip(i), vfiouser.Config{Arch: m.Arch, Board: b.Kind, Report: func(err error) { t.Errorf("card %d: %v", i, err) }})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "card")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, path)
		go func() { ended <- card.Serve(ctx, l) }()
	}
	return sockets
}
