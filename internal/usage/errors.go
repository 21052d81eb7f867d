package usage

import "errors"

var (
	// ErrFormat is returned for a file that is not a log, or one of another version.
	ErrFormat = errors.New("not a usage log of this version")
	// ErrTruncated is returned for a log that was cut off while it was read.
	ErrTruncated = errors.New("the usage log was cut off")
	// ErrUnsupported is returned on systems that have no shared files.
	ErrUnsupported = errors.New("no usage logs on this system")
)
