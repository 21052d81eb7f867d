package graph

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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
			if caller < 0 && ofCaller(f.Function) {
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

// ofCaller reports whether a function is neither Go's nor in a package that calls a Recorder on
// behalf of its callers.
func ofCaller(function string) bool {
	const module = "github.com/reprise-tt/reprise"
	return !slices.ContainsFunc([]string{module + ".", module + "/mesh.", module + "/ops.", "runtime.", "sync.", "golang.org/x/sync/"},
		func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

const maxSource = 4 << 20

// traceLine matches the file in a line of a stack trace: Python's form, which a Recorder writes
// too, or PATH:LINE.
var traceLine = regexp.MustCompile(`(?m)^\s*(?:File "([^"\n]+)", line (\d+)|([^:\n]+):(\d+)(?::\d+)?\s*$)`)

// Source is a source file that a stack trace names.
type Source struct {
	Path string
	Line int // from 1
	Text string
}

// TraceLine returns the first line of a stack trace that names a file, or "".
func TraceLine(trace string) string { return traceLine.FindString(trace) }

// SourceOf returns the first file in a stack trace, or false if it isn't on this machine. A report
// can come from anywhere, so only regular files of source code of up to maxSource bytes are read.
func SourceOf(trace string) (s Source, ok bool) {
	m := traceLine.FindStringSubmatch(trace)
	if m == nil {
		return s, false
	}
	line, err := strconv.Atoi(m[2] + m[4])
	if err != nil {
		return s, false
	}
	path, err := filepath.Abs(m[1] + strings.TrimSpace(m[3]))
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // the extension of the target decides
	}
	if err != nil || !slices.Contains([]string{".py", ".go", ".c", ".cc", ".cpp", ".h", ".hpp"}, filepath.Ext(path)) {
		return s, false
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxSource {
		return s, false
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) > maxSource {
		return s, false
	}
	return Source{path, line, strings.ToValidUTF8(string(b), "\uFFFD")}, true
}
