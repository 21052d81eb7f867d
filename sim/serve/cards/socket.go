package cards

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/serve"
)

// Target is a card that another process serves, for kmd.Open, and its machine, for kmd.SystemOf.
type Target struct {
	path string
	proc process
}

// Socket returns the target of a card that is served at a path.
func Socket(path string) *Target { return &Target{path: path} }

func (c *Target) String() string { return "socket:" + c.path }

// Node implements kmd.Target.
func (c *Target) Node() seam.Node { return node{c} }

type node struct{ c *Target }

func (n node) String() string { return n.c.String() }

// FS is the machine's dev, proc and sys. It is empty while no process serves the card.
func (c *Target) FS() fs.FS { return remoteFS{c} }

type remoteFS struct{ c *Target }

func (r remoteFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	mode, data, err := r.c.readFile(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	info := fileInfo{path.Base(name), mode, int64(len(data))}
	if !mode.IsDir() {
		return &remoteFile{info: info, Reader: bytes.NewReader(data)}, nil
	}
	d := &remoteDir{remoteFile: remoteFile{info: info, Reader: bytes.NewReader(nil)}}
	for line := range strings.Lines(string(data)) {
		var m uint32
		var n string
		if _, err := fmt.Sscanf(line, "%d %s", &m, &n); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: directory line %q", serve.ErrProtocol, line)}
		}
		d.list = append(d.list, fs.FileInfoToDirEntry(fileInfo{n, fs.FileMode(m), 0}))
	}
	return d, nil
}

type fileInfo struct {
	name string
	mode fs.FileMode
	size int64
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }

type remoteFile struct {
	info fileInfo
	*bytes.Reader
}

// Stat implements fs.File.
func (f *remoteFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements fs.File.
func (f *remoteFile) Close() error { return nil }

type remoteDir struct {
	remoteFile
	list []fs.DirEntry
}

// ReadDir implements fs.ReadDirFile.
func (d *remoteDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.list) == 0 {
		return nil, io.EOF
	}
	k := len(d.list)
	if n > 0 {
		k = min(n, k)
	}
	l := d.list[:k]
	d.list = d.list[k:]
	return l, nil
}
