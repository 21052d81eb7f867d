package libttsim

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestNewKernelsAreSeen(t *testing.T) {
	dir, of := t.TempDir(), kernelFiles{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(path string, age time.Duration) {
		t.Helper()
		file := filepath.Join(dir, path)
		must(os.MkdirAll(filepath.Dir(file), 0o777))
		must(os.WriteFile(file, nil, 0o666))
		kernel := filepath.Join(dir, "build/kernels/reader")
		must(os.Chtimes(kernel, time.Time{}, time.Now().Add(-age)))
	}
	for i, c := range []struct {
		path string
		age  time.Duration
	}{
		{"build/kernels/reader/1/brisc/brisc.elf", time.Hour}, {"build/kernels/reader/2/brisc/brisc.elf", time.Minute},
		{"build/kernels/reader/2/ncrisc/ncrisc.elf", time.Minute}, // in a folder that was there
		{"build/kernels/writer/1/brisc/brisc.elf", time.Minute}, {"build/firmware/brisc/brisc.elf", time.Minute},
	} {
		add(c.path, c.age)
		if n := of.count(dir); n != i+1 {
			t.Errorf("%s: %d files", c.path, n)
		}
	}
}
