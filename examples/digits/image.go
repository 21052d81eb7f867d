package digits

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Sizes of an image and of its line in a file.
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

// Image is one handwritten digit: ink from 0 to MaxPixel, row by row from the top left, and its
// label.
type Image struct {
	Pixels [Pixels]uint8
	Label  uint8
}

// ParseImages reads images as comma-separated lines of 64 pixels and a label, plain or
// gzip-compressed. Lines end with "
// " or "\r
// ", the last one also without. Errors are *ParseError.
func ParseImages(r io.Reader) ([]Image, error) {
	br := bufio.NewReader(r)
	magic, err := br.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &ParseError{Line: 1, Err: err}
	}
	if !bytes.Equal(magic, []byte{0x1F, 0x8B}) {
		return parseLines(br)
	}
	zr, err := gzip.NewReader(br)
	if err != nil {
		return nil, &ParseError{Line: 1, Err: compressedError(err)}
	}
	return parseLines(bufio.NewReader(zr))
}

// compressedError maps the errors of package gzip to this package's.
func compressedError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrTruncated, err)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("%w: %w", ErrCompressed, err)
	}
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", ErrCompressed, err)
	}
	return err
}

func parseLines(br *bufio.Reader) ([]Image, error) {
	var images []Image
	for line := 1; ; line++ {
		text, err := br.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = ErrLineTooLong
			} else {
				err = compressedError(err)
			}
			return nil, &ParseError{Line: line, Err: err}
		}
		if len(text) == 0 { // only at the end of the file
			break
		}
		img, perr := parseLine(trimEnd(text))
		if perr != nil {
			perr.Line = line
			return nil, perr
		}
		images = append(images, img)
		if err != nil {
			break
		}
	}
	if len(images) == 0 {
		return nil, &ParseError{Line: 1, Err: ErrEmpty}
	}
	return images, nil
}

func trimEnd(text []byte) []byte {
	text = bytes.TrimSuffix(text, []byte("\n"))
	return bytes.TrimSuffix(text, []byte("\r"))
}

// parseLine reads a line without its ending. The error lacks the line number.
func parseLine(text []byte) (Image, *ParseError) {
	var img Image
	if len(text) > maxLine {
		return img, &ParseError{Text: fmt.Sprintf("%d bytes, at most %d", len(text), maxLine), Err: ErrLineTooLong}
	}
	if n := bytes.Count(text, []byte(",")) + 1; n != fields {
		return img, &ParseError{Text: fmt.Sprintf("%d, want %d", n, fields), Err: ErrFieldCount}
	}
	for col := range fields {
		field, rest, _ := bytes.Cut(text, []byte(","))
		text = rest
		v, ok := parseField(field)
		limit, reason := MaxPixel, ErrPixelRange
		if col == Pixels {
			limit, reason = Classes-1, ErrLabelRange
		}
		switch {
		case !ok:
			return img, &ParseError{Column: col + 1, Text: strconv.Quote(shorten(field)), Err: ErrNotNumber}
		case v > limit:
			return img, &ParseError{Column: col + 1, Text: strconv.Itoa(v), Err: reason}
		case col == Pixels:
			img.Label = uint8(v)
		default:
			img.Pixels[col] = uint8(v)
		}
	}
	return img, nil
}

// parseField parses an integer of one to maxDigits digits, without signs, spaces and fractions,
// which strconv would accept.
func parseField(field []byte) (int, bool) {
	if len(field) == 0 || len(field) > maxDigits {
		return 0, false
	}
	v := 0
	for _, c := range field {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, true
}

func shorten(field []byte) string {
	const most = 16
	if len(field) > most {
		return string(field[:most]) + "..."
	}
	return string(field)
}

// AppendCSV appends the image as a line of the plain file format, with its line ending.
func (m Image) AppendCSV(dst []byte) []byte {
	for _, p := range m.Pixels {
		dst = strconv.AppendUint(dst, uint64(p), 10)
		dst = append(dst, ',')
	}
	dst = strconv.AppendUint(dst, uint64(m.Label), 10)
	return append(dst, '\n')
}
