package sim

import (
	"io/fs"
)

// FS is the file system of the card's machine: dev, proc and sys, as far as the driver and the PCI
// bus are concerned.
func (c *Card) FS() fs.FS {
	if c.drv == nil {
		return nothing{}
	}
	return c.drv.FS()
}

// nothing is the file system of an impossible machine.
type nothing struct{}

// Open finds no file.
func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
