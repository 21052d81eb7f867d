package reprise

import (
	"fmt"
	"strings"
)

// trimmedError is an error without its "program X:" prefix: the error around it names the program already.
type trimmedError struct {
	err  error
	text string
}

func (e *trimmedError) Error() string { return e.text }

func (e *trimmedError) Unwrap() error { return e.err }

// nameOnce prepares an error for one that names the program before it.
func nameOnce(program string, err error) error {
	before, after, ok := strings.Cut(err.Error(), fmt.Sprintf("program %q: ", program))
	if !ok {
		return err
	}
	return &trimmedError{err, before + after}
}
