package mesh

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh/topology"
)

const (
	boxWidth, boxHeight = 132, 84
	gapColumns, gapRows = 68, 46 // between boxes, for a link with its count
	gapLane             = 16     // for each link that passes by
	margin              = 20
	portSize            = 7
)

// Draw writes a picture of a machine's chips and links as SVG: a grid in which as many links as
// possible join neighbours, coloured by board, with a square for each Ethernet channel. Broken,
// unreadable and harvested parts are marked.
func Draw(w io.Writer, g *topology.Graph) error {
	p := &picture{g: g, b: bufio.NewWriter(w)}
	p.arrange()
	p.route()
	p.draw()
	return p.b.Flush()
}

type picture struct {
	g          *topology.Graph
	b          *bufio.Writer
	rows, cols int
	at         [][2]int
	cables     []*cable
	gapX, gapY int
	boards     []string
}

type cable struct {
	a, b  int
	links []topology.Link
	lane  int // in the gap beside or below a; -1 for a straight line between neighbours
}

// arrange finds the grid. Broken links count too, so a fault moves no chip.
func (p *picture) arrange() {
	n := len(p.g.Chips)
	l := make(links, n)
	for i := range l {
		l[i] = map[int]bool{}
	}
	for _, c := range p.g.Links {
		l[c.A.Chip][c.B.Chip], l[c.B.Chip][c.A.Chip] = true, true
	}
	p.at = make([][2]int, n)
	for rows := int(math.Sqrt(float64(n))); rows >= 1; rows-- {
		if n%rows != 0 {
			continue
		}
		if order, ok := embed(Shape{rows, n / rows}, l, embedSteps); ok {
			p.rows, p.cols = rows, n/rows
			for i, c := range order {
				p.at[c] = [2]int{i / p.cols, i % p.cols}
			}
			return
		}
	}
	p.cols = max(int(math.Sqrt(2*float64(n))), 1)
	p.rows = (n + p.cols - 1) / p.cols
	for i := range p.at {
		p.at[i] = [2]int{i / p.cols, i % p.cols}
	}
}

func (p *picture) route() {
	for i := range p.g.Chips {
		if b := boardOf(&p.g.Chips[i]); !slices.Contains(p.boards, b) {
			p.boards = append(p.boards, b)
		}
	}
	before := func(a, b int) bool {
		return cmp.Or(cmp.Compare(p.at[a][0], p.at[b][0]), cmp.Compare(p.at[a][1], p.at[b][1])) < 0
	}
	by := map[[2]int]*cable{}
	for _, l := range p.g.Links {
		a, b := l.A.Chip, l.B.Chip
		if before(b, a) {
			a, b = b, a
		}
		c := by[[2]int{a, b}]
		if c == nil {
			c = &cable{a: a, b: b, lane: -1}
			by[[2]int{a, b}] = c
			p.cables = append(p.cables, c)
		}
		c.links = append(c.links, l)
	}
	slices.SortFunc(p.cables, func(x, y *cable) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) })
	lanes := map[[2]int]int{} // used in the gap right of a column {0, column} and below a row {1, row}
	most := [2]int{}
	for _, c := range p.cables {
		a, b := p.at[c.a], p.at[c.b]
		gap := [2]int{1, a[0]}
		switch down, right := b[0]-a[0], b[1]-a[1]; {
		case down+max(right, -right) == 1:
			continue
		case right == 0:
			gap = [2]int{0, a[1]}
		}
		c.lane = lanes[gap]
		lanes[gap]++
		most[gap[0]] = max(most[gap[0]], lanes[gap])
	}
	p.gapX, p.gapY = gapColumns+gapLane*most[0], gapRows+gapLane*most[1]
}

// boardOf returns the part of a board's serial number that the other end of a link knows too.
func boardOf(c *topology.Chip) string { return c.Serial[max(len(c.Serial)-8, 0):] }

func (p *picture) corner(i int) (x, y int) {
	return margin + p.at[i][1]*(boxWidth+p.gapX), margin + p.at[i][0]*(boxHeight+p.gapY)
}

func (p *picture) draw() {
	wide := 2*margin + p.cols*(boxWidth+p.gapX)
	top := 2*margin + p.rows*(boxHeight+p.gapY)
	wide = max(wide, 420)
	high := top + 18*(len(p.boards)+2+len(p.g.Degraded())) + margin
	p.printf(
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="11">`+"\n",
		wide, high, wide, high)
	p.printf(`<rect width="%d" height="%d" fill="#fff"/>`+"\n", wide, high)
	for _, c := range p.cables {
		p.cable(c)
	}
	for i := range p.g.Chips {
		p.chip(i)
	}
	p.legend(top)
	p.printf("</svg>\n")
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(p.b, format, args...) }

var (
	stateColors = map[topology.State]string{topology.Up: "#2e7d32", topology.Down: "#c62828", topology.Training: "#ef9a00",
		topology.Unconnected: "#ffffff"}
	boardColors = []string{"#e3f2fd", "#fff3e0", "#ede7f6", "#e8f5e9", "#fce4ec", "#e0f7fa", "#f9fbe7", "#efebe9"}
)

func (p *picture) cable(c *cable) {
	up, state := 0, topology.Up
	title := []string{}
	for _, l := range c.links {
		if l.State == topology.Up {
			up++
		} else if state == topology.Up || l.State == topology.Down {
			state = l.State
		}
		title = append(title, fmt.Sprintf("%d eth%d - %d eth%d: %v", l.A.Chip, l.A.Channel, l.B.Chip, l.B.Channel, l.State))
	}
	label := fmt.Sprint(up)
	if up < len(c.links) {
		label = fmt.Sprintf("%d of %d", up, len(c.links))
	}
	ax, ay := p.corner(c.a)
	bx, by := p.corner(c.b)
	var path string
	var x, y int
	switch down, right := p.at[c.b][0]-p.at[c.a][0], p.at[c.b][1]-p.at[c.a][1]; {
	case c.lane < 0 && down == 0:
		path, x, y = fmt.Sprintf("M%d,%d H%d", ax+boxWidth, ay+boxHeight/2, bx), bx-gapColumns/2, ay+boxHeight/2
	case c.lane < 0:
		path, x, y = fmt.Sprintf("M%d,%d V%d", ax+boxWidth/2, ay+boxHeight, by), ax+boxWidth/2, by-gapRows/2
	case right == 0:
		from, to := ay+boxHeight*3/4, by+boxHeight/4
		x, y = ax+boxWidth+10+gapLane*c.lane, ay+boxHeight+p.gapY-gapRows/2
		if c.a == c.b {
			from, to = ay+boxHeight/4, ay+boxHeight*3/4
			y = to
		}
		path = fmt.Sprintf("M%d,%d H%d V%d H%d", ax+boxWidth, from, x, to, bx+boxWidth)
	default:
		y = ay + boxHeight + 10 + gapLane*c.lane
		from, to, end := ax+boxWidth*3/4, bx+boxWidth/4, by
		if down == 0 {
			end = by + boxHeight
		}
		path, x = fmt.Sprintf("M%d,%d V%d H%d V%d", from, ay+boxHeight, y, to, end), from+22
	}
	dash := ""
	if state != topology.Up {
		dash = ` stroke-dasharray="6 4"`
	}
	p.printf(`<g class="link"><title>%s</title><path d="%s" fill="none" stroke="%s" stroke-width="%.1f"%s/>`,
		html.EscapeString(strings.Join(title, "\n")), path, stateColors[state], 1+float64(min(len(c.links), 8))*0.5, dash)
	half := len(label)*3 + 4
	p.printf(
		`<rect x="%d" y="%d" width="%d" height="14" rx="3" fill="#fff"/><text class="count" x="%d" y="%d" text-anchor="middle" fill="%s">%s</text></g>`+"\n",
		x-half, y-7, 2*half, x, y+4, stateColors[state], label)
}

func (p *picture) chip(i int) {
	c := &p.g.Chips[i]
	x, y := p.corner(i)
	stroke, problem := "#7a8699", ""
	if c.Problem != nil {
		stroke, problem = "#c62828", "can't be read"
	}
	title := []string{c.Name, "board " + c.Serial, "chip " + c.ASIC}
	if c.Problem != nil {
		title = append(title, c.Problem.Error())
	}
	p.printf(`<g class="chip"><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="5" fill="%s" stroke="%s"/>`,
		html.EscapeString(strings.Join(title, "\n")),
		x, y, boxWidth, boxHeight, boardColors[slices.Index(p.boards, boardOf(c))%len(boardColors)], stroke)
	p.printf(
		`<text x="%d" y="%d" font-size="15" font-weight="bold">%d</text><text x="%d" y="%d" text-anchor="end" fill="#c62828">%s</text>`,
		x+8, y+20, i, x+boxWidth-8, y+20, problem)
	up := 0
	for _, q := range c.Ports {
		if q.State == topology.Up {
			up++
		}
	}
	p.printf(`<text x="%d" y="%d">%s</text><text x="%d" y="%d" fill="#4b5565">%d of %d channels up</text>`, x+8, y+38,
		html.EscapeString(c.Name), x+8, y+54, up, len(c.Ports))
	for k, q := range c.Ports {
		p.printf(
			`<rect class="port" x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#4b5565" stroke-width=".5"><title>eth%d %v</title></rect>`,
			x+8+k*portSize, y+boxHeight-18, portSize-2, portSize+2, stateColors[q.State], q.Channel, q.State)
	}
	for k := len(c.Ports); c.Problem == nil && k < ethernetTiles(p.g.Arch); k++ {
		left, low := x+8+k*portSize, y+boxHeight-18
		p.printf(`<path class="harvested" d="%s" stroke="#98a2b3"><title>harvested</title></path>`, cross(left, low))
	}
	p.printf("</g>\n")
}

func ethernetTiles(a chip.Arch) int {
	t, err := chip.New(a, chip.Harvesting{})
	if err != nil {
		return 0
	}
	return len(slices.Collect(t.Tiles(chip.Ethernet)))
}

func cross(x, y int) string {
	return fmt.Sprintf("M%d,%d l%d,%d m0,%d l%d,%d", x, y, portSize-2, portSize+2, -portSize-2, 2-portSize, portSize+2)
}

func (p *picture) legend(y int) {
	for i, b := range p.boards {
		var chips []string
		serial := b
		for k := range p.g.Chips {
			if c := &p.g.Chips[k]; boardOf(c) == b {
				chips = append(chips, fmt.Sprint(k))
				if len(c.Serial) > len(serial) {
					serial = c.Serial
				}
			}
		}
		p.printf(
			`<rect x="%d" y="%d" width="12" height="12" fill="%s" stroke="#7a8699"/><text x="%d" y="%d">board %s: %s</text>`+"\n",
			margin, y-10, boardColors[i%len(boardColors)], margin+18, y, cmp.Or(html.EscapeString(serial), "unknown"),
			strings.Join(chips, ", "))
		y += 18
	}
	x := margin
	for _, s := range []topology.State{topology.Up, topology.Training, topology.Down, topology.Unconnected} {
		p.printf(
			`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#4b5565" stroke-width=".5"/><text x="%d" y="%d">%v</text>`+"\n",
			x, y-9, portSize, portSize+2, stateColors[s], x+12, y, s)
		x += 30 + 6*len(s.String())
	}
	p.printf(`<path d="%s" stroke="#98a2b3"/><text x="%d" y="%d">harvested</text>`+"\n", cross(x, y-9), x+12, y)
	for _, d := range p.g.Degraded() {
		y += 18
		p.printf(`<text x="%d" y="%d" fill="#c62828">%s</text>`+"\n", margin, y, html.EscapeString(d))
	}
}
