package demo

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/reprise-tt/reprise/kmd"
)

// RunInteger runs the integer network of reprise demo on a device, with all its checks.
func RunInteger(ctx context.Context, t kmd.Target) error {
	c := &Cmd{Device: fmt.Sprint(t), Batch: 128, Network: "integer", DumpDir: os.TempDir(), target: t}
	images, measured, err := c.images(ctx)
	if err != nil {
		return err
	}
	_, err = c.classify(ctx, images, measured, newProgress(io.Discard, false))
	return err
}
