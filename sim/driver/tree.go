package driver

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// tree is a file system as a table from paths to files, with implied directories.
type tree map[string]entry

type entry struct {
	data []byte
	mode fs.FileMode
	err  error // of reading
}

func (t tree) text(name, s string) { t[name] = entry{data: []byte(s), mode: 0o444} }

// Open implements fs.FS.
func (t tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if e, ok := t[name]; ok {
		return &treeFile{info: treeInfo{path.Base(name), e}, r: bytes.NewReader(e.data)}, nil
	}
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	seen := map[string]entry{}
	for p, e := range t {
		if rest, ok := strings.CutPrefix(p, prefix); ok {
			first, _, deeper := strings.Cut(rest, "/")
			if deeper {
				e = entry{mode: fs.ModeDir | 0o555}
			}
			seen[first] = e
		}
	}
	if len(seen) == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	d := &treeDir{treeFile: treeFile{info: treeInfo{path.Base(name), entry{mode: fs.ModeDir | 0o555}}}}
	for n, e := range seen {
		d.list = append(d.list, fs.FileInfoToDirEntry(treeInfo{n, e}))
	}
	slices.SortFunc(d.list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return d, nil
}

type treeInfo struct {
	name string
	e    entry
}

func (i treeInfo) Name() string       { return i.name }
func (i treeInfo) Size() int64        { return int64(len(i.e.data)) }
func (i treeInfo) Mode() fs.FileMode  { return i.e.mode }
func (i treeInfo) ModTime() time.Time { return time.Time{} }
func (i treeInfo) IsDir() bool        { return i.e.mode.IsDir() }
func (i treeInfo) Sys() any           { return nil }

type treeFile struct {
	info treeInfo
	r    *bytes.Reader
}

func (f *treeFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *treeFile) Close() error               { return nil }

func (f *treeFile) Read(p []byte) (int, error) {
	switch {
	case f.info.e.err != nil:
		return 0, &fs.PathError{Op: "read", Path: f.info.name, Err: f.info.e.err}
	case f.r == nil:
		return 0, &fs.PathError{Op: "read", Path: f.info.name, Err: fs.ErrInvalid}
	}
	return f.r.Read(p)
}

type treeDir struct {
	treeFile
	list []fs.DirEntry
}

// ReadDir implements fs.ReadDirFile.
func (d *treeDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		l := d.list
		d.list = nil
		return l, nil
	}
	if len(d.list) == 0 {
		return nil, io.EOF
	}
	l := d.list[:min(n, len(d.list))]
	d.list = d.list[len(l):]
	return l, nil
}
