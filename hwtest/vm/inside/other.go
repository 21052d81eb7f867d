//go:build !linux

package inside

import "errors"

// Main is the machine's first program.
func Main() error {
	return errors.New("inside: it runs inside a virtual machine with Linux")
}
