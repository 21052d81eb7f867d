// Package tensix has the conformance cases of a tile's Tensix engines. The cases are data:
// vectors/*.txt has the instructions, vectors/golden.bin what the vendor's simulator makes of them.
// vectors/common.txt describes the notation.
package tensix

import (
	"embed"
	"errors"
	"fmt"
	"strings"
)

//go:embed vectors/*.txt
var files embed.FS

// A line of a vector file, with the lines that are indented below it.
type line struct {
	pos  string // file:line
	text string
	body []*line

	indent int // of the lines below
}

// macro is lines with parameters.
type macro struct {
	params []string
	body   []*line
}

// vector is one case.
type vector struct {
	name, protects string
	*line
}

// suite is the content of vector files.
type suite struct {
	constants map[string]string
	macros    map[string]*macro
	vectors   []*vector
}

func load() (*suite, error) {
	s := newSuite()
	for _, name := range []string{"common", "front", "sync", "unpack", "move", "matrix", "lanes", "pack"} {
		name = "vectors/" + name + ".txt"
		text, err := files.ReadFile(name)
		if err == nil {
			err = s.parse(name, string(text))
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func newSuite() *suite {
	return &suite{constants: map[string]string{}, macros: map[string]*macro{}}
}

var errHeader = errors.New(`want "const NAME = EXPRESSION", "macro NAME PARAMETERS", "protects TEXT" or "case NAME"`)

// parse adds the definitions and cases of a file.
func (s *suite) parse(file, text string) error {
	root, err := indented(file, text)
	if err != nil {
		return err
	}
	protects := ""
	for _, l := range root.body {
		word, rest, _ := strings.Cut(l.text, " ")
		rest = strings.TrimSpace(rest)
		name, value, isConst := strings.Cut(rest, " = ")
		params := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ',' })
		switch {
		case word == "const" && isConst && len(l.body) == 0:
			s.constants[name] = value
		case word == "macro" && len(params) > 0:
			s.macros[params[0]] = &macro{params[1:], l.body}
		case word == "protects" && len(l.body) == 0:
			protects = rest
		case word == "case" && rest != "" && protects != "":
			s.vectors = append(s.vectors, &vector{rest, protects, l})
		default:
			return fmt.Errorf("%s: %q: %w", l.pos, l.text, errHeader)
		}
	}
	return nil
}

// indented makes a tree of lines. Comments begin with # and a space, at the line's beginning or
// after a space.
func indented(file, text string) (*line, error) {
	root := &line{}
	open, indents := []*line{root}, []int{-1}
	for i, raw := range strings.Split(text, "\n") {
		if before, _, ok := strings.Cut(" "+raw, " # "); ok {
			raw = strings.TrimPrefix(before, " ")
		}
		text := strings.TrimSpace(raw)
		if text == "" || text == "#" {
			continue
		}
		indent := len(raw) - len(strings.TrimLeft(raw, " "))
		for indents[len(indents)-1] >= indent {
			open, indents = open[:len(open)-1], indents[:len(indents)-1]
		}
		parent := open[len(open)-1]
		if n := len(parent.body); n > 0 && parent.indent != indent {
			return nil, fmt.Errorf("%s:%d: indented by %d, the line above by %d", file, i+1, indent, parent.indent)
		}
		parent.indent = indent
		var l *line
		for part := range strings.SplitSeq(text, "; ") {
			l = &line{pos: fmt.Sprintf("%s:%d", file, i+1), text: part}
			parent.body = append(parent.body, l)
		}
		open, indents = append(open, l), append(indents, indent)
	}
	return root, nil
}
