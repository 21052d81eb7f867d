package kernels

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestCompileTensix(t *testing.T) {
	NeedCompiler(t)
	text, err := os.ReadFile("testdata/tensix.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range arches {
		for _, path := range []string{"tensix.c", "tensix.cpp"} {
			var warnings bytes.Buffer
			mustCompile(t, Source{Path: path, Text: string(text), Arch: arch, Warnings: &warnings})
			if warnings.Len() > 0 {
				t.Error(warnings.String())
			}
		}
	}
}

func TestCompileTensixConstants(t *testing.T) {
	NeedCompiler(t)
	const large = "doesn't fit"
	for _, tt := range []struct{ name, statement, says string }{
		{"operand", "RP_TTI(RP_OP_SETC16(0x10000, 1));", large},
		{"negative operand", "RP_TTI(RP_OP_SFPLOADI(-1, 0, 0));", large},
		{"pushed word", "rp_tensix_push(RP_OP_MVMUL(1024, 0, 0, 0));", large},
		{"field of the configuration", "RP_CFG_RMW(RP_CFG_SRC_A_FORMAT, 16);", large},
		{"element of an array", "rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_OUT(4)), 0);", large},
		{"absent on Wormhole", "RP_TTI(RP_OP_ZEROACC(0, 0, RP_CLEAR_ALL, 1, 0));", "doesn't have the field"},
	} {
		src := Source{Path: "k.c", Text: "#include \"reprise/tensix.h\"\nvoid kernel_main(void) { " + tt.statement + " }\n", Arch: arches[0]}
		_, err := Compile(t.Context(), src)
		var refused *CompileError
		if !errors.As(err, &refused) || !strings.Contains(refused.Output, tt.says) {
			t.Errorf("%s: %v, want a refusal that says %q", tt.name, err, tt.says)
		}
	}
}
