package kmd

import (
	"fmt"
	"runtime"
	"strings"
)

// Leak is a handle that was still open when its Device was closed.
type Leak struct {
	Name   string // such as "window 3 (2.0 MiB, uncached)"
	Origin string // where it was opened: a line per caller
}

func (l Leak) String() string { return l.Name + ", made at\n" + l.Origin }

type leakTracker func(Leak)

func (t leakTracker) report(name, origin string) {
	if t != nil {
		t(Leak{name, origin})
	}
}

func (t leakTracker) origin() string {
	if t == nil {
		return ""
	}
	var pcs [16]uintptr
	n := runtime.Callers(3, pcs[:])
	var b strings.Builder
	for f := runtime.CallersFrames(pcs[:n]); ; {
		fr, more := f.Next()
		fmt.Fprintf(&b, "\t%s %s:%d\n", fr.Function, fr.File, fr.Line)
		if !more {
			return b.String()
		}
	}
}
