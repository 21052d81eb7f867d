package graph

import (
	"fmt"
	"runtime"
	"strings"
)

// callers returns the call stack, innermost first, without skip frames and this module's frames on
// top: the visualizer shows the first file and line as the operation's. A goroutine that this
// module started keeps all its frames.
func callers(skip int) []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skip, pcs)])
	var out []string
	caller := -1 // index in out of the first frame outside of this module
	for {
		f, more := frames.Next()
		if f.Function != "" {
			if caller < 0 && !ofRuntime(f.Function) && !ofGo(f.Function) {
				caller = len(out)
			}
			// The visualizer parses this form to show file and line.
			out = append(out, fmt.Sprintf("File %q, line %d, in %s", f.File, f.Line, f.Function))
		}
		if !more {
			return out[max(caller, 0):]
		}
	}
}

// ofRuntime reports whether a function is in a package that calls a Recorder on behalf of its
// callers.
func ofRuntime(function string) bool {
	const module = "github.com/reprise-tt/reprise"
	for _, p := range []string{module + ".", module + "/mesh.", module + "/ops."} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}

// ofGo reports whether a function belongs to Go's runtime and synchronisation.
func ofGo(function string) bool {
	return strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "sync.") || strings.HasPrefix(function, "golang.org/x/sync/")
}
