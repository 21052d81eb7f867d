//go:build long || hours

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const arm64Root = "/usr/aarch64-linux-gnu"

// The program and the library run emulated, the card's server doesn't.
func TestCardArm64(t *testing.T) {
	const compiler = "aarch64-linux-gnu-gcc"
	if _, err := exec.LookPath("qemu-aarch64-static"); err != nil {
		t.Skip("nothing executes arm64:", err)
	}
	program, library := compileCard(t, compiler, "-march=armv8.2-a"), filepath.Join(t.TempDir(), "card.so")
	sources, err := filepath.Glob("../../sim/serve/preload/library/*.c")
	must(t, err)
	args := append(sources, "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-o", library)
	c := exec.CommandContext(t.Context(), compiler, args...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := filepath.Join(t.TempDir(), "run")
	run := "#!/bin/sh\nunset LD_PRELOAD\nexec qemu-aarch64-static -L " + arm64Root + " -E LD_PRELOAD=" + library + ` "$@"`
	must(t, os.WriteFile(script, []byte(run), 0o755))
	for chip, tiles := range cardTiles {
		useCard(t, append([]string{"--chip", chip, "--", script, program}, tiles...)...)
	}
}
