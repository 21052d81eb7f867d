package dispatch

import "fmt"

// Variant is how a run of a program was encoded: which of its commands it has. [Image.AppendRun] returns it.
type Variant uint8

const (
	residentArgs Variant = 1 << iota // arguments and configuration are relayed from DRAM, beside the kernels
	withTexts                        // it begins with the commands that bring the kernels
)

// Inline reports whether the run has its arguments among the commands. Otherwise they lie in DRAM beside the kernels, for
// all runs that have the same.
func (v Variant) Inline() bool { return v&residentArgs == 0 }

// form returns the image that the main commands of a run are of.
func (im *Image) form(v Variant) *Image {
	if v&residentArgs != 0 && im.resident != nil {
		return im.resident
	}
	return im
}

// variant is how a run of one form is encoded at a place.
func (im *Image) variant(form *Image, p *placement) Variant {
	var v Variant
	if form == im.resident {
		v |= residentArgs
	}
	if p.send {
		v |= withTexts
	}
	return v
}

// runBytes returns the bytes of a run.
func (im *Image) runBytes(v Variant) int {
	f := im.form(v)
	if v&withTexts != 0 {
		return len(f.text.bytes) + len(f.main.bytes)
	}
	return len(f.main.bytes)
}

// AppendRun appends the commands of one run to dst, moves st past it and says how it was encoded. id names the run in
// profilers. It allocates only when dst is too small.
func (im *Image) AppendRun(dst []byte, st *State, dispatcher Dispatcher, id uint16) ([]byte, Variant) {
	f := im.current()
	p := f.place(st, dispatcher)
	return f.build(dst, f.main.bytes, &p, dispatcher, id), im.variant(f, &p)
}

// AppendInlineRun appends a run in place of one that isn't [Variant.Inline]: the arguments are among the commands. They are
// those that the run has, whatever has been changed since.
func (im *Image) AppendInlineRun(dst []byte, st *State, dispatcher Dispatcher, id uint16) ([]byte, Variant) {
	main := im.main.bytes
	if im.changed {
		main = im.compiled
	}
	p := im.place(st, dispatcher)
	return im.build(dst, main, &p, dispatcher, id), im.variant(im, &p)
}

// AppendAgain appends a run with the runtime arguments of one that was appended before, whatever has been changed since: run
// are its commands, v says how they were encoded. It returns how the new ones are.
func (im *Image) AppendAgain(dst, run []byte, v Variant, st *State, dispatcher Dispatcher, id uint16) ([]byte, Variant, error) {
	if want := im.runBytes(v); len(run) != want {
		return dst, v, fmt.Errorf("dispatch: program %q: a recorded run of %d B: its variant has %d B", im.name, len(run), want)
	}
	f := im.form(v)
	p := f.place(st, dispatcher)
	return f.build(dst, run[len(run)-len(f.main.bytes):], &p, dispatcher, id), im.variant(f, &p), nil
}

// MainOffset returns where, in the commands of a run, those begin that CommandBytes counts: the offsets of arguments count
// from there.
func (im *Image) MainOffset(v Variant) int { return im.runBytes(v) - len(im.form(v).main.bytes) }

// RelayedPages returns, for each entry of a RELAY_PAGED_PACKED in the commands of a run, in order, which page of Binary it
// reads first.
func (im *Image) RelayedPages(v Variant) []int {
	f := im.form(v)
	var pages []int
	if v&withTexts != 0 {
		for _, r := range f.text.relays {
			pages = append(pages, r.page)
		}
	}
	for _, r := range f.main.relays {
		pages = append(pages, r.page)
	}
	return pages
}
