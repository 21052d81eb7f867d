package inside

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// snapshot is when each file of a folder was changed last, content or attributes.
type snapshot map[string]syscall.Timespec

// snap returns the snapshot of a folder, an empty one of "".
func snap(dir string) (snapshot, error) {
	s := snapshot{}
	err := walk(dir, func(path string, info fs.FileInfo) error {
		s[path] = changed(info)
		return nil
	})
	return s, err
}

// writeChanged writes the files of a folder that are new or changed since the snapshot.
func (s snapshot) writeChanged(w *tar.Writer, dir string) error {
	return walk(dir, func(path string, info fs.FileInfo) error {
		if at, ok := s[path]; ok && at == changed(info) {
			return nil
		}
		return writeFile(w, dir, path, info)
	})
}

// walk calls f for each regular file of a folder.
func walk(dir string, f func(path string, info fs.FileInfo) error) error {
	if dir == "" {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(path, info)
	})
}

func changed(info fs.FileInfo) syscall.Timespec { return info.Sys().(*syscall.Stat_t).Ctim }

func writeFile(w *tar.Writer, dir, path string, info fs.FileInfo) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: ResultShare + filepath.ToSlash(name), Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(w, f, info.Size()); err != nil {
		return fmt.Errorf("return %s: %w", path, err)
	}
	return nil
}
