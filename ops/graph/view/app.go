package view

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

//go:embed app
var app embed.FS

var scripts = []string{"common.js", "lists.js", "plots.js", "memory.js", "cores.js", "flow.js", "findings.js", "route.js"}

// HTML writes a report under a name as one self-contained HTML file, with a page of findings if
// there are any, as in [New].
func HTML(w io.Writer, name string, r *graph.Report, findings json.RawMessage) error {
	page, err := appPage(name, r, findings)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	_, err = w.Write(page)
	return err
}

// appPage returns the page. json.Marshal escapes <, > and &, so no text of a report ends the script
// with its JSON.
func appPage(name string, r *graph.Report, findings json.RawMessage) ([]byte, error) {
	m := newModel(name, r)
	m.Findings = findings
	doc, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	read := func(path string) string {
		b, e := app.ReadFile("app/" + path)
		err = cmp.Or(err, e)
		return string(b)
	}
	var script strings.Builder
	for _, s := range scripts {
		script.WriteString(read(s))
	}
	data := struct {
		Name                         string
		PlotStyle, Style             template.CSS
		Report, Plot, Layout, Script template.JS
	}{name, template.CSS(read("lib/uPlot.min.css")), template.CSS(read("app.css")), template.JS(doc),
		template.JS(read("lib/uPlot.iife.min.js")), template.JS(read("lib/dagre.min.js")), template.JS(script.String())}
	if err != nil {
		return nil, err
	}
	t, err := template.ParseFS(app, "app/index.html")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
