package graph

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxSource is the largest source file that is stored, in bytes.
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
// can come from anywhere and its database goes to others. So it reads only regular files of source
// code of up to maxSource bytes.
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
