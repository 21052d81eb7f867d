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

// Save writes the file that a flag names, completely or not at all. Existing devices, pipes and
// other special files are written into.
func Save(ctx context.Context, flag, path string, write func(io.Writer) error) (err error) {
	f, end, err := Create(ctx, flag, path)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		if f.through { // a pipe without a reader would block
			_ = f.Close()
		}
	})
	defer stop()
	return end(buffered(f.File, write))
}

// Output is a file that is being written.
type Output struct {
	*os.File
	through bool // into an existing device or pipe
}

// Create begins the file that a flag names, or opens an existing device or pipe. end completes it,
// or after an error removes the file.
func Create(ctx context.Context, flag, path string) (f Output, end func(error) error, err error) {
	at, through, err := place(path)
	if err != nil {
		return f, nil, cannotMake(flag, path, err)
	}
	if !through {
		u, err := temporary(at)
		if err != nil {
			return f, nil, cannotMake(flag, path, err)
		}
		return Output{File: u.File}, u.end, nil
	}
	f.through = true
	if f.File, err = Until(ctx, func() (*os.File, error) { return os.OpenFile(at, os.O_WRONLY, 0) }); err != nil {
		return f, nil, Wrong(flag, path, "it can't be written: "+reason(err), "give the path of a file").By(err)
	}
	return f, func(err error) error { return errors.Join(err, f.Close()) }, nil
}

// FileText is one of several files that belong together.
type FileText struct {
	Path  string
	Write func(io.Writer) error
}

// SaveTogether writes several files of the folder that flag names, all or none: they are renamed
// when all are complete, the last one last.
func SaveTogether(flag string, files []FileText) (err error) {
	var open []*unfinished
	defer func() {
		for _, f := range open {
			err = f.end(err)
		}
	}()
	for _, file := range files {
		at, through, err := place(file.Path)
		if err == nil && through {
			err = errors.New("it isn't a regular file")
		}
		var f *unfinished
		if err == nil {
			f, err = temporary(at)
		}
		if err != nil {
			return cannotMake(flag, file.Path, err)
		}
		open = append(open, f)
		if err := buffered(f.File, file.Write); err != nil {
			return err
		}
	}
	return nil
}

// unfinished is a file that gets its name when complete.
type unfinished struct {
	*os.File
	at string
}

// temporary makes a file beside the file that it will replace.
func temporary(at string) (*unfinished, error) {
	f, err := os.CreateTemp(filepath.Dir(at), filepath.Base(at)+".*")
	return &unfinished{f, at}, err
}

// end renames the file, or removes it after an error.
func (f *unfinished) end(err error) error {
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

func buffered(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// place follows links and returns the path to write. Regular files are replaced; through says to
// write into an existing device or pipe instead, since replacing a device node would lose it.
func place(path string) (at string, through bool, err error) {
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
	at, through, err := place(path)
	if err == nil && !through {
		var f *unfinished
		if f, err = temporary(at); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return cannotMake(flag, path, err)
	}
	return nil
}

func cannotMake(flag, path string, err error) error {
	return Wrong(flag, path, "no file can be made there: "+reason(err), "give a path in a directory that can be written").By(err)
}

// reason is the text of a system error without the path, which the message has.
func reason(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// SaveBytes saves b; see Save.
func SaveBytes(ctx context.Context, flag, path string, b []byte) error {
	return Save(ctx, flag, path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}
