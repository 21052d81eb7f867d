package sim

import "io/fs"

// FS is the dev, proc and sys of the card's machine.
func (c *Card) FS() fs.FS {
	if c.drv == nil {
		return nothing{}
	}
	return c.drv.FS()
}

type nothing struct{}

func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
