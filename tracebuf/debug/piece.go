package debug

import (
	"context"

	"github.com/reprise-tt/reprise/tracebuf"
)

func (r *run) place(ctx context.Context, first, end int) (Placed, error) {
	cuts := r.cut(first, end)
	recorded := make([]uint32, len(cuts))
	for i := range cuts {
		recorded[i] = cuts[i].recorded
	}
	var pieces []Piece
	for i := range cuts {
		if len(cuts[i].steps) == 0 {
			continue
		}
		p, err := r.piece(i, &cuts[i], recorded)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, p)
	}
	return r.s.Place(ctx, pieces)
}

func (r *run) piece(part int, c *cut, recorded []uint32) (Piece, error) {
	p := Piece{Part: part, Before: c.programs, After: c.programs}
	commands, image := r.s.Commands(part), r.parts[part].Image
	rec := tracebuf.NewRecording(image.Layout)
	for i := range c.steps {
		s := &c.steps[i]
		if s.Program != tracebuf.NoProgram {
			addStep(rec, s, commands)
			p.After++
			continue
		}
		edge, err := r.s.Edge(part, recorded, s.Edge, p.After)
		if err != nil {
			return p, err
		}
		rec.AddEdge(s.Name, s.Edge, edge)
	}
	var err error
	p.Image, err = rec.Finish(r.parts[part].Banks)
	return p, err
}

// cut is a part's steps in a piece.
type cut struct {
	programs int
	steps    []tracebuf.Step
	recorded uint32
}

type recording struct {
	queue  int
	number uint32
}

// cut keeps the edges inside of the piece; the host's wait before the piece replaces edges from
// before.
func (r *run) cut(first, end int) []cut {
	out := make([]cut, len(r.parts))
	inside := r.inside(first, end, out)
	wanted := r.wanted(inside)
	numbers := map[recording]uint32{}
	for _, at := range inside {
		c, s := &out[at.Part], *r.step(at)
		switch s.Edge.Kind {
		case tracebuf.EdgeRecord:
			rec := recording{r.parts[at.Part].Queue, s.Edge.Number}
			if !wanted[rec] {
				continue
			}
			c.recorded++
			numbers[rec], s.Edge.Number = c.recorded, c.recorded
		case tracebuf.EdgeWait:
			rec := recording{s.Edge.Queue, s.Edge.Number}
			if !wanted[rec] {
				continue
			}
			s.Edge.Number = numbers[rec]
		case tracebuf.EdgeEnd:
			continue
		}
		c.steps = append(c.steps, s)
	}
	for i := range out {
		for k := range out {
			if i != k && out[k].recorded > 0 {
				out[i].steps = append(out[i].steps, tracebuf.Step{Name: "end of the part", Program: tracebuf.NoProgram,
					Edge: tracebuf.Edge{Kind: tracebuf.EdgeEnd}})
				break
			}
		}
	}
	return out
}

func (r *run) inside(first, end int, cuts []cut) []tracebuf.At {
	var out []tracebuf.At
	n := 0
	for _, at := range r.order {
		program := r.step(at).Program != tracebuf.NoProgram
		if n == end && program {
			break
		}
		if n < first || n == first && first > 0 && !program {
			if program {
				n++
				cuts[at.Part].programs++
			}
			continue
		}
		if program {
			n++
		}
		out = append(out, at)
	}
	return out
}

func (r *run) wanted(steps []tracebuf.At) map[recording]bool {
	made, out := map[recording]bool{}, map[recording]bool{}
	for _, at := range steps {
		switch s := r.step(at); s.Edge.Kind {
		case tracebuf.EdgeRecord:
			made[recording{r.parts[at.Part].Queue, s.Edge.Number}] = true
		case tracebuf.EdgeWait:
			if rec := (recording{s.Edge.Queue, s.Edge.Number}); made[rec] {
				out[rec] = true
			}
		}
	}
	return out
}
