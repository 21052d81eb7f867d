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
		at, _ := runtime.CallersFrames([]uintptr{userPC()}).Next()
		o.Site = fmt.Sprintf("%s:%d", filepath.Base(at.File), at.Line)
	}
	return err
}

// worksForOthers reports whether a function is of this package, or of one that calls it for its own callers.
func worksForOthers(function string) bool {
	for _, p := range [...]string{packagePath, meshPath, pipelinePath} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}

// pipelinePath begins the names of package pipeline's functions.
const pipelinePath = "github.com/reprise-tt/reprise/pipeline."

// userPC returns the call site that the caller works for.
func userPC() uintptr {
	var pcs [4]uintptr // the call site is near, and every frame takes time
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && !worksForOthers(f.Name()) {
				return pc
			}
		}
		if n < len(pcs) {
			return 0
		}
	}
}
