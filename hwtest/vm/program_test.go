package vm

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/hwtest/vm/inside"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
)

func TestLoaderList(t *testing.T) {
	found, missing := parseLoader("\tlinux-vdso.so.1 (0x7ffd)\n\tlibm.so.6 => /lib/libm.so.6 (0x7f)\n\tlibfoo.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n")
	expect.NoDiff(t, found, []string{"/lib/libm.so.6", "/lib64/ld-linux-x86-64.so.2"}, "found")
	expect.NoDiff(t, missing, []string{"libfoo.so"}, "missing")
}

func TestCollect(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []string
		status  int
		err     error
		any     bool // another error
	}{
		{name: "files and status", entries: []string{"share/a/b", "status"}, status: 3},
		{name: "no status", entries: []string{"share/a/b"}, err: ErrBoot},
		{name: "nothing", err: ErrBoot},
		{name: "not run", entries: []string{"error"}, err: ErrProgram},
		{name: "outside", entries: []string{"share/../x", "status"}, any: true},
		{name: "through a link", entries: []string{"share/link/x", "status"}, any: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			share := filepath.Join(dir, "share")
			devtest.Must(t, errors.Join(os.Mkdir(share, 0o755), os.Symlink("..", filepath.Join(share, "link"))))
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, e := range c.entries {
				devtest.Must(t, w.WriteHeader(&tar.Header{Name: e, Mode: 0o644, Size: 1}))
				expect.Value(w.Write([]byte("3")))(t)
			}
			results := filepath.Join(dir, "results")
			devtest.Must(t, errors.Join(w.Flush(), os.WriteFile(results, b.Bytes(), 0o644)))
			status, err := (&Program{Share: share}).collect(results)
			if status != c.status || c.err != nil && !errors.Is(err, c.err) || (err != nil) != (c.any || c.err != nil) {
				t.Errorf("status %d, error %v, want %d, %v", status, err, c.status, c.err)
			}
			expect.Error(t, expect.ErrOf(os.Stat(filepath.Join(dir, "x")))) // outside of its share
			if got, err := os.ReadFile(filepath.Join(share, "a", "b")); slices.Contains(c.entries, inside.ResultShare+"a/b") &&
				(err != nil || string(got) != "3") {
				t.Errorf("the returned file has %q, %v", got, err)
			}
		})
	}
}

func TestCollectIsWhole(t *testing.T) {
	share := t.TempDir()
	kept := filepath.Join(share, "log")
	devtest.Must(t, os.WriteFile(kept, []byte("before"), 0o644))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"whole", "log"} {
		text := strings.Repeat(name, 1000)
		devtest.Must(t, w.WriteHeader(&tar.Header{Name: inside.ResultShare + name, Mode: 0o755, Size: int64(len(text))}))
		expect.Value(w.Write([]byte(text)))(t)
	}
	results := filepath.Join(t.TempDir(), "results")
	devtest.Must(t, os.WriteFile(results, b.Bytes()[:b.Len()-1000], 0o644))
	expect.Error(t, expect.ErrOf((&Program{Share: share}).collect(results))) // results that end in the middle
	want := map[string]string{"log": "before", "whole": strings.Repeat("whole", 1000)}
	got := map[string]string{}
	files := expect.Value(os.ReadDir(share))(t)
	for _, f := range files {
		text := expect.Value(os.ReadFile(filepath.Join(share, f.Name())))(t)
		got[f.Name()] = string(text)
	}
	expect.NoDiff(t, got, want, "the share")
	if info, err := os.Stat(filepath.Join(share, "whole")); err == nil && info.Mode().Perm()&0o100 == 0 {
		t.Errorf("a returned program has mode %v", info.Mode())
	}
}

func TestNeeds(t *testing.T) {
	dir := t.TempDir()
	script, data := filepath.Join(dir, "script"), filepath.Join(dir, "data")
	devtest.Must(t, errors.Join(os.WriteFile(script, []byte("#!"+data+" -x\n"), 0o755), os.WriteFile(data, []byte("7"), 0o644)))
	if got, err := needs(script); err != nil || !slices.Equal(got, []string{data}) {
		t.Errorf("a script needs %v, %v, want its interpreter", got, err)
	}
	expect.Equal(t, len(expect.Value(needs(data))(t)), 0, "data needs")
}
