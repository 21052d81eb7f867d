package visualizer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// output is the database of an import, and the files beside it. close undoes all steps without a
// commit.
type output struct {
	db, folder string
	staging    string // where files are written before they are installed; empty if there are none
	names      []string
	undo       []func()
}

func newOutput(db string) (_ *output, err error) {
	o := &output{db: db, folder: filepath.Dir(db)}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if st, err := os.Stat(db); err == nil && st.IsDir() {
		return nil, fmt.Errorf("%s is a folder, want a database: name a file in it, such as %s", db, filepath.Join(db, "db.sqlite"))
	}
	if err := o.mkdir(o.folder); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(db, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	o.undo = append(o.undo, func() {
		if st, err := os.Stat(db); err == nil && st.Size() == 0 { // otherwise another process has written to it
			_ = os.Remove(db)
		}
	})
	return o, f.Close()
}

// uri returns the database's name for the driver, which would cut a bare path at a question mark
// and take :memory: for memory.
func (o *output) uri() string {
	path := filepath.Clean(o.db)
	if !filepath.IsAbs(path) {
		path = "./" + path
	}
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

func (o *output) mkdir(dir string) error {
	var made []string // the innermost first
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	o.undo = append(o.undo, func() {
		for _, d := range made {
			_ = os.Remove(d) // what isn't empty stays
		}
	})
	return os.MkdirAll(dir, 0o777)
}

// write writes a file to the staging folder; name is its path relative to folder.
func (o *output) write(name string, text func(io.Writer) error) (err error) {
	if o.staging == "" {
		if o.staging, err = os.MkdirTemp(o.folder, ".import-*"); err != nil {
			return err
		}
		o.undo = append(o.undo, o.clear) // after the replaced files are back; the folder around it is removed only if it is empty
	}
	f, err := os.Create(filepath.Join(o.staging, strconv.Itoa(len(o.names))))
	if err != nil {
		return err
	}
	o.names = append(o.names, name)
	return errors.Join(text(f), f.Close())
}

// install moves the files to their places, and replaced files to the staging folder.
func (o *output) install() error {
	for i, name := range o.names {
		to := filepath.Join(o.folder, name)
		if err := o.mkdir(filepath.Dir(to)); err != nil {
			return err
		}
		st, err := os.Lstat(to)
		switch before := filepath.Join(o.staging, "before"+strconv.Itoa(i)); {
		case err == nil && st.IsDir():
			return fmt.Errorf("%s is a folder, want a file: rename it", to)
		case err == nil:
			if err := os.Rename(to, before); err != nil {
				return err
			}
			o.undo = append(o.undo, func() { _ = os.Rename(before, to) })
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := os.Rename(filepath.Join(o.staging, strconv.Itoa(i)), to); err != nil {
			return err
		}
		o.undo = append(o.undo, func() { _ = os.Remove(to) })
	}
	return nil
}

func (o *output) close() {
	for _, f := range slices.Backward(o.undo) {
		f()
	}
	o.clear()
}

func (o *output) clear() {
	if o.staging != "" {
		_ = os.RemoveAll(o.staging)
	}
}
