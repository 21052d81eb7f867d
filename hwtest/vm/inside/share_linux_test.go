package inside

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestChanged(t *testing.T) {
	dir := t.TempDir()
	same, changed := filepath.Join(dir, "same"), filepath.Join(dir, "changed")
	if err := errors.Join(os.WriteFile(same, []byte("1"), 0o644), os.WriteFile(changed, []byte("1"), 0o644)); err != nil {
		t.Fatal(err)
	}
	before, err := snap(dir)
	if err != nil {
		t.Fatal(err)
	}
	added := filepath.Join(dir, "a", "new")
	if err := errors.Join(os.Mkdir(filepath.Dir(added), 0o755), os.WriteFile(added, []byte("2"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for { // the file system's clock is coarse
		if err := os.Chtimes(changed, time.Time{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		now, err := snap(dir)
		if err != nil {
			t.Fatal(err)
		}
		if now[changed] != before[changed] {
			break
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(before.writeChanged(w, dir), w.Close()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
	}
	if want := []string{"share/a/new", "share/changed"}; !slices.Equal(got, want) {
		t.Errorf("returned %v, want %v", got, want)
	}
}
