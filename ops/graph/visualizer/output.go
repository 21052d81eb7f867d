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

// output is where an import goes: a database, and files beside it. What was made is taken back unless it is kept.
type output struct {
	db, folder string
	apart      string   // the folder where files are written before they get to their places; empty if there are none
	names      []string // of those files, as they are called below the folder
	undo       []func() // what takes back what was made, in the order in which it was
}

// newOutput makes the folder and an empty database, if there are none.
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
		if st, err := os.Stat(db); err == nil && st.Size() == 0 { // or else somebody else has written to it
			_ = os.Remove(db)
		}
	})
	return o, f.Close()
}

// uri is the database's name for the driver. A bare path would end at a question mark, and :memory: be no file.
func (o *output) uri() string {
	path := filepath.Clean(o.db)
	if !filepath.IsAbs(path) {
		path = "./" + path
	}
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// mkdir makes a folder and those that it is in.
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

// write writes a file that is called so below the folder, apart from its place.
func (o *output) write(name string, text func(io.Writer) error) (err error) {
	if o.apart == "" {
		if o.apart, err = os.MkdirTemp(o.folder, ".import-*"); err != nil {
			return err
		}
		o.undo = append(o.undo, o.clear) // what was aside is back by then, and the folder goes only if it is empty
	}
	f, err := os.Create(filepath.Join(o.apart, strconv.Itoa(len(o.names))))
	if err != nil {
		return err
	}
	o.names = append(o.names, name)
	return errors.Join(text(f), f.Close())
}

// settle puts the files in their places, and what was there aside.
func (o *output) settle() error {
	for i, name := range o.names {
		to := filepath.Join(o.folder, name)
		if err := o.mkdir(filepath.Dir(to)); err != nil {
			return err
		}
		st, err := os.Lstat(to)
		switch before := filepath.Join(o.apart, "before"+strconv.Itoa(i)); {
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
		if err := os.Rename(filepath.Join(o.apart, strconv.Itoa(i)), to); err != nil {
			return err
		}
		o.undo = append(o.undo, func() { _ = os.Remove(to) })
	}
	return nil
}

// keep says that the import is done.
func (o *output) keep() { o.undo = nil }

// close takes back what was made, unless it is kept.
func (o *output) close() {
	for _, f := range slices.Backward(o.undo) {
		f()
	}
	o.clear()
}

// clear removes what is apart.
func (o *output) clear() {
	if o.apart != "" {
		_ = os.RemoveAll(o.apart)
	}
}
