package libttsim

import (
	"os"
	"path/filepath"
	"testing"
)

func TestChangedKernelsAreSeen(t *testing.T) {
	dir, had := t.TempDir(), uint64(0)
	for _, c := range []struct{ path, text string }{
		{"build/kernels/reader/1/brisc/brisc.elf", "a"}, {"build/kernels/reader/2/brisc/brisc.elf", "a"},
		{"build/kernels/reader/2/ncrisc/ncrisc.elf", ""}, {"build/kernels/reader/1/brisc/brisc.elf", "ab"},
		{"build/firmware/brisc/brisc.elf", ""},
	} {
		file := filepath.Join(dir, c.path)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if have := filesOf(dir); have == had || have != filesOf(dir) {
			t.Errorf("%s: it isn't seen, or all the time", c.path)
		} else {
			had = have
		}
	}
}
