package vm

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// pack writes the machine's initial file system: a cpio archive of the "newc" kind, not compressed
// (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).
func (c *Config) pack(name string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := &archive{w: bufio.NewWriter(f), dirs: map[string]bool{"": true}}
	files := maps.Clone(c.Files)
	if files == nil {
		files = map[string]string{}
	}
	files["/init"] = c.Init
	if c.Module != "" {
		files["/tenstorrent.ko"] = c.Module
	}
	for _, to := range slices.Sorted(maps.Keys(files)) {
		if err := w.copy(strings.TrimPrefix(path.Clean(to), "/"), files[to]); err != nil {
			return err
		}
	}
	if len(c.Commands) > 0 {
		text := strings.Join(c.Commands, "\n") + "\n"
		if err := w.entry("commands", 0o100644, int64(len(text)), strings.NewReader(text)); err != nil {
			return err
		}
	}
	// The console is opened before the first program can make it.
	w.makeDirs("dev/console")
	w.head("dev/console", 0o020600, 0, 5, 1)
	w.head("TRAILER!!!", 0, 0, 0, 0)
	if w.err != nil {
		return w.err
	}
	return w.w.Flush()
}

// archive is a cpio archive on its way. The first error stays.
type archive struct {
	w    *bufio.Writer
	ino  int
	dirs map[string]bool
	err  error
}

func (a *archive) copy(to, from string) error {
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
	return a.entry(to, 0o100755, info.Size(), f)
}

func (a *archive) entry(name string, mode uint32, size int64, r io.Reader) error {
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
		if ch == '/' && !a.dirs[name[:i]] {
			a.dirs[name[:i]] = true
			a.head(name[:i], 0o040755, 0, 0, 0)
		}
	}
}

// head writes an entry's header and name, padded.
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

// pad fills up n bytes to a multiple of four.
func (a *archive) pad(n int64) {
	for ; n&3 != 0 && a.err == nil; n++ {
		a.err = a.w.WriteByte(0)
	}
}
