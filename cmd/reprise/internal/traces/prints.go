package traces

import (
	"errors"
	"io"
	"os"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/kernels/print"
)

// writePrints writes what the kernels of a device print to a file, or to errs if its name is -, until stop is called, before the
// device is closed.
func writePrints(dev *reprise.Device, name string, errs io.Writer) (stop func() error, err error) {
	out, done := errs, func() error { return nil }
	if name != "-" {
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		out, done = f, f.Close
	}
	l, err := print.Listen(dev.Debug(), print.ToWriter(out), print.Options{})
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return func() error { return errors.Join(l.Close(), done()) }, nil
}
