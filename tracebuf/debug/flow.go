package debug

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Position is a place in a trace that runs or is about to run: a program, or a whole loop, branch
// or call.
type Position struct {
	Queue int
	Step  int // index in Programs; -1 if it is no program
	Name  string
	Kind  flow.Kind   // None for a program
	Trace string      // called trace that has it; empty for the trace itself
	Run   int         // programs run before it, of every iteration
	Loops []Iteration // outermost first
}

// Iteration is an iteration of a loop.
type Iteration struct {
	Loop      int    `json:"loop"`      // number in its trace
	Name      string `json:"name"`      // "loop of 3", "while state[0] < 5"
	Iteration uint32 `json:"iteration"` // from 0
	Of        uint32 `json:"of"`        // iterations, or the most
}

func (i Iteration) String() string {
	return fmt.Sprintf("loop %d, iteration %d of %d", i.Loop, i.Iteration, i.Of)
}

func inside(loops []Iteration) string {
	var texts []string
	for _, l := range loops {
		texts = append(texts, l.String())
	}
	if len(texts) == 0 {
		return ""
	}
	return " in " + strings.Join(texts, ", ")
}

// ErrLimit is the cause of a StepError when a loop exceeds its limit. A replay hangs there.
var ErrLimit = errors.New("the loop began an iteration more than its limit")

// follower carries out the control flow of a trace on the host, by the buffers' words at that time.
type follower struct {
	*run
	program func(ctx context.Context, at tracebuf.At, nth int) error // runs a program, the nth of its queue that is counted, and may wait
	into    func(Position) bool                                      // nil: always
	after   func(Position) error                                     // nil: nothing
	plain   bool                                                     // programs run outside of the trace: nothing else is sent
	nowait  bool                                                     // program hasn't waited
	most    int                                                      // programs; 0: all
	until   int                                                      // 0: none

	at      Position // of what runs
	ran     int
	counted int
	word    uint32
	called  []string
	loops   []Iteration
	path    []ranStep
}

type ranStep struct {
	tracebuf.At
	Position     // of a program
	counted  int // programs after it
}

var errEnough = errors.New("enough programs have run")

func (f *follower) follow(ctx context.Context) error {
	for i := 0; i < len(f.parts) && !f.plain; i++ {
		if err := f.s.Head(ctx, i); err != nil {
			return f.stepError(0, 1, err)
		}
	}
	if err := f.walk(ctx); err != nil && !errors.Is(err, errEnough) {
		return &StepError{Trace: f.t.Name(), First: f.at.Step, Last: f.at.Step, Name: f.at.Name, Loops: slices.Clone(f.at.Loops), Err: err}
	}
	return nil
}

// walk runs the parts one after the other. Only parts without control flow have edges between
// them.
func (f *follower) walk(ctx context.Context) error {
	if f.hasControl() {
		for i := range f.parts {
			f.counted, f.word = 0, 0
			if err := f.steps(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	counted := make([]int, len(f.parts))
	for _, at := range f.Debugger.runs {
		f.at, f.counted = f.position(at), counted[at.Part]
		if err := f.runs(ctx, at); err != nil {
			return err
		}
		counted[at.Part] = f.counted
	}
	return nil
}

func (f *follower) steps(ctx context.Context, image int) error {
	steps, outer := f.all[image].Image.Steps, len(f.loops)
	left := []uint32{}
	leave := func() { f.loops, left = f.loops[:len(f.loops)-1], left[:len(left)-1] }
	for pc := 0; pc < len(steps); {
		if f.until > 0 && image == 0 && pc >= f.until && len(f.loops) == 0 {
			return errEnough
		}
		s := &steps[pc]
		at := tracebuf.At{Part: image, Step: pc}
		f.at = f.position(at)
		if end := f.whole(image, pc); end > pc && f.into != nil && !f.into(f.at) {
			if err := f.over(ctx, image, pc, end); err != nil {
				return err
			}
			pc = end
			continue
		}
		c, commands := &s.Control, f.s.Commands(image)[s.Offset:s.Offset+s.Size]
		pc++
		var err error
		switch c.Kind {
		case flow.None:
			err = f.runs(ctx, at)
		case flow.Reset, flow.Kernels, flow.Args, flow.Divide:
			err = f.sent(ctx, at, commands)
		case flow.Loop:
			count := cq.Get32(commands, cq.AtLoopCount)
			if count == 0 {
				pc = c.Target
				break
			}
			left = append(left, count)
			f.loops = append(f.loops, Iteration{Loop: c.Loop, Name: s.Name, Of: count})
		case flow.End:
			last := len(left) - 1
			if left[last]--; left[last] == 0 && !f.flow[image][c.Target].Branch.Limited {
				leave()
				break
			}
			f.loops[outer+last].Iteration++
			pc = c.Target
		case flow.Branch:
			var b cq.Branch
			var holds bool
			if b, holds, err = f.holds(ctx, image, pc-1); err != nil || holds {
				if holds && b.Limited && left[len(left)-1] == 0 {
					err = ErrLimit
				}
				break
			}
			if b.Leave {
				leave()
			}
			pc = c.Target
		case flow.Call:
			callee := f.all[image].Callees[c.Callee]
			f.called = append(f.called, f.all[callee].Name)
			err = f.steps(ctx, callee)
			f.called = f.called[:len(f.called)-1]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) position(at tracebuf.At) Position {
	s := f.step(at)
	p := Position{Queue: f.all[f.home(at.Part)].Queue, Step: slices.Index(f.Debugger.runs, at), Name: s.Name, Kind: s.Control.Kind,
		Run: f.ran, Loops: slices.Clone(f.loops)}
	if n := len(f.called); n > 0 {
		p.Trace = f.called[n-1]
	}
	return p
}

func (f *follower) runs(ctx context.Context, at tracebuf.At) error {
	f.counted++
	if err := f.program(ctx, at, f.counted); err != nil {
		return err
	}
	f.path = append(f.path, ranStep{at, f.at, f.counted})
	f.ran++
	if err := f.reached(); err != nil {
		return err
	}
	if f.ran == f.most {
		return errEnough
	}
	return nil
}

func (f *follower) reached() error {
	if f.after == nil {
		return nil
	}
	if err := f.after(f.at); err != nil {
		return err
	}
	return f.s.Restarted()
}

func (f *follower) sent(ctx context.Context, at tracebuf.At, commands []byte) error {
	if f.clears(at) {
		f.counted = 0
	}
	f.path = append(f.path, ranStep{at, f.at, f.counted})
	if f.plain {
		return nil
	}
	name := fmt.Sprintf("%s of trace %q", f.at.Name, f.t.Name())
	return f.s.Send(ctx, f.home(at.Part), name, commands, f.counted)
}

// clears reports whether no program is counted after a step.
func (d *Debugger) clears(at tracebuf.At) bool {
	s, im := d.step(at), d.all[at.Part].Image
	if k := s.Control.Kind; k != flow.Reset && k != flow.Divide {
		return false
	}
	for e := range cq.All(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size]) {
		for r := range e.Relayed {
			if w, ok := r.Command.(cq.Wait); ok && w.Flags&cq.ClearStream != 0 {
				return true
			}
		}
	}
	return false
}

func (f *follower) holds(ctx context.Context, image, step int) (b cq.Branch, holds bool, err error) {
	switch b = f.flow[image][step].Branch; {
	case b.Level > 0:
		f.word = f.loops[len(f.loops)-int(b.Level)].Iteration
	case b.Compare != cq.Never && !b.Same:
		if f.nowait {
			if err := f.s.Wait(ctx, f.home(image)); err != nil {
				return b, false, err
			}
		}
		if f.word, err = f.s.Word(ctx, image, f.all[image].Image.Steps[step].Offset); err != nil {
			return b, false, err
		}
	}
	return b, b.Compare.Holds(f.word, b.Value), nil
}

// home returns the part whose queue runs an image.
func (d *Debugger) home(image int) int {
	if d.all[image].Called {
		return d.all[image].Home
	}
	return image
}

func (d *Debugger) hasControl() bool {
	return slices.ContainsFunc(d.parts, func(p Part) bool { return p.Image.HasControl() })
}

// whole returns the end of the loop, branch or call that begins at a step; the step itself for
// others, or if a condition inside compares the iteration of an outer loop, which the device can't
// know for the piece alone.
func (d *Debugger) whole(image, step int) int {
	places := d.flow[image]
	for i := step; i < places[step].End; i++ {
		if p := &places[i]; int(p.Branch.Level) > p.Loops-places[step].Loops {
			return step
		}
	}
	return max(step, places[step].End)
}

func (f *follower) over(ctx context.Context, image, from, to int) error {
	p, err := f.s.Place(ctx, []Piece{f.wholePiece(image, from, to, f.counted)})
	if err != nil {
		return err
	}
	f.counted = f.countedAfter(image, from, to, f.counted)
	if err := errors.Join(p.Run(ctx), p.Release(ctx)); err != nil {
		return err
	}
	f.at.Loops = slices.Clone(f.loops)
	return f.reached()
}

// wholePiece is the steps from from up to to, after counted programs.
func (r *run) wholePiece(image, from, to, counted int) Piece {
	im := r.all[image].Image
	rec := tracebuf.NewRecording(im.Layout)
	commands := r.s.Commands(image)
	for i := from; i < to; i++ {
		s := &im.Steps[i]
		addStep(rec, s, commands)
	}
	for i := from; i < to; i++ {
		if c := &im.Steps[i].Control; c.Jumps() {
			rec.SetTarget(i-from, c.Target-from)
		}
	}
	p := Piece{Part: r.home(image), Before: counted, After: r.countedAfter(image, from, to, counted)}
	p.Image, _ = rec.Finish(r.all[p.Part].Banks) // it has steps
	return p
}

func addStep(rec *tracebuf.Recording, s *tracebuf.Step, commands []byte) {
	b := commands[s.Offset : s.Offset+s.Size]
	if s.Program == tracebuf.NoProgram {
		rec.AddControl(s.Name, s.Control, b)
		return
	}
	rec.Add(s.Name, s.Program, func(dst []byte) ([]byte, uint8) { return append(dst, b...), s.Variant })
}

func (d *Debugger) countedAfter(image, from, to, counted int) int {
	im := d.all[image].Image
	for pc := from; pc < to; pc++ {
		switch s := &im.Steps[pc]; s.Control.Kind {
		case flow.None:
			counted++
		case flow.Reset, flow.Divide:
			if d.clears(tracebuf.At{Part: image, Step: pc}) {
				counted = 0
			}
		case flow.Loop:
			pc = s.Control.Target - 1
		case flow.Branch:
			if d.flow[image][pc].Branch.Compare == cq.Never {
				pc = s.Control.Target - 1
			}
		case flow.Call:
			counted = d.all[d.all[image].Callees[s.Control.Callee]].Image.Counted()
		}
	}
	return counted
}

// beginning places the path up to its nth program as the straight line that it was.
func (r *run) beginning(ctx context.Context, path []ranStep, n int) (Placed, error) {
	if !r.hasControl() {
		return r.place(ctx, 0, n)
	}
	var pieces []Piece
	for part := range r.parts {
		rec, p := tracebuf.NewRecording(r.parts[part].Image.Layout), Piece{Part: part}
		left := n
		for _, s := range path {
			if left == 0 {
				break
			}
			step := r.step(s.At)
			if step.Program != tracebuf.NoProgram {
				left--
			}
			if r.home(s.Part) != part {
				continue
			}
			p.After = s.counted
			addStep(rec, step, r.s.Commands(s.Part))
		}
		if rec.Len() == 0 {
			continue
		}
		var err error
		if p.Image, err = rec.Finish(r.parts[part].Banks); err != nil {
			return nil, err
		}
		pieces = append(pieces, p)
	}
	return r.s.Place(ctx, pieces)
}

func programs(path []ranStep) (n int) {
	for _, s := range path {
		if s.Kind == flow.None {
			n++
		}
	}
	return n
}

func nth(path []ranStep, n int) Position {
	for _, s := range path {
		if s.Kind == flow.None {
			if n--; n < 0 {
				return s.Position
			}
		}
	}
	return Position{Step: -1}
}

func (r *run) sendProgram(ctx context.Context, at tracebuf.At, n int) error {
	s := r.step(at)
	name := fmt.Sprintf("step %d of trace %q, program %q", slices.Index(r.Debugger.runs, at), r.t.Name(), s.Name)
	return r.s.Send(ctx, r.home(at.Part), name, r.s.Commands(at.Part)[s.Offset:s.Offset+s.Size], n)
}

func (r *run) waited(send func(context.Context, tracebuf.At, int) error) func(context.Context, tracebuf.At, int) error {
	return func(ctx context.Context, at tracebuf.At, n int) error {
		if err := send(ctx, at, n); err != nil {
			return err
		}
		return r.s.Wait(ctx, r.home(at.Part))
	}
}

// Follow runs a trace as Step does, and says where it is: it calls after with each finished
// program, in every iteration of a loop. At each loop, branch and call it asks into whether to go
// inside; nil goes inside of everything. If not, the whole of it runs on the device, followed by
// one call of after. Follow always goes inside of what depends on the iteration of an outer loop.
// An error of after ends the run. The error is a *StepError.
func (d *Debugger) Follow(ctx context.Context, into func(Position) bool, after func(Position) error) error {
	return d.exclusive(ctx, "step through", func(r *run) error {
		f := &follower{run: r, program: r.waited(r.sendProgram), into: into, after: after}
		return f.follow(ctx)
	})
}
