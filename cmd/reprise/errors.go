package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// flagError says what is wrong with the value of a flag, and what to do.
type flagError struct {
	flag, value string
	why, hint   string
	err         error // the cause, for errors.Is; may be nil
}

func (e *flagError) Error() string {
	s := fmt.Sprintf("%s %q: %s", e.flag, e.value, e.why)
	if e.hint != "" {
		s += "; " + e.hint
	}
	return s
}

func (e *flagError) Unwrap() error { return e.err }

// openError says in the user's words why a device can't be opened. Errors that another choice of device doesn't help stay as
// they are.
func openError(device string, err error) error {
	e := &flagError{flag: "--device", value: device, err: err}
	var lib *ttsim.LibraryError
	var op *kmd.OpError
	switch {
	case errors.As(err, &lib):
		e.why, e.hint = lib.Err.Error(), lib.Hint
	case !errors.As(err, &op) || op.Op != "open":
		return err
	case errors.Is(err, kmd.ErrNotDevice):
		e.why, e.hint = op.Err.Error(), "give a node that the driver made, such as /dev/tenstorrent/0"
	case errors.Is(err, kmd.ErrNoDevice), errors.Is(err, kmd.ErrUnsupportedSystem):
		e.why, e.hint = op.Err.Error(), "emu:blackhole and emu:wormhole need no card"
	default:
		e.why = op.Err.Error()
	}
	return e
}

// readImages reads a file of digits.
func readImages(path string) ([]digits.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, inputError(path, err)
	}
	defer f.Close()
	images, err := digits.ParseImages(f)
	if err != nil {
		return nil, inputError(path, err)
	}
	return images, nil
}

// inputError says in the user's words why a file of digits can't be used.
func inputError(path string, err error) error {
	e := &flagError{flag: "--input", value: path, err: err}
	var file *fs.PathError
	var parse *digits.ParseError
	switch {
	case errors.As(err, &file):
		e.why, e.hint = file.Err.Error(), "give a file of digits that can be read"
	case !errors.As(err, &parse):
		return err
	default:
		e.why = strings.TrimPrefix(parse.Error(), "digits: parse images: ")
		switch {
		case errors.Is(err, digits.ErrTruncated), errors.Is(err, digits.ErrCompressed):
			e.hint = "the copy is incomplete or damaged: copy the file again"
		case errors.Is(err, digits.ErrEmpty):
			e.hint = "give a file with at least one line"
		default:
			e.hint = fmt.Sprintf("a line is %d pixels from 0 to %d and a label from 0 to %d, separated by commas", digits.Pixels, digits.MaxPixel,
				digits.Classes-1)
		}
	}
	return e
}
