package probe

import (
	"errors"
	"fmt"
)

// Feature is a kernel feature that may be missing or forbidden.
type Feature string

// Features.
const (
	// BPF is loading programs: Linux 5.8 with CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN.
	BPF Feature = "eBPF"
	// RawTracepoints is attaching to tracepoints without tracefs.
	RawTracepoints Feature = "raw tracepoints"
	// BTF is the kernel's description of its own types.
	BTF Feature = "BTF"
	// Fentry is attaching to kernel functions with a jump; it needs BTF.
	Fentry Feature = "fentry"
	// Tracefs is the mounted file system of tracepoints.
	Tracefs Feature = "tracefs"
	// Kprobes is attaching to kernel functions with a trap.
	Kprobes Feature = "kprobes"
	// Uprobes is attaching to a program's functions with a trap.
	Uprobes Feature = "uprobes"
	// Counters is the processor's count of instructions.
	Counters Feature = "hardware counters"
)

// Machine says which features are available.
type Machine interface {
	// Missing returns nil for an available feature, and otherwise an error that says what is
	// missing and how to get it.
	Missing(Feature) error
}

// Kind is something to measure.
type Kind string

// Kinds.
const (
	Calls     Kind = "system calls"
	Scheduler Kind = "scheduler"
	Faults    Kind = "page faults"
	Functions Kind = "functions of the kernel"
	Marks     Kind = "markers"
)

// Way is how something is measured.
type Way string

// Ways, the most detailed first.
const (
	ByRawTracepoint Way = "raw tracepoints"
	ByTracepoint    Way = "tracepoints" // through tracefs
	ByFentry        Way = "fentry"
	ByKprobe        Way = "kprobes"
	ByUprobe        Way = "uprobes"
)

// way is one way to measure a kind, and what it needs.
type way struct {
	way   Way
	needs []Feature
	lacks string // what this way can't measure
}

var ways = map[Kind][]way{
	Calls: {{ByRawTracepoint, []Feature{BPF, RawTracepoints}, ""}},
	Scheduler: {
		{ByRawTracepoint, []Feature{BPF, RawTracepoints, BTF}, ""}, // BTF locates fields of struct task_struct
		{ByTracepoint, []Feature{BPF, Tracefs}, ""},
	},
	Faults: {
		{ByFentry, []Feature{BPF, BTF, Fentry}, ""},
		{ByRawTracepoint, []Feature{BPF, RawTracepoints}, "only their number"},
	},
	Functions: {
		{ByFentry, []Feature{BPF, BTF, Fentry}, ""},
		{ByKprobe, []Feature{BPF, Kprobes}, ""},
	},
	Marks: {{ByUprobe, []Feature{BPF, Uprobes}, ""}},
}

// Choice says how a kind can be measured, or why not.
type Choice struct {
	Kind Kind
	// Ways are the available ways, the most detailed first.
	Ways []Way
	// Err joins the reasons why better ways than the first of Ways are unavailable.
	Err error
}

// Choose returns the available ways of each kind.
func Choose(m Machine, kinds ...Kind) []Choice {
	out := make([]Choice, 0, len(kinds))
	for _, k := range kinds {
		c := Choice{Kind: k}
		var errs []error
		seen := map[Feature]bool{}
		for _, w := range ways[k] {
			f, err := lacking(m, w)
			switch {
			case err == nil:
				c.Ways = append(c.Ways, w.way)
			case len(c.Ways) == 0 && !seen[f]:
				seen[f] = true
				errs = append(errs, fmt.Errorf("%s: %w", f, err))
			}
		}
		c.Err = errors.Join(errs...)
		out = append(out, c)
	}
	return out
}

// lacking returns the first feature that a way needs and that is missing.
func lacking(m Machine, w way) (Feature, error) {
	for _, f := range w.needs {
		if err := m.Missing(f); err != nil {
			return f, err
		}
	}
	return "", nil
}

// lacks says what a way of measuring lacks; empty if nothing.
func lacks(k Kind, by Way) string {
	for _, w := range ways[k] {
		if w.way == by {
			return w.lacks
		}
	}
	return ""
}

// ErrMissing is wrapped by the errors of missing features.
var ErrMissing = errors.New("not available")
