// Package callsite finds out who has called a function, for a fraction of what runtime.Callers takes: that unwinds the stack
// by tables, on another stack.
package callsite

import "runtime"

// Return returns the address that the function which calls it returns to, as runtime.Callers does, or 0 if it doesn't know. That
// function must not be inlined.
//
//go:noinline
func Return() uintptr {
	if !works {
		return 0
	}
	return returnAddress()
}

// works is false where frames aren't as returnAddress takes them, so that who asks looks further.
var works bool

func init() {
	works = true
	here, want := probe()
	works = here == want
}

//go:noinline
func probe() (here, want uintptr) {
	var pc [1]uintptr
	runtime.Callers(2, pc[:])
	return Return(), pc[0]
}
