package usage

import "errors"

var (
	// ErrFormat is the error of a file that isn't a log, or has another version.
	ErrFormat = errors.New("not a usage log of this version")
	// ErrTruncated is the error of a log truncated during the read.
	ErrTruncated = errors.New("the usage log was cut off")
	// ErrUnsupported is the error of systems that have no shared files.
	ErrUnsupported = errors.New("no usage logs on this system")
)
