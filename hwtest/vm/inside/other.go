//go:build !linux

package inside

import "errors"

func Main() error {
	return errors.New("inside: it runs inside a virtual machine with Linux")
}
