package usage

import "errors"

var (
	// ErrFormat is returned for a file that isn't a log, or has another version.
	ErrFormat = errors.New("not a usage log of this version")
	// ErrTruncated is returned for a log truncated during the read.
	ErrTruncated = errors.New("the usage log was cut off")
	// ErrUnsupported is returned on systems that have no shared files.
	ErrUnsupported = errors.New("no usage logs on this system")
)
