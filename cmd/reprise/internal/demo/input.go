package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
)

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
	e := &cli.FlagError{Flag: "--input", Value: path, Err: err}
	var file *fs.PathError
	var parse *digits.ParseError
	switch {
	case errors.As(err, &file):
		e.Why, e.Hint = file.Err.Error(), "give a file of digits that can be read"
	case !errors.As(err, &parse):
		return err
	default:
		e.Why = strings.TrimPrefix(parse.Error(), "digits: parse images: ")
		switch {
		case errors.Is(err, digits.ErrTruncated), errors.Is(err, digits.ErrCompressed):
			e.Hint = "the copy is incomplete or damaged: copy the file again"
		case errors.Is(err, digits.ErrEmpty):
			e.Hint = "give a file with at least one line"
		default:
			e.Hint = fmt.Sprintf("a line is %d pixels from 0 to %d and a label from 0 to %d, separated by commas", digits.Pixels,
				digits.MaxPixel, digits.Classes-1)
		}
	}
	return e
}
