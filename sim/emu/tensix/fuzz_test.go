package tensix

import (
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func FuzzEngine(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(1), words(opUNPACR<<24|0x81, opPACR<<24|1, opMVMUL<<24, opREPLAY<<24|1<<4|3, opMOP<<24, opSFPMAD<<24))
	for arch := range byte(2) {
		all := []byte{arch}
		for op := range uint32(256) {
			all = append(all, words(op<<24)...)
		}
		f.Add(arch, all)
	}
	f.Fuzz(func(t *testing.T, how byte, program []byte) {
		arch := chip.Wormhole
		if how&1 != 0 {
			arch = chip.Blackhole
		}
		e := New(arch, newTestTile(arch))
		if how&2 != 0 {
			e.RefuseHazards()
		}
		for i := 0; len(program) >= 5 && e.Fault() == nil; i++ {
			kind, w := program[0], binary.LittleEndian.Uint32(program[1:])
			program = program[5:]
			switch n := int(kind % numThreads); {
			case kind&0x80 != 0:
				e.StoreConfig(uint32(kind)<<1&0xFF, w)
			case kind&0x40 != 0:
				e.StoreMOP(n, int(kind>>2)%mopWords, w)
			default:
				e.Push(n, w, kind&0x20 != 0)
			}
			for e.Step() > 0 {
			}
		}
		if f := e.Fault(); f != nil && (f.Category.String() == "" || f.Detail == "" || f.Error() == "") {
			t.Errorf("a refusal without a reason: %+v", f)
		}
		for n := range numThreads {
			e.Waiting(n)
		}
	})
}
