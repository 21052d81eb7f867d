package sims

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/ttnn"
)

type ttnnABICmd struct {
	Wheels   []string `arg:"" placeholder:"WHEEL"`
	Compiler string   `default:"c++" placeholder:"PROGRAM"`
	Write    string   `placeholder:"DIR" type:"existingdir"`
	cli.AsJSON
}

// abiTables are the tables of facts, by what they are for.
var abiTables = []struct {
	path string
	keep func(name string) bool
}{
	{"dispatch/abi/wheels.json", abi.IsFact},
	{"dispatch/cq/testdata/wheels.json", func(name string) bool { return strings.HasPrefix(name, "CQ") }},
}

type abiJSON struct {
	Wheel   string   `json:"wheel"`
	Arch    string   `json:"arch"`
	Against string   `json:"against,omitempty"` // wheel whose facts it is compared with
	Changes []string `json:"changes"`
}

func (c *ttnnABICmd) Run(ctx context.Context, s cli.Streams) error {
	tables := []abi.Table{abi.Releases(), {}}
	for i, t := range abiTables {
		if c.Write == "" {
			break
		}
		text, err := os.ReadFile(filepath.Join(c.Write, t.path))
		if err != nil {
			return fmt.Errorf("ttnn abi: --write: %w", err)
		}
		if tables[i], err = abi.ReadTable(text); err != nil {
			return fmt.Errorf("ttnn abi: %s: %w", t.path, err)
		}
	}
	temp, err := os.MkdirTemp("", "reprise-abi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var out []abiJSON
	for _, path := range c.Wheels {
		h, err := ttnn.OpenHeaders(path, temp)
		if err != nil {
			return err
		}
		for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
			facts, err := h.Facts(ctx, c.Compiler, arch)
			if err != nil {
				return err
			}
			for i, t := range abiTables {
				kept := abi.Facts{}
				for name, v := range facts {
					if t.keep(name) {
						kept[name] = uint32(v)
					}
				}
				if i == 0 {
					out = append(out, compareABI(tables[i][arch.String()], h.Wheel, arch, kept))
				}
				tables[i].Add(arch.String(), h.Wheel, kept)
			}
		}
	}
	for i, t := range abiTables {
		if c.Write != "" {
			if err := os.WriteFile(filepath.Join(c.Write, t.path), tables[i].Append(nil), 0o644); err != nil {
				return err
			}
		}
	}
	return s.Print(c.JSON, out, func(w cli.Text) {
		for _, o := range out {
			if o.Against == "" {
				w.F("ttnn %s, %s: nothing older is known\n", o.Wheel, o.Arch)
				continue
			}
			w.F("ttnn %s, %s: %s against %s\n", o.Wheel, o.Arch, cli.Count(len(o.Changes), "change"), o.Against)
			for _, change := range o.Changes {
				w.F("  %s\n", change)
			}
		}
	})
}

// compareABI compares facts with those of the wheel, or of the newest that is known.
func compareABI(known []abi.Release, wheel string, arch chip.Arch, facts abi.Facts) abiJSON {
	out := abiJSON{Wheel: wheel, Arch: arch.String(), Changes: []string{}}
	if len(known) == 0 {
		return out
	}
	base := known[len(known)-1]
	out.Against = base.Wheels[len(base.Wheels)-1]
	if i := slices.IndexFunc(known, func(r abi.Release) bool { return slices.Contains(r.Wheels, wheel) }); i >= 0 {
		base, out.Against = known[i], wheel
	}
	names := maps.Clone(base.Facts)
	maps.Copy(names, facts)
	text := func(f abi.Facts, name string) string {
		if v, ok := f[name]; ok {
			return fmt.Sprintf("%#x", v)
		}
		return "none"
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, now := text(base.Facts, name), text(facts, name); was != now {
			out.Changes = append(out.Changes, name+": "+was+" to "+now)
		}
	}
	return out
}
