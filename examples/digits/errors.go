package digits

import (
	"errors"
	"fmt"
)

// Errors of files of images. A *ParseError has one of them and its place.
var (
	// ErrEmpty: the file has no line at all, so it is not a data set.
	ErrEmpty = errors.New("no images")
	// ErrFieldCount: a line does not have 65 fields, 64 pixels and a label, separated by commas.
	ErrFieldCount = errors.New("wrong number of fields")
	// ErrNotNumber: a field is not a decimal integer without sign, or has more than three digits.
	ErrNotNumber = errors.New("not a small decimal integer")
	// ErrPixelRange: a pixel is above 16, the largest count of ink in the data set's 4 by 4 blocks.
	ErrPixelRange = errors.New("pixel outside 0 to 16")
	// ErrLabelRange: a label is not a digit.
	ErrLabelRange = errors.New("label outside 0 to 9")
	// ErrLineTooLong: a line is longer than 65 fields of three digits can be.
	ErrLineTooLong = errors.New("line too long")
	// ErrTruncated: a gzip file ends before its end marker; the copy is incomplete.
	ErrTruncated = errors.New("compressed data ends early")
	// ErrCompressed: a gzip file is damaged: its checksum or its coding is wrong.
	ErrCompressed = errors.New("compressed data damaged")
)

// Errors of layers and files of weights.
var (
	// ErrShape: layer sizes beyond the format, a 64-byte page or the next layer.
	ErrShape = errors.New("layer shape not supported")
	// ErrRequantise: a multiplier or shift with which some input would overflow an int32.
	ErrRequantise = errors.New("requantisation could overflow int32")
	// ErrFormat: neither a packed layer nor a file of weights.
	ErrFormat = errors.New("not in the weights format")
	// ErrChecksum: a file of weights that doesn't match the checksum in its header.
	ErrChecksum = errors.New("checksum differs")
)

// ParseError says where a file of images is invalid. Err wraps one of the sentinels of this
// package, or is the reader's error.
type ParseError struct {
	Line   int    // 1-based; the line that was being read
	Column int    // 1-based field number in the line, 0 for the whole line
	Text   string // the offending field, shortened, or a description
	Err    error
}

// Error names line, column, what was found and the reason.
func (e *ParseError) Error() string {
	where := fmt.Sprintf("line %d", e.Line)
	if e.Column > 0 {
		where += fmt.Sprintf(", column %d", e.Column)
	}
	if e.Text != "" {
		return fmt.Sprintf("digits: parse images: %s: %v: found %s", where, e.Err, e.Text)
	}
	return fmt.Sprintf("digits: parse images: %s: %v", where, e.Err)
}

// Unwrap returns the reason.
func (e *ParseError) Unwrap() error { return e.Err }
