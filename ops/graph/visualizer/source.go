package visualizer

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSource is the largest source file that is stored, in bytes.
const maxSource = 4 << 20

// tracePath matches the file in a line of a stack trace, in Python's form, which graph.Recorder writes too, or as PATH:LINE.
var tracePath = regexp.MustCompile(`(?m)^\s*(?:File "([^"\n]+)", line \d+|([^:\n]+):\d+(?::\d+)?\s*$)`)

// sourceOf returns the path and the text of the first file in a stack trace, or false if it isn't on this machine. A report can
// come from anywhere and a database is given to others, so only regular files of up to maxSource bytes whose extension is that
// of source code are read.
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
	if path, err = filepath.EvalSymlinks(path); err != nil { // the extension of the target decides
		return "", "", false
	}
	if !slices.Contains([]string{".py", ".go", ".c", ".cc", ".cpp", ".h", ".hpp"}, filepath.Ext(path)) {
		return "", "", false
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxSource {
		return "", "", false
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) > maxSource {
		return "", "", false
	}
	return path, strings.ToValidUTF8(string(b), "\uFFFD"), true
}

// source stores the first file of a stack trace and returns its id in the table, or nil if there is no file to store.
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
