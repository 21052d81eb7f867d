package sim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
)

// It is a load whose value goes nowhere, and Blackhole's fence before it.
func withoutReadBack(t *testing.T, im *kernels.Image) *kernels.Image {
	const nop, fence = 0x13, 0x0F
	out, n := *im, 0
	out.Text = slices.Clone(im.Text)
	for at := 8; at+4 <= len(out.Text); at += 4 {
		load, use := binary.LittleEndian.Uint32(out.Text[at-4:]), binary.LittleEndian.Uint32(out.Text[at:])
		if load&0x7F == 0x03 && use&0xFFF07FFF == nop && use>>15&31 == load>>7&31 && use>>15&31 != 0 {
			binary.LittleEndian.PutUint32(out.Text[at-4:], nop)
			binary.LittleEndian.PutUint32(out.Text[at:], nop)
			if binary.LittleEndian.Uint32(out.Text[at-8:])&0x7F == fence {
				binary.LittleEndian.PutUint32(out.Text[at-8:], nop)
			}
			n++
		}
	}
	if n == 0 {
		t.Fatal("the kernel reads nothing back")
	}
	return &out
}

type mistake struct {
	name    string
	program func(t *testing.T, s *site) *reprise.Program
	says    []string
}

type site struct {
	grid    chip.Range
	image   func(name string) *kernels.Image
	a, b, c *reprise.Buffer
	l1      *reprise.Buffer
}

func values(v ...uint32) func(chip.Core) []uint32 {
	return func(chip.Core) []uint32 { return v }
}

func (s *site) one(i int) []chip.Range {
	c := at(s.grid, i)
	return []chip.Range{chip.Single(c.X, c.Y)}
}

func (s *site) copyKernel(core int, from, to *reprise.Buffer, scratch uint32) reprise.Kernel {
	return reprise.Kernel{Name: fmt.Sprint("copy on ", core), Image: s.image(kernels.Copy), Processor: chip.BRISC, Cores: s.one(core),
		Args: values(from.Addr(), to.Addr(), 0, 64, 64, scratch)}
}

func (s *site) store(p chip.Processor, v uint32) reprise.Kernel {
	return reprise.Kernel{Name: fmt.Sprint("store on ", p), Image: s.image(kernels.Store), Processor: p, Cores: s.one(1),
		Common: []uint32{v}, Args: values(s.l1.Addr(), 1, 0)}
}

func mistakes() []mistake {
	return []mistake{
		{
			name: "a kernel reads a DRAM buffer that another core is writing",
			says: []string{"race: NoC ", "DRAM controller", "BRISC of tile"},
			program: func(t *testing.T, s *site) *reprise.Program {
				return &reprise.Program{
					Kernels: []reprise.Kernel{s.copyKernel(0, s.a, s.b, s.l1.Addr()), s.copyKernel(1, s.b, s.c, s.l1.Addr())},
					Buffers: []*reprise.Buffer{s.a, s.b, s.c, s.l1},
				}
			},
		},
		{
			name: "two cores write one DRAM buffer",
			says: []string{"race: NoC write to", "DRAM controller", "wrote", "through a NoC"},
			program: func(t *testing.T, s *site) *reprise.Program {
				return &reprise.Program{
					Kernels: []reprise.Kernel{s.copyKernel(0, s.a, s.c, s.l1.Addr()), s.copyKernel(1, s.b, s.c, s.l1.Addr())},
					Buffers: []*reprise.Buffer{s.a, s.b, s.c, s.l1},
				}
			},
		},
		{
			name: "two processors store to one word of L1",
			says: []string{"race: store to", "of L1", "wrote", "Nothing that one of the two did"},
			program: func(t *testing.T, s *site) *reprise.Program {
				return &reprise.Program{Kernels: []reprise.Kernel{s.store(chip.TRISC0, 7), s.store(chip.TRISC2, 8)},
					Buffers: []*reprise.Buffer{s.l1}}
			},
		},
		{
			name: "a kernel publishes a page before its stores are in L1",
			says: []string{"race", "TRISC0 of tile", "wrote", "read back first, and the result used"},
			program: func(t *testing.T, s *site) *reprise.Program {
				image := func(name string) *kernels.Image {
					if name == kernels.Add {
						return withoutReadBack(t, s.image(name))
					}
					return s.image(name)
				}
				return pipeline(image, "add", at(s.grid, 1), s.a, s.b, 5)
			},
		},
		{
			name: "two kernels take one circular buffer's pages",
			says: []string{"race"},
			program: func(t *testing.T, s *site) *reprise.Program {
				p := pipeline(s.image, "add", at(s.grid, 1), s.a, s.b, 5)
				p.Kernels = append(p.Kernels, reprise.Kernel{Name: "thief", Image: s.image(kernels.Add), Processor: chip.TRISC2, Cores: s.one(1),
					Args: values(0, 16, 64, 9)})
				return p
			},
		},
	}
}

func TestSharingMistakes(t *testing.T) {
	for _, s := range small {
		for _, m := range mistakes() {
			for seed := range uint64(2) {
				t.Run(fmt.Sprintf("%v%s, seed %d", s.card(), m.name, seed), func(t *testing.T) {
					card := s.card(sim.Strict(seed), sim.Harvesting(chip.Harvesting{Tensix: s.harvest}))
					err := runMistake(t, card, m)
					if err == nil {
						t.Fatal("the program ran")
					}
					var r *emu.Refusal
					if !errors.As(card.Chip().Fault(), &r) {
						t.Fatalf("error %v without a refusal", err)
					}
					rest := r.Error()
					for _, part := range m.says {
						_, after, ok := strings.Cut(rest, part)
						if !ok {
							t.Fatalf("refusal %q doesn't say %q", r, part)
						}
						rest = after
					}
				})
			}
		}
	}
}

func runMistake(t *testing.T, card *sim.Card, m mistake) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dev, err := reprise.Open(ctx, card)
	if err != nil {
		return err
	}
	defer dev.Close(ctx) // it has stopped
	q := dev.Queue(0)
	s := &site{grid: dev.Grid(), image: func(name string) *kernels.Image {
		im := value(kernels.Prebuilt(dev.Arch(), name))(t)
		return im
	}}
	for i, b := range []**reprise.Buffer{&s.a, &s.b, &s.c} {
		if *b, err = dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 * 64, PageSize: 64,
			Name: fmt.Sprint(i)}); err != nil {
			return err
		}
		p := make([]byte, (*b).Size())
		for j := range p {
			p[j] = byte(j*7 + i)
		}
		if err := q.Write(ctx, *b, 0, p); err != nil {
			return err
		}
	}
	if s.l1, err = dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: s.grid.Size() * 64, PageSize: 64, Name: "L1"}); err != nil {
		return err
	}
	x, err := dev.Load(ctx, m.program(t, s))
	if err != nil {
		return err
	}
	if err := q.Run(ctx, x); err != nil {
		return err
	}
	return q.Wait(ctx)
}
