package cards

import (
	"fmt"
	"math"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
)

// monitorView is the live view: bars of the memory of each device and of each of its processes.
type monitorView struct {
	poll     func() (*MonitorReport, error)
	interval time.Duration

	report        *MonitorReport // nil before the first poll
	err           error          // why it ended
	width, height int
	top           int // first line that is shown
	polls         int // so far; ticks of earlier ones are ignored
}

// Messages: the outcome of a poll, and that the next one is due.
type (
	polled struct {
		report *MonitorReport
		err    error
	}
	due int
)

func newMonitorView(poll func() (*MonitorReport, error), interval time.Duration) *monitorView {
	return &monitorView{poll: poll, interval: interval, width: 80, height: 24}
}

func (v *monitorView) Init() tea.Cmd { return v.read }

func (v *monitorView) read() tea.Msg {
	r, err := v.poll()
	return polled{r, err}
}

func (v *monitorView) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case polled:
		if m.err != nil {
			v.err = m.err
			return v, tea.Quit
		}
		v.report = m.report
		v.scroll(0)
		v.polls++
		n := due(v.polls)
		return v, tea.Tick(v.interval, func(time.Time) tea.Msg { return n })
	case due:
		if int(m) == v.polls {
			return v, v.read
		}
	case tea.WindowSizeMsg:
		v.width, v.height = m.Width, m.Height
		v.scroll(0)
	case tea.KeyPressMsg:
		return v, v.key(m.String())
	}
	return v, nil
}

func (v *monitorView) key(name string) tea.Cmd {
	switch name {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "space", "r":
		v.polls++ // the tick that is under way must not start a second chain
		return v.read
	case "up", "k":
		v.scroll(-1)
	case "down", "j":
		v.scroll(1)
	case "pgup":
		v.scroll(-v.page())
	case "pgdown":
		v.scroll(v.page())
	case "home":
		v.scroll(-v.top)
	case "end":
		v.scroll(math.MaxInt32)
	}
	return nil
}

// page is the number of lines above the status line.
func (v *monitorView) page() int { return max(1, v.height-2) }

func (v *monitorView) scroll(by int) {
	v.top = max(0, min(v.top+by, len(v.lines())-v.page()))
}

func (v *monitorView) View() tea.View {
	lines := v.lines()
	shown := lines[min(v.top, len(lines)):]
	shown = shown[:min(len(shown), v.page())]
	var b strings.Builder
	for _, l := range shown {
		b.WriteString(l + "\n")
	}
	b.WriteString(strings.Repeat("\n", v.page()-len(shown)+1) + v.status(len(lines)))
	out := tea.NewView(b.String())
	out.AltScreen = true
	out.WindowTitle = "reprise monitor"
	return out
}

func (v *monitorView) status(lines int) string {
	s := "q quit  space now"
	if lines > v.page() {
		s += "  arrows scroll"
	}
	if v.report == nil {
		return s
	}
	n := 0
	v.report.each(func(*monitorDevice, *monitorProcess) { n++ })
	return fmt.Sprintf("%s   %s, %s, %s", s, cli.Count(len(v.report.Devices), "device"), cli.Count(n, "log"), v.report.Time.Format(time.TimeOnly))
}

// lines are the lines of the report, cut at the terminal's width.
func (v *monitorView) lines() []string {
	switch {
	case v.report == nil:
		return nil
	case len(v.report.Devices) == 0 && len(v.report.Problems) == 0:
		return []string{noDevices}
	}
	var out []string
	for i := range v.report.Devices {
		d := &v.report.Devices[i]
		if i > 0 {
			out = append(out, "")
		}
		out = append(out, "\x1b[1m"+cut(d.title(), v.width)+"\x1b[m")
		long := max(10, min(50, v.width-60))
		for _, m := range d.Memory {
			if len(d.Processes) == 1 {
				break // its numbers are the same
			}
			if m.Capacity != 0 || m.Allocated != 0 {
				out = append(out, v.bar(fmt.Sprintf("  %-9s", m.Kind), m.Allocated, m.Capacity, long,
					fmt.Sprintf("%s of %s", humanize.IBytes(m.Allocated), humanize.IBytes(m.Capacity))))
			}
		}
		for j := range d.Processes {
			p := &d.Processes[j]
			open := v.report.Time.Sub(p.Opened).Truncate(time.Second)
			out = append(out, cut(fmt.Sprintf("    %s %s, %s, open for %v", p.id(), cli.Dash(p.Command), p.User, max(0, open)), v.width))
			for _, m := range p.Memory {
				if m.Allocated != 0 || m.Peak != 0 {
					out = append(out, v.bar(fmt.Sprintf("      %-9s", m.Kind), m.Allocated, m.Capacity, long, fmt.Sprintf("%s, peak %s, %s",
						humanize.IBytes(m.Allocated), humanize.IBytes(m.Peak), cli.Count(int(min(m.Extents, math.MaxInt32)), "extent"))))
				}
			}
		}
	}
	for _, p := range v.report.Problems {
		out = append(out, cut("unreadable: "+p, v.width))
	}
	return out
}

// title names a device and what else identifies it.
func (d *monitorDevice) title() string {
	s := d.label()
	if s != d.Name {
		s += "  " + d.Name
	}
	if d.Arch != "" && !d.Emulated { // an emulator's name says it
		s += "  " + d.Arch
	}
	if d.Serial != "" {
		s += "  board " + d.Serial
	}
	if d.NUMANode != nil {
		s += fmt.Sprintf("  node %d", *d.NUMANode)
	}
	return s
}

// bar is a line with a bar, whose colour gets warmer as memory gets short.
func (v *monitorView) bar(name string, used, capacity uint64, long int, numbers string) string {
	s := share(used, capacity)
	full := int(math.Round(s * float64(long)))
	if full == 0 && used > 0 {
		full = 1 // little is not nothing
	}
	colour := "32"
	switch {
	case s >= 0.9:
		colour = "31"
	case s >= 0.75:
		colour = "33"
	}
	rest := cut(fmt.Sprintf(" %5.1f %%  %s", 100*s, numbers), max(0, v.width-len(name)-long))
	return name + "\x1b[" + colour + "m" + strings.Repeat("█", full) + "\x1b[2;39m" + strings.Repeat("░", long-full) + "\x1b[m" + rest
}

// cut shortens a text to a number of characters.
func cut(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(0, width)])
	}
	return s
}
