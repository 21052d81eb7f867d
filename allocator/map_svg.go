package allocator

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
)

// Measures of the picture, in pixels.
const (
	svgWidth  = 1000 // of a region's bar
	svgBar    = 40
	svgText   = 16
	svgMargin = 10
)

// WriteSVG writes the map as a picture: a bar for each region, whose ranges say what they are when
// pointed at. Ranges too narrow to be seen are drawn together.
func (m *Map) WriteSVG(w io.Writer) error {
	b := bufio.NewWriter(w)
	height := svgMargin
	for i := range m.Regions {
		height += len(m.Regions[i].Stats)*svgText + svgBar + 2*svgMargin
	}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="12">`+"\n",
		svgWidth+2*svgMargin, height)
	y := svgMargin
	for i := range m.Regions {
		r := &m.Regions[i]
		for _, s := range r.Stats {
			y += svgText
			fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", svgMargin, y-4, escape(s.String()))
		}
		r.draw(b, y)
		y += svgBar + 2*svgMargin
	}
	b.WriteString("</svg>\n")
	return b.Flush()
}

// draw writes a region's bar.
func (r *RegionMap) draw(b *bufio.Writer, y int) {
	if len(r.Entries) == 0 {
		return
	}
	low := r.Entries[0].Start
	scale := svgWidth / float64(r.Entries[len(r.Entries)-1].End-low)
	at := func(addr uint64) float64 { return svgMargin + float64(addr-low)*scale }
	for i := 0; i < len(r.Entries); {
		e := r.Entries[i]
		n := 1 // entries that are drawn as one
		for i+n < len(r.Entries) && at(e.End)-at(e.Start) < 1 && at(r.Entries[i+n].End)-at(e.Start) < 2 {
			e.End = r.Entries[i+n].End
			n++
		}
		title, color := e.what(), "#e8e8e8"
		if n > 1 {
			title = fmt.Sprintf("%d ranges", n)
		}
		if n > 1 || !e.Free {
			color = hue(r.Entries[i].Owner)
		}
		fmt.Fprintf(b, `<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"><title>[%#x,%#x) %s: %s</title></rect>`+"\n",
			at(e.Start), y, max(at(e.End)-at(e.Start), 0.5), svgBar, color, e.Start, e.End, humanize.IBytes(e.Bytes()), escape(title))
		i += n
	}
}

// hue returns a color that is always the same for an owner.
func hue(owner string) string {
	h := uint32(2166136261)
	for _, c := range []byte(owner) {
		h = (h ^ uint32(c)) * 16777619
	}
	return fmt.Sprintf("hsl(%d,60%%,%d%%)", h%360, 45+h>>9%20)
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}
