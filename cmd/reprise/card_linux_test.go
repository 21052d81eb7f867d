package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func compileCard(t *testing.T, compiler string, more ...string) (program string) {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip("no C compiler:", err)
	}
	program = filepath.Join(t.TempDir(), "card")
	c := exec.CommandContext(t.Context(), compiler, append(more, "-O2", "-pthread", "-o", program, "testdata/card.c")...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// cardOutput returns what a command prints that sees an emulated card.
func cardOutput(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var b bytes.Buffer
	c := start(t, &b, append([]string{"card"}, args...)...)
	if err := c.Wait(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return b.String(), c.err.String(), c.ProcessState.ExitCode()
}

// cardTiles are the arguments of testdata/card.c.
var cardTiles = map[string][]string{"wormhole": {"1", "1", "0", "3"}, "blackhole": {"1", "2", "2", "0"}}

// useCard runs that program.
func useCard(t *testing.T, args ...string) {
	t.Helper()
	out, errs, code := cardOutput(t, args...)
	if out != "accesses\nhost memory\nlocks, processes and threads\nlimits\nreset\n" || code != 0 {
		t.Errorf("%q: exit code %d, printed %s: %s", args, code, out, errs)
	}
}

func TestCard(t *testing.T) {
	if a := runtime.GOARCH; a != "amd64" && a != "arm64" {
		t.Skip("no instructions of", a)
	}
	program := compileCard(t, "cc")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for chip, tiles := range cardTiles {
		useCard(t, append([]string{"--chip", chip, "--", program}, tiles...)...)
		c := start(t, nil, append([]string{"card", "--chip", chip, program}, tiles[:2]...)...)
		c.err.wait(t, "reprise: chip 0 stopped: emu: UndefinedBehavior: ") // while the program waits
		must(t, c.Process.Signal(syscall.SIGTERM))
		_ = c.Wait()
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--machine", "t3000", "--", "reprise", "ls"}, "/dev/tenstorrent/3", 0},
		{[]string{"--chip", "wormhole", "reprise", "info", "--device", "/dev/tenstorrent/0"}, "Windows        156 of 1.0 MiB", 0},
		{[]string{"--", "reprise", "reset"}, "answering at /dev/tenstorrent/0", 0},
		{[]string{"--", "sh", "-c", "ls -l /dev/tenstorrent/; cat /sys/class/tenstorrent/*/tt_card_type; exit 7"}, "511, 0", 7},
		{[]string{"--machine", "p300", "--", "sh", "-c", "readlink -f /sys/bus/pci/devices/*/; kill -9 $$"},
			"/devices/0000:02:00.0\n", 137},
	} {
		if out, errs, code := cardOutput(t, c.args...); !strings.Contains(out, c.want) || errs != "" || code != c.code {
			t.Errorf("%q: exit code %d, printed %s: %s", c.args, code, out, errs)
		}
	}
}

func TestCardWithoutCompiler(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for cc, want := range map[string]string{"false": "false -std=gnu11", "": "install gcc"} {
		t.Setenv("CC", cc)
		if cc == "" {
			dir := t.TempDir()
			reprise, err := exec.LookPath("reprise")
			must(t, errors.Join(err, os.Symlink(reprise, filepath.Join(dir, "reprise"))))
			t.Setenv("PATH", dir)
		}
		if _, errs, code := cardOutput(t, "--", "true"); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("CC=%q: exit code %d: %s", cc, code, errs)
		}
	}
}

// REPRISE_TOOLS is a folder with virtual environments of Python: .ci/run, tools.
func TestTools(t *testing.T) {
	dir := os.Getenv("REPRISE_TOOLS")
	if dir == "" {
		t.Skip("REPRISE_TOOLS names no folder with the vendor's tools")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("COLUMNS", "200")
	tool := []string{"umd/bin/python", "testdata/card_tool.py"}
	for _, c := range []struct {
		machines string
		command  []string
		wants    []string // in this order
	}{
		{"n150", []string{"smi/bin/tt-smi", "-ls"}, []string{"0000:01:00.0", "/dev/tenstorrent/0", "Wormhole", "n150 L"}},
		{"p150", []string{"smi/bin/tt-smi", "-ls"}, []string{"0000:01:00.0", "/dev/tenstorrent/0", "Blackhole", "p150a"}},
		{"p300", []string{"smi/bin/tt-smi", "-ls"}, []string{"/dev/tenstorrent/1", "p300b"}},
		{"t3000", []string{"smi/bin/tt-smi", "-ls"}, []string{"n300 L", "n300 R", "can be reset", "/dev/tenstorrent/3", "n300 L"}},
		{"n150 p150", []string{"smi/bin/tt-smi", "-s"}, []string{`"fw_bundle_version": "18.`, `"cmdline": "`}},
		{"n150 p150", []string{"smi/bin/tt-smi", "-r", "0"}, []string{"Re-initializing boards after reset"}},
		{"n150 p150", append(tool, "screen", filepath.Join(dir, "smi/bin/tt-smi")), []string{"AICLK", "Exiting TT-SMI"}},
		{"n150", []string{"topology/bin/tt-topology", "-ls"}, []string{"Devices on system", "L 1"}},
		{"n300 t3000", []string{"topology/bin/tt-topology", "-ls"}, []string{"n300 L 1", "n300 R 1"}},
		{"n150 p150", append(tool, "luwen"), []string{"True 0xdeadbeef"}},
		{"n300 t3000", append(tool, "luwen"), []string{"remote", "True 0xdeadbeef"}},
		{"quietbox", append(tool, "luwen"), []string{"True 0xdeadbeef", "True 0xdeadbeef", "0x40000000004 True 0xdeadbeef"}},
		{"n150 p150 p300", append(tool, "umd"), []string{"True\nTrue\nlocal 0"}},
		{"t3000", append(tool, "umd"), []string{"True\nTrue\nlocal 0", "True\nTrue\nremote 0"}},
		{"n150", append(tool, "dal"), []string{"Info(vendor=0x1e52", "Device(id=0)"}},
		{"p150", append(tool, "dal"), []string{"Info(vendor=0x1e52", "Telemetry([", "Device(id=0)"}},
	} {
		for machine := range strings.FieldsSeq(c.machines) {
			args := append([]string{"--machine", machine, "--", filepath.Join(dir, c.command[0])}, c.command[1:]...)
			out, errs, code := cardOutput(t, args...)
			rest, ok := out, code == 0
			for _, want := range c.wants {
				var found bool
				_, rest, found = strings.Cut(rest, want)
				ok = ok && found
			}
			if !ok {
				t.Errorf("%q: exit code %d, printed %s: %s", args, code, out, errs)
			}
		}
	}
}
