//go:build !linux

package share

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
)

// errSystem says that processes can share cards on Linux only.
var errSystem = errors.New("share: serving cards to other processes needs Linux")

type process struct{}

// Serve fails: it needs Linux.
func Serve(context.Context, *net.UnixListener, *driver.Driver, int) error { return errSystem }

// Open implements seam.Node.
func (n node) Open(int) (seam.File, error) { return nil, errSystem }

func (c *Card) readFile(string) (fs.FileMode, []byte, error) { return 0, nil, fs.ErrNotExist }
