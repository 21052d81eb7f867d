package metal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func TestText(t *testing.T) {
	ms := firmware(t, "0.70.1", chip.Blackhole)
	base, kernel := ms[chip.BRISC].Base(), ms[chip.BRISC].Kernel()
	dir := t.TempDir()
	path := filepath.Join(dir, "brisc.elf")
	read := func() ([]byte, uint32) {
		t.Helper()
		text, linked, err := Text(path)
		must(t, err)
		return text, linked
	}
	must(t, os.WriteFile(path, base.Build(), 0o644))
	first, linked := read()
	if len(first) == 0 || linked != ms[chip.BRISC].Entry {
		t.Errorf("%d bytes at %#x, want some at %#x", len(first), linked, ms[chip.BRISC].Entry)
	}
	must(t, os.WriteFile(path+".xip.elf", kernel.Build(), 0o644))
	if moved, at := read(); bytes.Equal(moved, first) || at != linked {
		t.Errorf("the rewritten file isn't read, or its address %#x is", at)
	}
	must(t, os.WriteFile(path+".xip.elf", []byte("no ELF file"), 0o644))
	if _, _, err := Text(path); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no ELF file: %v", err)
	}
	if _, _, err := Text(filepath.Join(dir, "none.elf")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
