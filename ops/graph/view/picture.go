package view

import (
	"fmt"
	"hash/fnv"
)

// width is the width of pictures in pixels; maxRects limits their rectangles, because browsers draw more slowly.
const width, maxRects = 1200., 20000

// rect is a rectangle of a picture, with its tooltip.
type rect struct {
	X, Y, W, H float64
	Color      string
	Text       string // label
	Title      string // tooltip
}

// colorOf returns the color of a name.
func colorOf(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("hsl(%d,55%%,72%%)", h.Sum32()%360)
}

// truncate shortens a label to a width in pixels.
func truncate(s string, w float64) string {
	n := int(w / 7)
	switch r := []rune(s); {
	case n < 3:
		return ""
	case len(r) > n:
		return string(r[:n-1]) + "…"
	}
	return s
}
