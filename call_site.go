package reprise

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// callerPC returns the call site of the caller's caller.
func callerPC() uintptr {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	return pc[0]
}

// overlap adds the call site to an *OverlapError.
func overlap(err error) error {
	var o *OverlapError
	if errors.As(err, &o) {
		at := callSite()
		o.Site = fmt.Sprintf("%s:%d", filepath.Base(at.File), at.Line)
	}
	return err
}

// callSite returns the call site that the caller works for; its File is empty if that is on another goroutine.
func callSite() runtime.Frame {
	pc := userPC()
	if pc == 0 {
		return runtime.Frame{}
	}
	at, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return at
}

// userPC returns the call site that the caller works for: the innermost one outside of this package and of those that
// call it for their own callers. It is 0 if that is on another goroutine.
func userPC() uintptr {
	var pcs [4]uintptr // the call site is near, and every frame takes time
	runtime.Callers(1, pcs[:1])
	ours := packageOf(runtime.FuncForPC(pcs[0] - 1).Name())
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			f := runtime.FuncForPC(pc - 1)
			if f == nil || worksForOthers(f.Name(), ours) {
				continue
			}
			if f.Name() == "runtime.goexit" {
				return 0
			}
			return pc
		}
		if n < len(pcs) {
			return 0
		}
	}
}

// worksForOthers reports whether a function is of this package, whose path is ours, or of one that calls it for its own
// callers. The path isn't written here, so that a copy of the module under another one needs no change.
func worksForOthers(function, ours string) bool {
	rest, ok := strings.CutPrefix(function, ours)
	return ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "/mesh.") || strings.HasPrefix(rest, "/pipeline."))
}

// packageOf returns the path of a function's package.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/')
	dot := strings.IndexByte(function[slash+1:], '.')
	return function[:slash+1+dot]
}
