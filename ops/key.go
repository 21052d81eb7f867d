package ops

import (
	"fmt"
	"unique"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// kind identifies a Spec.
type kind = unique.Handle[kindFields]

type kindFields struct {
	dims    [4]int
	rank    int
	dtype   DataType
	layout  Layout
	memory  allocator.Kind
	place   allocator.Layout
	shard   [2]int
	columns bool
	cores   string // of shards
}

// kind returns the kind of a valid Spec.
func (s Spec) kind() kind {
	k := kindFields{dims: to4D(s.Shape), rank: len(s.Shape), dtype: s.DType, layout: s.Layout, memory: s.Memory.Kind, place: s.Memory.Layout}
	if shard := s.Memory.Shard; shard != nil {
		k.shard, k.columns, k.cores = shard.Shape, shard.Columns, fmt.Sprint(shard.Cores)
	}
	return unique.Make(k)
}

// maxConcat is the most tensors that one program concatenates, if their arguments fit. No program has more.
const maxConcat = 16

// programKey identifies a program in the cache. Addresses are not part of it: each run sets its own.
type programKey struct {
	program    *catalog.Program
	transposed bool
	function   string
	kinds      [1 + maxConcat]kind // of the result and of operands
	words      [48]uint32          // arguments, the first ones' number first
	more       string              // arguments that have no room there
}
