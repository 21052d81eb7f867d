package cards

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"net/http"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/promtext"
	"github.com/reprise-tt/reprise/internal/usage"
)

// MonitorCmd shows which processes use how much device memory, and how busy their devices are.
type MonitorCmd struct {
	Interval time.Duration `default:"1s" placeholder:"DURATION"`
	Once     bool          `xor:"how"`
	JSON     bool          `name:"json" xor:"json"`
	Listen   string        `placeholder:"ADDRESS" xor:"how,json"`
	Dir      string        `default:"${usage_dir}" placeholder:"DIR"`
}

// Validate checks the flags.
func (c *MonitorCmd) Validate() error {
	const shortest = 50 * time.Millisecond
	if c.Interval < shortest {
		return cli.Wrong("--interval", c.Interval, "that is too often", fmt.Sprintf("give at least %v", shortest))
	}
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return cli.Wrong("--listen", c.Listen, "it is no address", "give HOST:PORT, or :PORT for all addresses of this machine").By(err)
		}
	}
	return nil
}

func (c *MonitorCmd) poll() (*MonitorReport, error) {
	_, _ = usage.Sweep(c.Dir) // what can't be deleted is left out anyway
	_ = usage.Watch(c.Dir)    // otherwise there is no activity
	s, err := usage.Read(c.Dir)
	if err != nil {
		return nil, err
	}
	return newMonitorReport(s), nil
}

// look returns a poll that compares with earlier ones, for the newest samples.
func (c *MonitorCmd) look() func() (*MonitorReport, error) {
	var mu sync.Mutex
	seen := map[string]monitorActivity{} // by log
	return func() (*MonitorReport, error) {
		r, err := c.poll()
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, p := range r.processes() {
			a := cmp.Or(p.Activity, &monitorActivity{})
			if old, ok := seen[p.Path]; ok {
				if a.Samples < old.Samples+5 {
					a.Recent = old.Recent
					continue
				}
				a.Recent = new(share(a.Busy-old.Busy, (a.Samples-old.Samples)*a.Workers))
			}
			seen[p.Path] = *a
		}
		return r, nil
	}
}

// Run polls once, serves, or polls until it is interrupted.
func (c *MonitorCmd) Run(ctx context.Context, s cli.Streams) error {
	look := c.look()
	switch {
	case c.Listen != "":
		return cli.Serve(ctx, "monitor", c.Listen, metricsHandler(c.poll), s.Err, "/metrics")
	case c.Once || c.JSON:
		r, err := look()
		if err == nil && len(r.Devices) > 0 {
			select { // processes look for watchers once a second
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * time.Second / 2):
			}
			r, err = look()
		}
		if err != nil {
			return err
		}
		return s.Print(c.JSON, r, r.print)
	case cli.IsTerminal(s.Out):
		p := tea.NewProgram(newMonitorView(look, c.Interval), tea.WithContext(ctx), tea.WithOutput(s.Out), tea.WithoutSignalHandler())
		m, err := p.Run()
		if err != nil {
			return err
		}
		return m.(*monitorView).err
	}
	return c.follow(ctx, s.Out, look)
}

func (c *MonitorCmd) follow(ctx context.Context, w io.Writer, look func() (*MonitorReport, error)) error {
	t := time.NewTicker(c.Interval)
	defer t.Stop()
	for {
		r, err := look()
		if err != nil {
			return err
		}
		if err := cli.Print(w, func(t cli.Text) {
			t.F("%s\n", r.Time.Format(time.RFC3339))
			r.print(t)
		}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// MonitorReport holds the logs' contents by device.
type MonitorReport struct {
	Time     time.Time       `json:"time"`
	Devices  []monitorDevice `json:"devices"`
	Dead     int             `json:"dead_logs"` // of other users' dead processes
	Problems []string        `json:"problems"`
}

type monitorDevice struct {
	usage.Device
	NUMANode  *int             `json:"numa_node,omitempty"` // nil if unknown
	Memory    []monitorTotal   `json:"memory"`
	Processes []monitorProcess `json:"processes"`
}

type monitorTotal struct {
	Kind      string `json:"kind"`
	Capacity  uint64 `json:"capacity"`
	Allocated uint64 `json:"allocated"`
}

type monitorProcess struct {
	usage.Entry
	User     string           `json:"user"`
	Activity *monitorActivity `json:"activity,omitempty"` // absent until sampled
}

type monitorActivity struct {
	usage.Activity
	Recent *float64 `json:"recent,omitempty"` // share of busy workers between two looks
}

// label is the same in all processes.
func (d *monitorDevice) label() string {
	if d.Emulated {
		return d.Name
	}
	return cmp.Or(d.PCI, d.Name)
}

// newMonitorReport merges the logs of a card.
func newMonitorReport(s *usage.Snapshot) *MonitorReport {
	r := &MonitorReport{Time: s.Time, Dead: s.Dead, Devices: []monitorDevice{}, Problems: cli.Map(s.Problems, error.Error)}
	cards := map[string]int{} // index in r.Devices by PCI address
	for _, e := range s.Entries {
		d := e.Device
		i, ok := cards[d.PCI]
		if !ok || d.Emulated || d.PCI == "" {
			i = len(r.Devices)
			r.Devices = append(r.Devices, monitorDevice{Device: d, Memory: []monitorTotal{}})
			if d.NUMANode >= 0 {
				r.Devices[i].NUMANode = &d.NUMANode
			}
			if !d.Emulated {
				cards[d.PCI] = i
			}
		}
		r.Devices[i].add(&e)
	}
	slices.SortStableFunc(r.Devices, func(a, b monitorDevice) int {
		if a.Emulated != b.Emulated {
			return map[bool]int{true: 1, false: -1}[a.Emulated] // cards first
		}
		return cmp.Compare(a.label(), b.label())
	})
	return r
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

func (d *monitorDevice) add(e *usage.Entry) {
	p := monitorProcess{Entry: *e, User: userName(e.UID)}
	p.Memory = append([]usage.Record{}, e.Memory...) // in JSON a list, not null
	if e.Activity.Samples > 0 {
		p.Activity = &monitorActivity{Activity: e.Activity}
	}
	for _, m := range e.Memory {
		kind := m.Kind.Code()
		i := slices.IndexFunc(d.Memory, func(t monitorTotal) bool { return t.Kind == kind })
		if i < 0 {
			i = len(d.Memory)
			d.Memory = append(d.Memory, monitorTotal{Kind: kind})
		}
		t := &d.Memory[i]
		t.Capacity = max(t.Capacity, m.Capacity)
		t.Allocated += min(m.Allocated, math.MaxUint64-t.Allocated)
	}
	d.Processes = append(d.Processes, p)
}

func (p *monitorProcess) labels(d *monitorDevice, more ...string) []string {
	return slices.Concat([]string{"device", d.label()}, more, []string{"pid", strconv.Itoa(p.PID), "command", p.Command, "log",
		filepath.Base(p.Path)})
}

func (p *monitorProcess) id() string {
	if p.Foreign {
		return fmt.Sprintf("%d (container)", p.PID)
	}
	return strconv.Itoa(p.PID)
}

func share(used, capacity uint64) float64 {
	if capacity == 0 {
		return 0
	}
	return min(1, float64(used)/float64(capacity))
}

func (r *MonitorReport) print(w cli.Text) {
	if len(r.Devices) == 0 {
		w.F("%s\n", noDevices)
	} else {
		t := w.Table()
		t.Row("DEVICE", "PID", "COMMAND", "USER", "KIND", "ALLOCATED", "CAPACITY", "USE", "PEAK", "EXTENTS")
		for d, p := range r.processes() {
			for _, m := range p.Memory {
				if m.Capacity == 0 && m.Allocated == 0 {
					continue // the device was opened without it
				}
				t.Row(d.label(), p.id(), cli.Dash(p.Command), p.User, m.Kind.Code(), humanize.IBytes(m.Allocated),
					humanize.IBytes(m.Capacity), percent(share(m.Allocated, m.Capacity)), humanize.IBytes(m.Peak), m.Extents)
			}
		}
		t.Flush()
		r.printActivity(w)
	}
	for _, p := range r.Problems {
		w.F("unreadable: %s\n", p)
	}
}

func (r *MonitorReport) printActivity(w cli.Text) {
	t := w.Table()
	head := false
	for d, p := range r.processes() {
		if p.Activity == nil {
			continue
		}
		if !head {
			w.F("\n")
			t.Row("DEVICE", "PID", "WORKERS", "BUSY NOW", "BUSY", "KERNELS", "QUEUE", "PREFETCHER IDLE", "BLOCKED",
				"DISPATCHER IDLE", "BLOCKED")
			head = true
		}
		a, recent := p.Activity, "-"
		if a.Recent != nil {
			recent = percent(*a.Recent)
		}
		row := []any{d.label(), p.id(), a.Workers, recent, percent(share(a.Busy, a.Samples*a.Workers)), a.Kernels}
		for i, q := range p.Queues {
			t.Row(append(row, i, percent(share(q.FetchIdle, q.Samples)), percent(share(q.FetchBlocked, q.Samples)),
				percent(share(q.DispatchIdle, q.Samples)), percent(share(q.DispatchBlocked, q.Samples)))...)
			row = []any{"", "", "", "", "", ""}
		}
		if len(p.Queues) == 0 {
			t.Row(append(row, "-", "-", "-", "-", "-")...)
		}
	}
	t.Flush()
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

const noDevices = "No process of this machine has a device open with this runtime."

type monitorView struct {
	poll     func() (*MonitorReport, error)
	interval time.Duration

	report        *MonitorReport
	err           error
	width, height int
	top           int
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
	}
	v.scroll(map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -v.page(), "pgdown": v.page(), "home": -v.top,
		"end": math.MaxInt32}[name])
	return nil
}

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
	for range v.report.processes() {
		n++
	}
	return fmt.Sprintf("%s   %s, %s, %s", s, cli.Count(len(v.report.Devices), "device"), cli.Count(n, "log"),
		v.report.Time.Format(time.TimeOnly))
}

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
				break
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
			if a := p.Activity; a != nil && a.Recent != nil {
				out = append(out, v.bar("      workers  ", uint64(1000**a.Recent), 1000, long,
					fmt.Sprintf("busy, %s since they started", cli.Count(int(a.Kernels), "kernel"))))
			}
			for _, m := range p.Memory {
				if m.Allocated != 0 || m.Peak != 0 {
					out = append(out, v.bar(fmt.Sprintf("      %-9s", m.Kind.Code()), m.Allocated, m.Capacity, long,
						fmt.Sprintf("%s, peak %s, %s", humanize.IBytes(m.Allocated), humanize.IBytes(m.Peak),
							cli.Count(int(min(m.Extents, math.MaxInt32)), "extent"))))
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
	if d.Arch != "" && !d.Emulated {
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
		full = 1
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

func cut(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(0, width)])
	}
	return s
}

// metricsHandler serves /metrics and polls for each scrape.
func metricsHandler(poll func() (*MonitorReport, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		r, err := poll()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", promtext.ContentType)
		_, _ = r.metrics().WriteTo(w) // the client has disconnected
	})
	return mux
}

// metrics has a log's file name to distinguish devices that one process has open.
func (r *MonitorReport) metrics() *promtext.Writer {
	w := new(promtext.Writer)
	for i, x := range []struct{ name, kind, help string }{
		{"allocated_bytes", promtext.Gauge, "Device memory that is allocated, over all banks."},
		{"capacity_bytes", promtext.Gauge,
			"Device memory that could be allocated, over all banks. DRAM and TRACE share it where traces have no region of their own."},
		{"peak_bytes", promtext.Gauge, "The most device memory that was ever allocated at once."},
		{"extents", promtext.Gauge, "Live buffers, kernels and traces."},
		{"updates_total", promtext.Counter, "Changes of the memory in use."},
	} {
		w.Family("reprise_memory_"+x.name, x.kind, x.help)
		for d, p := range r.processes() {
			for _, m := range p.Memory {
				values := [...]uint64{m.Allocated, m.Capacity, m.Peak, m.Extents, m.Updates}
				w.Uint(values[i], p.labels(d, "kind", m.Kind.Code())...)
			}
		}
	}
	r.activityMetrics(w)
	w.Family("reprise_process_info", promtext.Gauge, "A device that a process has open.")
	live := uint64(0)
	for d, p := range r.processes() {
		live++
		node := ""
		if d.NUMANode != nil {
			node = strconv.Itoa(*d.NUMANode)
		}
		w.Uint(1, p.labels(d, "name", d.Name, "serial", d.Serial, "arch", d.Arch, "numa_node", node, "emulated",
			strconv.FormatBool(d.Emulated), "uid", strconv.Itoa(p.UID))...)
	}
	w.Family("reprise_process_open_time_seconds", promtext.Gauge, "When the process opened the device, in seconds since 1970.")
	for d, p := range r.processes() {
		w.Float(float64(p.Opened.UnixMilli())/1e3, p.labels(d)...)
	}
	w.Family("reprise_logs", promtext.Gauge, "Logs by state: live, dead (of a process that is gone and another user's) or unreadable.")
	w.Uint(live, "state", "live")
	w.Uint(uint64(r.Dead), "state", "dead")
	w.Uint(uint64(len(r.Problems)), "state", "unreadable")
	return w
}

// activityMetrics has samples as counters, so that rates of both give shares.
func (r *MonitorReport) activityMetrics(w *promtext.Writer) {
	for i, x := range []struct{ name, help string }{
		{"worker_samples_total", "Looks at workers: samples by workers."},
		{"worker_busy_samples_total", "Looks at workers that ran a kernel."},
		{"kernels_total", "Kernels that the workers have run, modulo 2^32."},
	} {
		w.Family("reprise_"+x.name, promtext.Counter, x.help)
		for d, p := range r.processes() {
			if a := p.Activity; a != nil {
				w.Uint([...]uint64{a.Samples * a.Workers, a.Busy, a.Kernels}[i], p.labels(d)...)
			}
		}
	}
	w.Family("reprise_queue_samples_total", promtext.Counter,
		"Looks at a command queue's core, by its state: idle (it waits for commands), blocked or working.")
	for d, p := range r.processes() {
		for i, q := range p.Queues {
			put := func(core string, idle, blocked uint64) {
				works := q.Samples - min(q.Samples, idle+blocked)
				for k, n := range []uint64{idle, blocked, works} {
					w.Uint(n, p.labels(d, "queue", strconv.Itoa(i), "core", core, "state", []string{"idle", "blocked", "working"}[k])...)
				}
			}
			put("prefetcher", q.FetchIdle, q.FetchBlocked)
			put("dispatcher", q.DispatchIdle, q.DispatchBlocked)
		}
	}
}

func (r *MonitorReport) processes() iter.Seq2[*monitorDevice, *monitorProcess] {
	return func(yield func(*monitorDevice, *monitorProcess) bool) {
		for i := range r.Devices {
			for j := range r.Devices[i].Processes {
				if !yield(&r.Devices[i], &r.Devices[i].Processes[j]) {
					return
				}
			}
		}
	}
}
