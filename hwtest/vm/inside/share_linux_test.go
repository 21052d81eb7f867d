package inside

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/expect"
)

func TestChanged(t *testing.T) {
	dir := t.TempDir()
	same, changed := filepath.Join(dir, "same"), filepath.Join(dir, "changed")
	expect.Must(t, errors.Join(os.WriteFile(same, []byte("1"), 0o644), os.WriteFile(changed, []byte("1"), 0o644)))
	before := expect.Value(snap(dir))(t)
	added := filepath.Join(dir, "a", "new")
	expect.Must(t, errors.Join(os.Mkdir(filepath.Dir(added), 0o755), os.WriteFile(added, []byte("2"), 0o644)))
	for { // the file system's clock is coarse
		expect.Must(t, os.Chtimes(changed, time.Time{}, time.Now()))
		now := expect.Value(snap(dir))(t)
		if now[changed] != before[changed] {
			break
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	expect.Must(t, errors.Join(before.writeChanged(w, dir), w.Close()))
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
	expect.NoDiff(t, got, []string{"share/a/new", "share/changed"}, "returned")
}
