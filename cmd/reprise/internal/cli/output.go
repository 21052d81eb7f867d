package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Save writes the file that a flag names, completely or not at all. It writes into existing
// devices, pipes and other special files.
func Save(ctx context.Context, flag, path string, write func(io.Writer) error) (err error) {
	at, through, err := Place(path)
	if err != nil {
		return CannotMake(flag, path, err)
	}
	if through {
		return pass(ctx, flag, at, write)
	}
	f, err := Temporary(at)
	if err != nil {
		return CannotMake(flag, path, err)
	}
	return f.End(buffered(f.File, write))
}

// FileText is one of several files that belong together.
type FileText struct {
	Path  string
	Write func(io.Writer) error
}

// SaveTogether writes several files, all or none. They are renamed after all are complete, the last
// one last. flag names their folder.
func SaveTogether(flag string, files []FileText) (err error) {
	var open []*Unfinished
	defer func() {
		for _, f := range open {
			err = f.End(err)
		}
	}()
	for _, file := range files {
		at, through, err := Place(file.Path)
		var f *Unfinished
		switch {
		case err != nil:
		case through:
			err = errors.New("it isn't a regular file")
		default:
			f, err = Temporary(at)
		}
		if err != nil {
			return CannotMake(flag, file.Path, err)
		}
		open = append(open, f)
		if err := buffered(f.File, file.Write); err != nil {
			return err
		}
	}
	return nil
}

// Unfinished is a file that gets its name when complete.
type Unfinished struct {
	*os.File
	at string
}

// Temporary makes a file beside the file that it will replace.
func Temporary(at string) (*Unfinished, error) {
	f, err := os.CreateTemp(filepath.Dir(at), filepath.Base(at)+".*")
	return &Unfinished{f, at}, err
}

// End renames the file, or removes it after an error.
func (f *Unfinished) End(err error) error {
	if err == nil {
		err = f.Chmod(0o644) // temporary files are private
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), f.at)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// pass writes to an existing device or pipe, whose missing reader would block it until ctx ends.
func pass(ctx context.Context, flag, path string, write func(io.Writer) error) error {
	f, err := Until(ctx, func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) })
	if err != nil {
		return Wrong(flag, path, "it can't be written: "+reason(err), "give the path of a file").By(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	err = buffered(f, write)
	stop()
	return errors.Join(err, f.Close())
}

func buffered(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// Place follows links and returns the path to write. Regular files are replaced; through says to
// write into an existing device or pipe instead, since replacing a device node would lose it.
func Place(path string) (at string, through bool, err error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist): // perhaps a link to nothing
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, syscall.EISDIR
	case !info.Mode().IsRegular():
		return path, true, nil
	}
	for { // a circle of links has no Stat
		dir, name := filepath.Split(path)
		if dir, err = filepath.EvalSymlinks(cmp.Or(dir, ".")); err != nil {
			return "", false, err
		}
		path = filepath.Join(dir, name)
		to, err := os.Readlink(path)
		if err != nil {
			return path, false, nil // it is no link
		}
		if path = to; !filepath.IsAbs(to) {
			path = dir + string(filepath.Separator) + to // not cleaned: dots after another link count from where it leads to
		}
	}
}

// Creatable checks early that a file can be written later. It leaves nothing behind and opens only
// regular files: the reader of a pipe would see its end.
func Creatable(flag, path string) error {
	if path == "" {
		return nil
	}
	at, through, err := Place(path)
	if err == nil && !through {
		var f *os.File
		if f, err = os.CreateTemp(filepath.Dir(at), filepath.Base(at)+".*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return CannotMake(flag, path, err)
	}
	return nil
}

// CannotMake is the error of a file that can't be created.
func CannotMake(flag, path string, err error) error {
	return Wrong(flag, path, "no file can be made there: "+reason(err), "give a path in a directory that can be written").By(err)
}

// reason is a system error without the path, which the message has.
func reason(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}
