package visualizer

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
)

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			out[name+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		out[name] = string(b)
		return err
	})
	devtest.Must(t, err)
	return out
}

func TestDatabaseIsCalledAsGiven(t *testing.T) {
	for _, name := range []string{"what?.sqlite", "a#b.sqlite", "50%3f.sqlite", "file:x.sqlite", ":memory:", "a b&mode=ro.sqlite"} {
		dir := t.TempDir()
		t.Chdir(dir) // names such as file:x have no folder in front
		relu(t, dir, "r.json", 1, 16)
		for range 2 { // the second finds it
			if _, err := Import(context.Background(), name, []string{"r.json"}, Options{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got := tree(t, dir)
		delete(got, "r.json")
		if text, ok := got[name]; !ok || len(got) != 1 || !strings.HasPrefix(text, "SQLite format 3") {
			t.Errorf("%s: there are %d other files, %d B in it", name, len(got)-1, len(text))
		}
	}
}

func TestFolderIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	relu(t, dir, "r.json", 1, 16)
	_, err := Import(context.Background(), dir, []string{filepath.Join(dir, "r.json")}, Options{})
	if err == nil || !strings.Contains(err.Error(), "is a folder, want a database: name a file in it, such as "+
		filepath.Join(dir, "db.sqlite")) {
		t.Error(err)
	}
}

func TestPicturesOfOneName(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	var paths []string
	for _, d := range []string{"a", "b", "c"} {
		devtest.Must(t, os.Mkdir(filepath.Join(dir, d), 0o777))
		relu(t, filepath.Join(dir, d), "r.json", 1, 16)
		paths = append(paths, filepath.Join(dir, d, "r.json"))
	}
	for range 2 { // the second draws the same ones
		sum, err := Import(context.Background(), filepath.Join(to, "db.sqlite"), paths, Options{SVG: true})
		devtest.Must(t, err)
		got := tree(t, to)
		for _, name := range []string{"db.sqlite", "graphs/", "graphs/r.svg", "graphs/r-2.svg", "graphs/r-3.svg"} {
			if _, ok := got[name]; !ok {
				t.Errorf("no %s", name)
			}
			delete(got, name)
		}
		if sum.SVG != 3 || len(got) > 0 {
			t.Errorf("%d pictures, and %v", sum.SVG, got)
		}
	}
}

func TestFailedImportLeavesNothing(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	relu(t, dir, "a.json", 1, 16)
	a, broken := filepath.Join(dir, "a.json"), save(t, `{"version":9}`)
	cluster := save(t, `{"version":1,"graph":[],"cluster_descriptor":"chips: 1"}`)
	try := func(what, db string, paths ...string) {
		t.Helper()
		before := tree(t, root)
		if _, err := Import(context.Background(), db, paths, Options{SVG: true}); err == nil {
			t.Errorf("%s: no error", what)
		}
		if d := cmp.Diff(before, tree(t, root)); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	db := filepath.Join(root, "new", "folder", "db.sqlite")
	try("into a new folder", db, a, cluster, broken)
	if _, err := Import(context.Background(), db, []string{a, cluster}, Options{SVG: true}); err != nil {
		t.Fatal(err)
	}
	relu(t, dir, "a.json", 4, 4) // another picture
	try("into an old database", db, a, cluster, broken)
	relu(t, dir, "b.json", 4, 4)
	devtest.Must(t, os.Mkdir(filepath.Join(root, "new", "folder", "graphs", "b.svg"), 0o777))
	try("with a folder where a picture belongs", db, a, filepath.Join(dir, "b.json"))
	text := filepath.Join(root, "new", "folder", "text.sqlite")
	devtest.Must(t, os.WriteFile(text, []byte("this is no database, but a text of somebody"), 0o666))
	try("into a file that is no database", text, a)
}
