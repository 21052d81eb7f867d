package traces

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/npy"
	"github.com/reprise-tt/reprise/ops/safetensors"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// tensorFlags name files for the tensors of a trace.
type tensorFlags struct {
	Input   []string `placeholder:"[NAME=]FILE" sep:"none"`
	Output  []string `short:"o" placeholder:"[NAME=]FILE" sep:"none"`
	Weights string   `placeholder:"FILE" type:"existingfile"`
}

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

// models returns the tensors of a trace by device, with the weights and inputs that the flags name.
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

// tensorFlag says which tensor a buffer holds.
type tensorFlag struct {
	value, name string
	buffer      string // name or address
	tensor      tracebuf.Tensor
	pages       reprise.BufferConfig
}

var tensorForm = regexp.MustCompile(`^([^=]+)=([0-9]+(?:x[0-9]+)*):([^:@]*)(:tile|:row_major)?(?:@(.*))?$`)

func parseTensor(s string) (f tensorFlag, err error) {
	bad := func(why string) (tensorFlag, error) {
		return f, cli.Wrong("--tensor", s, why, "give such as x=1x1x64x64:bfloat16@in0 or ids=1x32:uint32:row_major@0x20000")
	}
	p := tensorForm.FindStringSubmatch(s)
	if p == nil {
		return bad("it isn't name=shape:type[:tile|:row_major][@buffer]")
	}
	f = tensorFlag{value: s, name: p[1], buffer: cmp.Or(p[5], p[1])}
	f.tensor = tracebuf.Tensor{DType: strings.ToUpper(p[3]), Tiles: p[4] != ":row_major"}
	for d := range strings.SplitSeq(p[2], "x") {
		n, _ := strconv.Atoi(d) // the largest int for more
		f.tensor.Shape = append(f.tensor.Shape, n)
	}
	spec, err := ops.SpecOf(&tracebuf.Buffer{Tensor: &f.tensor})
	if err == nil {
		f.pages, err = spec.BufferConfig(f.name)
	}
	if err != nil {
		return bad(err.Error())
	}
	return f, nil
}

// describe gives the buffer the tensor.
func (f *tensorFlag) describe(o *metaltrace.FileOptions, align int) error {
	addr, err := strconv.ParseUint(f.buffer, 0, 64)
	at := slices.IndexFunc(o.Buffers, func(b tracebuf.Buffer) bool {
		return b.Kind == tracebuf.KindDRAM && b.Sharding == nil && (b.Name == f.buffer || err == nil && b.Addr == addr)
	})
	named := slices.IndexFunc(o.Buffers, func(b tracebuf.Buffer) bool { return b.Name == f.name })
	switch {
	case at < 0:
		return cli.Wrong("--tensor", f.value, fmt.Sprintf("the trace has no buffer %s in interleaved DRAM", f.buffer), "give one of "+
			cli.List(o.Buffers, func(b tracebuf.Buffer) string { return fmt.Sprintf("%s (at %#x)", tracebuf.Printable(b.Name), b.Addr) }))
	case named >= 0 && named != at:
		return cli.Wrong("--tensor", f.value, "another buffer has this name", "give another name")
	}
	b := &o.Buffers[at]
	n := f.pages.PageSize
	if f.pages.Size/n != b.Pages() || n > b.PageSize || (n+align-1)/align*align != b.Stride {
		return cli.Wrong("--tensor", f.value, fmt.Sprintf("the tensor is %s in DRAM, the buffer %s", pagesText(f.pages.Size, n),
			pagesText(b.Size, b.PageSize)), "give the shape, type and layout of the program's tensor")
	}
	// A recording names the inputs that no variable holds in0, in1 and so on.
	f.tensor.Input = b.Tensor == nil && strings.HasPrefix(b.Name, "in") || b.Tensor != nil && b.Tensor.Input
	for _, list := range [][]tracebuf.Data{o.Data, o.Results} {
		for i := range list {
			if d := &list[i]; d.Buffer == at {
				var cut []byte // what aligns pages
				for p := range slices.Chunk(d.Bytes, b.PageSize) {
					cut = append(cut, p[:n]...)
				}
				d.Bytes = cut
			}
		}
	}
	b.Name, b.Tensor, b.PageSize, b.Size = f.name, &f.tensor, n, f.pages.Size
	return nil
}

func pagesText(size, page int) string { return cli.Count(size/page, "page") + " of " + cli.Bytes(page) }
