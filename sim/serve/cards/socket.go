package cards

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing/fstest"

	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/serve"
)

// Target is a card that another process serves, for kmd.Open and kmd.SystemOf.
type Target struct {
	path string
	proc process
}

// Socket returns the target of a card that is served at a path.
func Socket(path string) *Target { return &Target{path: path} }

func (c *Target) String() string { return "socket:" + c.path }

// Node returns the card's device node.
func (c *Target) Node() seam.Node { return node{c} }

type node struct{ c *Target }

func (n node) String() string { return n.c.String() }

// FS is the machine's dev, proc and sys, empty while no process serves the card.
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
	files := fstest.MapFS{name: {Data: data, Mode: mode}}
	if mode.IsDir() {
		for line := range strings.Lines(string(data)) {
			var m uint32
			var n string
			if _, err := fmt.Sscanf(line, "%d %s", &m, &n); err != nil {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: directory line %q", serve.ErrProtocol, line)}
			}
			files[path.Join(name, n)] = &fstest.MapFile{Mode: fs.FileMode(m)}
		}
	}
	return files.Open(name)
}

// Requests in addition to serve's, whose Object is a mapping. A connection begins with one of the
// first three.
const (
	opProcess = serve.OpService + iota // begins a process, whose number is the reply's Val; the idle connection's end is the process's
	opJoin                             // adds a connection for requests, also a child's, to the process Val
	opFile                             // payload: a name of the machine's file system
	opOpen                             // Val: flags
	opClose                            // Object: file
	opIoctl                            // Object: file, Val: request, Off: offset of a pin's memory in the descriptor
	opMmap                             // Object: file, Off, Val: length; a buffer's reply has a descriptor, and Val: offset in it
	opUnmap                            // Object: mapping
	opFault                            // Object: file
	opLast                             // Object: file, to be released last at the process's end
)

const maxName = 4096 // bytes, in an opFile
