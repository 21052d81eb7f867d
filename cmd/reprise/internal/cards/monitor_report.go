package cards

import (
	"cmp"
	"fmt"
	"math"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/usage"
)

// MonitorReport holds the logs' contents by device.
type MonitorReport struct {
	Time     time.Time       `json:"time"`
	Devices  []monitorDevice `json:"devices"`
	Dead     int             `json:"dead_logs"` // of other users' dead processes
	Problems []string        `json:"problems"`
}

type monitorDevice struct {
	Name      string           `json:"name"`
	PCI       string           `json:"pci,omitempty"`
	Serial    string           `json:"serial,omitempty"`
	Arch      string           `json:"arch,omitempty"`
	NUMANode  *int             `json:"numa_node,omitempty"`
	Emulated  bool             `json:"emulated"`
	Memory    []monitorTotal   `json:"memory"`
	Processes []monitorProcess `json:"processes"`
}

// monitorTotal is the memory of one kind that a device's processes have together.
type monitorTotal struct {
	Kind      string `json:"kind"`
	Capacity  uint64 `json:"capacity"`
	Allocated uint64 `json:"allocated"`
}

type monitorProcess struct {
	PID     int             `json:"pid"`
	Foreign bool            `json:"foreign_pid,omitempty"` // the id is one inside another container
	UID     int             `json:"uid"`
	User    string          `json:"user"`
	Command string          `json:"command"`
	Opened  time.Time       `json:"opened"`
	Log     string          `json:"log"`
	Memory  []monitorMemory `json:"memory"`
}

type monitorMemory struct {
	Kind      string `json:"kind"`
	Capacity  uint64 `json:"capacity"`
	Allocated uint64 `json:"allocated"`
	Peak      uint64 `json:"peak"`
	Extents   uint64 `json:"extents"`
	Updates   uint64 `json:"updates"`
	Torn      bool   `json:"torn,omitempty"`
}

// label is the device's name: of a card its PCI address, which is the same in all processes.
func (d *monitorDevice) label() string {
	if d.Emulated {
		return d.Name
	}
	return cmp.Or(d.PCI, d.Name)
}

// newMonitorReport merges the logs of a card. An emulated device belongs to one process.
func newMonitorReport(s *usage.Snapshot) *MonitorReport {
	r := &MonitorReport{Time: s.Time, Dead: s.Dead, Devices: []monitorDevice{}, Problems: []string{}}
	for _, p := range s.Problems {
		r.Problems = append(r.Problems, p.Error())
	}
	cards := map[string]int{} // index in r.Devices by PCI address
	names := map[int]string{}
	for _, e := range s.Entries {
		d := e.Device
		i, ok := cards[d.PCI]
		if !ok || d.Emulated || d.PCI == "" {
			i = len(r.Devices)
			r.Devices = append(r.Devices, monitorDevice{Name: d.Name, PCI: d.PCI, Serial: d.Serial, Arch: d.Arch, Emulated: d.Emulated,
				Memory: []monitorTotal{}})
			if d.NUMANode >= 0 {
				r.Devices[i].NUMANode = &d.NUMANode
			}
			if !d.Emulated {
				cards[d.PCI] = i
			}
		}
		name, ok := names[e.UID]
		if !ok {
			name = userName(e.UID)
			names[e.UID] = name
		}
		r.Devices[i].add(&e, name)
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

// add adds a process. Sums saturate, because a log may claim any numbers.
func (d *monitorDevice) add(e *usage.Entry, user string) {
	p := monitorProcess{PID: e.PID, Foreign: e.Foreign, UID: e.UID, User: user, Command: e.Command, Opened: e.Opened, Log: e.Path,
		Memory: []monitorMemory{}}
	for _, m := range e.Memory {
		kind := m.Kind.String()
		p.Memory = append(p.Memory, monitorMemory{kind, m.Capacity, m.Allocated, m.Peak, m.Extents, m.Updates, m.Torn})
		i := slices.IndexFunc(d.Memory, func(t monitorTotal) bool { return t.Kind == kind })
		if i < 0 {
			i = len(d.Memory)
			d.Memory = append(d.Memory, monitorTotal{Kind: kind})
		}
		t := &d.Memory[i]
		t.Capacity = max(t.Capacity, m.Capacity)
		if m.Allocated > math.MaxUint64-t.Allocated {
			t.Allocated = math.MaxUint64
		} else {
			t.Allocated += m.Allocated
		}
	}
	d.Processes = append(d.Processes, p)
}

func (p *monitorProcess) id() string {
	if p.Foreign {
		return fmt.Sprintf("%d (container)", p.PID)
	}
	return strconv.Itoa(p.PID)
}

// share is how much of something is used, from 0 to 1.
func share(used, capacity uint64) float64 {
	if capacity == 0 {
		return 0
	}
	return min(1, float64(used)/float64(capacity))
}

// print writes a table with a line for each process and kind of memory.
func (r *MonitorReport) print(w cli.Text) {
	if len(r.Devices) == 0 {
		w.F("%s\n", noDevices)
	} else {
		t := w.Table(0)
		t.Row("DEVICE", "PID", "COMMAND", "USER", "KIND", "ALLOCATED", "CAPACITY", "USE", "PEAK", "EXTENTS")
		r.each(func(d *monitorDevice, p *monitorProcess) {
			for _, m := range p.Memory {
				if m.Capacity == 0 && m.Allocated == 0 {
					continue // the device was opened without it
				}
				t.Row(d.label(), p.id(), cli.Dash(p.Command), p.User, m.Kind, humanize.IBytes(m.Allocated), humanize.IBytes(m.Capacity),
					fmt.Sprintf("%.1f %%", 100*share(m.Allocated, m.Capacity)), humanize.IBytes(m.Peak), m.Extents)
			}
		})
		t.Flush()
	}
	for _, p := range r.Problems {
		w.F("unreadable: %s\n", p)
	}
}

const noDevices = "No process of this machine has a device open with this runtime."
