package visualizer

import "github.com/reprise-tt/reprise/ops/graph"

// source stores the first file of a stack trace and returns its id in the table, or nil.
func (w *writer) source(trace string) any {
	line := graph.TraceLine(trace)
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
	f, ok := graph.SourceOf(line)
	if !ok {
		return nil
	}
	w.insert("INSERT INTO source_files (path, contents) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET contents = excluded.contents",
		f.Path, f.Text)
	if w.err == nil {
		w.err = w.tx.QueryRowContext(w.ctx, "SELECT id FROM source_files WHERE path = ?", f.Path).Scan(&id)
	}
	if w.err != nil {
		return nil
	}
	w.sources[line] = id
	return id
}
