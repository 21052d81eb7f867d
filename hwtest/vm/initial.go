package vm

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// writeArchive writes a cpio archive of the "newc" kind (Linux's buffer-format.rst).
func writeArchive(name string, fill func(*archive) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	w := &archive{w: bufio.NewWriter(f), has: map[string]bool{"": true}}
	if err := fill(w); err != nil {
		return err
	}
	w.makeDirs("dev/console")
	w.head("dev/console", 0o020600, 0, 5, 1)
	w.head("TRAILER!!!", 0, 0, 0, 0)
	if w.err != nil {
		return w.err
	}
	return w.w.Flush()
}

type archive struct {
	w   *bufio.Writer
	ino int
	has map[string]bool
	err error
}

func (a *archive) copy(to, from string) error { return a.file(to, from, 0o755) }

func (a *archive) file(to, from string, more fs.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "copy", Path: from, Err: fs.ErrInvalid}
	}
	if info.Size() > math.MaxUint32 {
		return &fs.PathError{Op: "copy", Path: from, Err: syscall.EFBIG}
	}
	return a.entry(inArchive(to), fileMode|uint32(info.Mode().Perm()|more), info.Size(), f)
}

func (a *archive) copyTree(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch d.Type() {
		case fs.ModeDir:
			a.makeDirs(inArchive(p) + "/")
			return a.err
		case fs.ModeSymlink:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return a.entry(inArchive(p), linkMode|0o777, int64(len(to)), strings.NewReader(to))
		case 0:
			return a.file(p, p, 0)
		}
		return nil
	})
}

func (a *archive) text(to, text string) error {
	return a.entry(inArchive(to), fileMode|0o644, int64(len(text)), strings.NewReader(text))
}

const (
	fileMode = 0o100000
	linkMode = 0o120000
	dirMode  = 0o040000
)

func inArchive(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

// entry adds an entry and the folders that lead to it. The first entry of a path stays.
func (a *archive) entry(name string, mode uint32, size int64, r io.Reader) error {
	if a.has[name] {
		return a.err
	}
	a.has[name] = true
	a.makeDirs(name)
	a.head(name, mode, size, 0, 0)
	if a.err != nil {
		return a.err
	}
	if _, err := io.CopyN(a.w, r, size); err != nil {
		a.err = err
	}
	a.pad(size)
	return a.err
}

func (a *archive) makeDirs(name string) {
	for i, ch := range name {
		if ch == '/' && !a.has[name[:i]] {
			a.has[name[:i]] = true
			a.head(name[:i], dirMode|0o755, 0, 0, 0)
		}
	}
}

func (a *archive) head(name string, mode uint32, size int64, major, minor int) {
	if a.err != nil {
		return
	}
	a.ino++
	const magic, links = "070701", 1
	n, err := fmt.Fprintf(a.w, "%s%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		magic, a.ino, mode, 0, 0, links, 0, size, 0, 0, major, minor, len(name)+1, 0, name)
	a.err = err
	a.pad(int64(n))
}

func (a *archive) pad(n int64) {
	for ; n&3 != 0 && a.err == nil; n++ {
		a.err = a.w.WriteByte(0)
	}
}
