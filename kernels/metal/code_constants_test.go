package metal

import (
	"bytes"
	"debug/elf"
	"testing"
)

const codeSource = `
volatile unsigned *word;
void _start(unsigned n) {
	*(volatile unsigned *)0x19840 = 0x30001000;
	word = (unsigned *)(n + 0x2CF3);
	if (n & 8)
		*word = *(volatile unsigned *)0x1A43C;
	*word = 0x1A43C;
	*word = 0x7D0;
}`

func TestCodeConstants(t *testing.T) {
	for _, march := range []string{"-march=rv32im", "-march=rv32im_zba_zbb_zbs"} {
		f, err := elf.NewFile(bytes.NewReader(compiled(t, codeSource, march)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := f.Section(".text").Data()
		if err != nil {
			t.Fatal(err)
		}
		k := QueueKernel{code: codeConstants(text)}
		for _, v := range []uint32{0x19840, 0x30001000, 8, 0x1A43C, 0x7D0} {
			if !k.Has(v) {
				t.Errorf("%s: %#x isn't found", march, v)
			}
		}
		for _, v := range []uint32{0x19844, 0x30000000 + 8, 0x1A440, 0x7D4} {
			if k.Has(v) {
				t.Errorf("%s: %#x is found", march, v)
			}
		}
	}
	if k := (QueueKernel{code: codeConstants([]byte{1, 2, 3})}); k.Has(1) {
		t.Error("part of an instruction is a constant")
	}
}
