package visualizer

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mostSource is how large a source file may be to be kept, in bytes.
const mostSource = 4 << 20

// tracePath finds the file in a line of a stack trace: Python's form, which graph.Recorder has too, or PATH:LINE.
var tracePath = regexp.MustCompile(`(?m)^\s*(?:File "([^"\n]+)", line \d+|([^:\n]+):\d+(?::\d+)?\s*$)`)

// sourceOf returns the text of the first file that a stack trace names and where it is. It is false if there is none of that
// name here. A report can come from anywhere, and a database goes to others: what isn't a regular file with a name of source
// code, or is longer than mostSource, isn't read.
func sourceOf(trace string) (path, text string, ok bool) {
	m := tracePath.FindStringSubmatch(trace)
	if m == nil {
		return "", "", false
	}
	if path = m[1]; path == "" {
		path = strings.TrimSpace(m[2])
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", "", false
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // the name that counts is the file's own
		return "", "", false
	}
	if !slices.Contains([]string{".py", ".go", ".c", ".cc", ".cpp", ".h", ".hpp"}, filepath.Ext(path)) {
		return "", "", false
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > mostSource {
		return "", "", false
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) > mostSource {
		return "", "", false
	}
	return path, strings.ToValidUTF8(string(b), "\uFFFD"), true
}

// source keeps the file that a stack trace begins in, and returns its number in the table: nil if there is none to keep.
func (w *writer) source(trace string) any {
	line := tracePath.FindString(trace)
	id, known := w.sources[line]
	if w.err != nil || line == "" || known && id == 0 {
		return nil
	}
	if known {
		return id
	}
	if w.sources == nil {
		w.sources = map[string]int64{}
	}
	w.sources[line] = 0
	path, text, ok := sourceOf(line)
	if !ok {
		return nil
	}
	w.insert("INSERT INTO source_files (path, contents) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET contents = excluded.contents", path, text)
	if w.err == nil {
		w.err = w.tx.QueryRowContext(w.ctx, "SELECT id FROM source_files WHERE path = ?", path).Scan(&id)
	}
	if w.err != nil {
		return nil
	}
	w.sources[line] = id
	return id
}
