//go:build !linux

package cards

import (
	"context"
	"io/fs"
	"net"

	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
)

type process struct{}

// Serve fails with serve.ErrUnsupported.
func Serve(context.Context, *net.UnixListener, *driver.Driver, int) error {
	return serve.ErrUnsupported
}

func (n node) Open(int) (seam.File, error) { return nil, serve.ErrUnsupported }

func (c *Target) readFile(string) (fs.FileMode, []byte, error) { return 0, nil, fs.ErrNotExist }
