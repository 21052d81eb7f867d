package digits

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	_ "embed" // the data set is part of the package
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/examples/internal/rng"
)

//go:embed data/digits.csv.gz
var imagesFile []byte

const (
	Width     = 8              // pixels in a row
	Height    = 8              // rows
	Pixels    = Width * Height // pixels in an image
	MaxPixel  = 16             // full ink
	Classes   = 10             // labels 0 to 9
	fields    = Pixels + 1     // of a line
	maxDigits = 3              // of a field
	maxLine   = fields * (maxDigits + 1)
)

// Errors of whole files of images, each in a *ParseError.
var (
	ErrEmpty      = errors.New("no images")
	ErrTruncated  = errors.New("compressed data ends early")
	ErrCompressed = errors.New("compressed data damaged")
)

// ParseError says where a file of images is invalid. Err wraps one of the sentinels of this
// package, is the reader's error, or says what is wrong with the line.
type ParseError struct {
	Line   int    // 1-based; the line that was being read
	Column int    // 1-based field number in the line, 0 for the whole line
	Text   string // the offending field, shortened, or a description
	Err    error
}

func (e *ParseError) Error() string {
	where, found := fmt.Sprintf("line %d", e.Line), ""
	if e.Column > 0 {
		where += fmt.Sprintf(", column %d", e.Column)
	}
	if e.Text != "" {
		found = ": found " + e.Text
	}
	return fmt.Sprintf("digits: parse images: %s: %v%s", where, e.Err, found)
}

func (e *ParseError) Unwrap() error { return e.Err }

// Image is one handwritten digit: ink from 0 to MaxPixel, row by row from the top left, and its
// label.
type Image struct {
	Pixels [Pixels]uint8
	Label  uint8
}

// Images returns the 1,797 digits of the embedded data set (credit and licence: data/README.md).
func Images() ([]Image, error) { return ParseImages(bytes.NewReader(imagesFile)) }

// Split divides images into those the network is trained on and those held out to measure it: a
// quarter of every label, rounded down, the same on every machine.
func Split(images []Image) (training, heldOut []Image) {
	var perLabel [Classes][]int
	for i, m := range images {
		l := m.Label % Classes
		perLabel[l] = append(perLabel[l], i)
	}
	var out []int
	src := rng.Source(0x5EED_0D19)
	for _, idx := range perLabel {
		src.Shuffle(idx)
		out = append(out, idx[:len(idx)/4]...)
	}
	return rng.Split(images, out)
}

// ParseImages reads images as comma-separated lines of 64 pixels and a label, plain or
// gzip-compressed. Lines end with LF or CR LF, the last one also without. Errors are *ParseError.
func ParseImages(r io.Reader) ([]Image, error) {
	br := bufio.NewReader(r)
	if magic, err := br.Peek(2); err != nil && !errors.Is(err, io.EOF) {
		return nil, &ParseError{Line: 1, Err: err}
	} else if bytes.Equal(magic, []byte{0x1F, 0x8B}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, &ParseError{Line: 1, Err: compressedError(err)}
		}
		br = bufio.NewReader(zr)
	}
	var images []Image
	for line := 1; ; line++ {
		text, err := br.ReadSlice('\n')
		end := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, &ParseError{Line: line, Err: errLineTooLong}
		case err != nil && !end:
			return nil, &ParseError{Line: line, Err: compressedError(err)}
		}
		if len(text) > 0 {
			m, perr := parseLine(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"))
			if perr != nil {
				perr.Line = line
				return nil, perr
			}
			images = append(images, m)
		}
		if end {
			break
		}
	}
	if len(images) == 0 {
		return nil, &ParseError{Line: 1, Err: ErrEmpty}
	}
	return images, nil
}

func compressedError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrTruncated, err)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		return fmt.Errorf("%w: %w", ErrCompressed, err)
	}
	return err
}

var errLineTooLong = errors.New("line too long")

// parseLine reads a line without its ending. The error lacks the line number.
func parseLine(text string) (m Image, _ *ParseError) {
	if len(text) > maxLine {
		return m, &ParseError{Text: fmt.Sprintf("%d bytes, at most %d", len(text), maxLine), Err: errLineTooLong}
	}
	all := strings.Split(text, ",")
	if n := len(all); n != fields {
		return m, &ParseError{Text: fmt.Sprintf("%d, want %d", n, fields), Err: errors.New("wrong number of fields")}
	}
	for i, field := range all {
		v, err := strconv.ParseUint(field, 10, 16) // no signs, spaces and fractions
		to, limit, what := &m.Label, uint64(Classes-1), "label"
		if i < Pixels {
			to, limit, what = &m.Pixels[i], MaxPixel, "pixel"
		}
		switch {
		case err != nil || len(field) > maxDigits:
			if len(field) > 16 {
				field = field[:16] + "..."
			}
			return m, &ParseError{Column: i + 1, Text: strconv.Quote(field), Err: errors.New("not a small decimal integer")}
		case v > limit:
			return m, &ParseError{Column: i + 1, Text: field, Err: fmt.Errorf("%s outside 0 to %d", what, limit)}
		}
		*to = uint8(v)
	}
	return m, nil
}

// AppendCSV appends the image as a line of the plain file format, with its line ending.
func (m Image) AppendCSV(dst []byte) []byte {
	for _, p := range m.Pixels {
		dst = append(strconv.AppendUint(dst, uint64(p), 10), ',')
	}
	return append(strconv.AppendUint(dst, uint64(m.Label), 10), '\n')
}

// Render draws an image as eight lines of sixteen block characters, as dark as its ink.
func Render(m Image) string {
	var b strings.Builder
	for i, p := range m.Pixels {
		shades := [...]string{"  ", "░░", "▒▒", "▓▓", "██"}
		b.WriteString(shades[(int(min(p, MaxPixel))*(len(shades)-1)+MaxPixel/2)/MaxPixel])
		if i%Width == Width-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
