//go:build !linux

package inside

import "errors"

// Main refuses: machines run Linux.
func Main() error {
	return errors.New("inside: it runs inside a virtual machine with Linux")
}
