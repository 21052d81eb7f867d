package reprise

import (
	"fmt"
	"strings"
)

// onceNamed is an error inside of one that names the same program: its own text leaves the name out.
type onceNamed struct {
	err  error
	text string
}

func (e *onceNamed) Error() string { return e.text }

func (e *onceNamed) Unwrap() error { return e.err }

// nameOnce prepares an error for one that names the program before it.
func nameOnce(program string, err error) error {
	before, after, ok := strings.Cut(err.Error(), fmt.Sprintf("program %q: ", program))
	if !ok {
		return err
	}
	return &onceNamed{err, before + after}
}
