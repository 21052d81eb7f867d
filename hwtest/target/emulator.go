package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/waivers"
)

const emulatorHint = "use no-iommu, driver=VERSION, fault=NAME, seed=N, delay=CLOCKS, strict=SEED, schedule=FILE, metal=DIR, interpreter, parallel, or of a machine faults of links such as link-down=0:8"

func parseEmulator(name, rest string) (*Device, error) {
	wrong := func(err error, hint, why string, a ...any) (*Device, error) {
		return nil, &Error{Value: name, Why: fmt.Sprintf(why, a...), Hint: hint, Err: err}
	}
	words := strings.Split(rest, ",")
	d := &Device{Given: name, Kind: Emulator}
	if spec, ok := chip.MachineNamed(words[0]); ok {
		d.Name, d.Arch, d.machine = "emu_"+strings.ReplaceAll(spec.Name, "-", "_"), spec.Arch, &spec
		d.opts = append(d.opts, sim.Harvesting(spec.Chips[0].Harvesting))
	} else {
		arch, err := chip.ParseArch(words[0])
		if err != nil {
			return wrong(err, "use emu:blackhole, emu:wormhole or a machine such as emu:quietbox", "there is no emulator of %q", words[0])
		}
		d.Name, d.Arch = "emu_"+arch.String(), arch
	}
	arch := d.Arch
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		if d.machine != nil && strings.HasPrefix(w, "link-") {
			d.links = append(d.links, sim.LinkFault(w))
			key = "link"
		}
		switch key {
		case "link":
		case "no-iommu":
			d.opts = append(d.opts, sim.WithoutIOMMU())
		case "interpreter":
			d.opts = append(d.opts, sim.Interpreter())
		case "parallel":
			d.opts = append(d.opts, sim.Parallel())
		case "driver":
			var n [3]uint8
			for i, part := range strings.Split(value+".0.0", ".")[:3] {
				x, err := strconv.ParseUint(part, 10, 8)
				if err != nil {
					return wrong(err, "use one such as driver=2.4.0", "%q is no version", value)
				}
				n[i] = uint8(x)
			}
			if n == [3]uint8{} {
				return wrong(ErrUnknown, "use one such as driver=2.4.0", "%q is no release of the driver", value)
			}
			d.opts = append(d.opts, sim.DriverVersion(n[0], n[1], n[2]))
		case "fault":
			d.opts = append(d.opts, sim.Fault(value))
		case "metal":
			list, err := waivers.Metal(context.Background(), value)
			if err != nil {
				return wrong(err, "name a folder with firmware that tt-metal built, such as its kernel cache", "%v", err)
			}
			d.opts = append(d.opts, sim.Waive(list...))
			w = "metal"
		case "schedule":
			o, err := sim.Schedule(value)
			if err != nil {
				return wrong(err, "name a file of reprise ttnn run --schedules or sim.Explore", "%v", err)
			}
			d.opts = append(d.opts, o)
			w = key
		case "seed", "delay", "strict":
			o, err := numberOption(key, value)
			if err != nil {
				return wrong(err, "use one such as "+key+"=7", "%q is no number", value)
			}
			d.opts = append(d.opts, o)
			d.Strict = d.Strict || key == "strict"
		default:
			return wrong(ErrUnknown, emulatorHint, "there is no option %q", w)
		}
		d.Name += "_" + strings.NewReplacer("=", "_", ".", "_", ":", "_", "/", "_").Replace(w)
	}
	if _, err := emulator(arch, d.opts...).Driver(); err != nil {
		return wrong(err, "docs/cli.md lists the options of emulated cards", "%v", err)
	}
	if len(d.links) > 0 {
		m := sim.NewMachine(*d.machine, d.links...)
		if err := errors.Join(m.Err(), m.Close()); err != nil {
			return wrong(err, "docs/cli.md lists the faults of links", "%v", err)
		}
	}
	d.open = func() kmd.Target { return emulator(arch, d.opts...) }
	return d, nil
}

// numberOption is an option that has a number: seed, delay or strict.
func numberOption(key, value string) (sim.Option, error) {
	x, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return nil, err
	}
	switch key {
	case "seed":
		return sim.Seed(x), nil
	case "delay":
		return sim.Delay(int(x)), nil
	case "strict":
		return sim.Strict(x), nil
	}
	return nil, ErrUnknown
}

// Emulated returns an emulator with more options and a suffix to its name; other devices as they
// are.
func (d *Device) Emulated(suffix string, opts ...sim.Option) *Device {
	if d.Kind != Emulator {
		return d
	}
	e := *d
	e.Name += suffix
	e.opts = append(slices.Clone(d.opts), opts...)
	e.open = func() kmd.Target { return emulator(e.Arch, e.opts...) }
	return &e
}

func emulator(a chip.Arch, opts ...sim.Option) *sim.Card {
	if a == chip.Wormhole {
		return sim.Wormhole(opts...)
	}
	return sim.Blackhole(opts...)
}

// WithMetal returns an emulator with the [waivers.Metal] of folders; other devices need none.
func (d *Device) WithMetal(ctx context.Context, dirs ...string) (*Device, error) {
	for _, dir := range dirs {
		if d.Kind != Emulator || dir == "" {
			continue
		}
		list, err := waivers.Metal(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("target: firmware of tt-metal in %s: %w", dir, err)
		}
		d = d.Emulated("", sim.Waive(list...))
	}
	return d, nil
}
