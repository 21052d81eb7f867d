package sim

import (
	"io/fs"
)

// FS is the file system of the card's machine as far as its driver and PCI bus are in it: dev, proc
// and sys.
func (c *Card) FS() fs.FS {
	if c.drv == nil {
		return nothing{}
	}
	return c.drv.FS()
}

// nothing is the file system of a machine that can't exist.
type nothing struct{}

// Open finds no file.
func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
