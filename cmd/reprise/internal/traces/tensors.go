package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/npy"
	"github.com/reprise-tt/reprise/ops/safetensors"
	"github.com/reprise-tt/reprise/tracebuf"
)

// tensorFlags name files for the tensors of a trace.
type tensorFlags struct {
	Input   []string `placeholder:"[NAME=]FILE" sep:"none"`
	Output  []string `short:"o" placeholder:"[NAME=]FILE" sep:"none"`
	Weights string   `placeholder:"FILE" type:"existingfile"`
}

func (c *tensorFlags) changed() bool { return len(c.Input) > 0 || c.Weights != "" }

// loadedModel are the tensors of a trace on one of its devices.
type loadedModel struct {
	*ops.Model
	d *ops.Device
}

// nameOn names what one of several devices has, such as 1:out.
func nameOn(device, of int, name string) string {
	if of == 1 {
		return name
	}
	return fmt.Sprintf("%d:%s", device, name)
}

// models returns the tensors of a trace, by device, with the weights and inputs that the flags name.
func (c *tensorFlags) models(ctx context.Context, devs []*reprise.Device, t *reprise.Trace) (models []loadedModel, err error) {
	for _, dev := range devs {
		d := ops.New(dev)
		m, err := d.LoadedModel(t)
		if err != nil {
			return nil, err
		}
		missing := m.Missing()
		switch {
		case c.Weights != "":
			if err := loadWeights(ctx, m, c.Weights); err != nil {
				return nil, err
			}
		case len(missing) > 0:
			return nil, cli.Wrong("--weights", "", fmt.Sprintf("the trace takes %s from a safetensors file, such as %s",
				cli.Count(len(missing), "tensor"), missing[0]), "give the model's file, or another with the same tensors")
		}
		models = append(models, loadedModel{m, d})
	}
	for _, arg := range c.Input {
		err := c.each(models, "--input", arg, (*ops.Model).Inputs, func(d *ops.Device, t *ops.Tensor, file string) error {
			f, err := cli.Open(ctx, file)
			if err != nil {
				return err
			}
			defer f.Close()
			h, err := npy.Read(f, t.Spec().DType)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return d.CopyHostToDevice(ctx, h, t)
		})
		if err != nil {
			return nil, err
		}
	}
	return models, nil
}

func loadWeights(ctx context.Context, m *ops.Model, file string) error {
	f, err := safetensors.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(m.LoadWeights(ctx, f.Tensor), f.Close())
}

// save writes the outputs that the flags name.
func (c *tensorFlags) save(ctx context.Context, models []loadedModel) error {
	for _, arg := range c.Output {
		err := c.each(models, "--output", arg, (*ops.Model).Results, func(d *ops.Device, t *ops.Tensor, file string) error {
			h, err := d.ToHost(ctx, t)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := npy.Write(&b, h); err != nil {
				return err
			}
			return cli.SaveBytes(ctx, "--output", file, b.Bytes())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls do for the tensor of a flag: the only one of names if it names none.
func (c *tensorFlags) each(models []loadedModel, flag, arg string, names func(*ops.Model) []string,
	do func(d *ops.Device, t *ops.Tensor, file string) error) error {
	var all []string
	for i, m := range models {
		for _, name := range names(m.Model) {
			all = append(all, nameOn(i, len(models), name))
		}
	}
	name, file, named := strings.Cut(arg, "=")
	if !named {
		if file = arg; len(all) != 1 {
			return cli.Wrong(flag, arg, fmt.Sprintf("the trace has %s: %s", cli.Count(len(all), "tensor"), strings.Join(all, ", ")),
				"give NAME=FILE")
		}
		name = all[0]
	}
	m := models[0]
	if len(models) > 1 {
		device, rest, _ := strings.Cut(name, ":")
		i, err := strconv.Atoi(device)
		if err != nil || i < 0 || i >= len(models) {
			return cli.Wrong(flag, arg, fmt.Sprintf("it names none of %d devices", len(models)), "give such as 1:NAME=FILE")
		}
		m, name = models[i], rest
	}
	t, err := m.Tensor(name)
	if err != nil {
		return cli.Wrong(flag, arg, err.Error(), "see reprise trace stat").By(err)
	}
	return do(m.d, t, file)
}

type tensorJSON struct {
	Shape      []int  `json:"shape"`
	DType      string `json:"dtype"`
	Tiles      bool   `json:"tiles"`
	Input      bool   `json:"input"`
	Weight     string `json:"weight,omitempty"`
	Transposed bool   `json:"transposed,omitempty"`
}

func toTensor(t *tracebuf.Tensor) *tensorJSON {
	if t == nil {
		return nil
	}
	j := tensorJSON(*t)
	return &j
}

// String follows what is said about the buffer.
func (t *tensorJSON) String() string {
	if t == nil {
		return ""
	}
	text := fmt.Sprintf("; %v %s", t.Shape, tracebuf.Printable(t.DType))
	if t.Tiles {
		text += " in tiles"
	}
	if t.Input {
		text += ", input"
	}
	if t.Weight != "" {
		text += ", from " + tracebuf.Printable(t.Weight)
	}
	if t.Transposed {
		text += " transposed"
	}
	return text
}
