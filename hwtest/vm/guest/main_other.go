//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "guest: it runs inside a virtual machine with Linux")
	os.Exit(1)
}
