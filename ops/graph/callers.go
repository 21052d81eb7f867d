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

func ofGo(function string) bool {
	return strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "sync.") ||
		strings.HasPrefix(function, "golang.org/x/sync/")
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
func SourceOf(trace string) (Source, bool) {
	m := traceLine.FindStringSubmatch(trace)
	if m == nil {
		return Source{}, false
	}
	path, number := m[1], m[2]
	if path == "" {
		path, number = strings.TrimSpace(m[3]), m[4]
	}
	line, err := strconv.Atoi(number)
	if err != nil {
		return Source{}, false
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return Source{}, false
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // the extension of the target decides
		return Source{}, false
	}
	if !slices.Contains([]string{".py", ".go", ".c", ".cc", ".cpp", ".h", ".hpp"}, filepath.Ext(path)) {
		return Source{}, false
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxSource {
		return Source{}, false
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) > maxSource {
		return Source{}, false
	}
	return Source{path, line, strings.ToValidUTF8(string(b), "\uFFFD")}, true
}
