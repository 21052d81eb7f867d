package optimize

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Kernels lie among the commands if each is at most a page of a relay. The prefetcher reads a trace
// in large blocks and waits for each page of a relay, but reads several pages of a kernel at once.
const (
	relayPage  = 2 << 10
	mostInline = 16 << 10 // of a program
)

// inline puts the kernels that a relay brings into the command before it, and reports whether it
// did.
func (r *rewriter) inline(at int, relay *cq.RelayPagedPacked) bool {
	w := r.header
	if w == nil {
		return false
	}
	r.header = nil
	data := r.relayed(at, relay)
	if data == nil || len(data) > min(mostInline, len(relay.Subs)*relayPage) {
		r.b.WritePackedLargeHeader(*w)
		return false
	}
	inline := *w
	inline.Alignment = cq.L1Align
	for _, b := range blocks(w, data) {
		inline.Data = append(inline.Data, b.data...)
	}
	r.b.WritePackedLarge(inline)
	r.change(tracebuf.Inlined, fmt.Sprintf("%d B of kernels lie among the commands", len(inline.Data)))
	return true
}

// relayed returns what the relay at an offset in an image's commands brings; nil if that isn't of a
// program.
func relayed(im *tracebuf.Image, at int, relay *cq.RelayPagedPacked) (out []byte) {
	for i, sub := range relay.Subs {
		n := slices.IndexFunc(im.Relocs, func(r tracebuf.Reloc) bool { return r.At == at+cq.AtPagedSub(i) })
		if n < 0 {
			return nil
		}
		reloc := &im.Relocs[n]
		binary, from := im.Programs[reloc.Program].Binary, reloc.Page<<sub.LogPageSize
		if from+int(sub.Length) > len(binary) {
			return nil
		}
		out = append(out, binary[from:from+int(sub.Length)]...)
	}
	return out
}

type block struct {
	cq.LargeSub
	data []byte
}

func blocks(w *cq.WritePackedLarge, data []byte) (out []block) {
	align := int(w.Alignment)
	for _, sub := range w.Subs {
		n := int(sub.Length)
		out = append(out, block{sub, data[:n]})
		data = data[min(len(data), (n+align-1)/align*align):]
	}
	return out
}
