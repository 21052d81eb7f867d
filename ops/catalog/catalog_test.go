package catalog_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// table is the catalogue as Markdown.
func table() string {
	text := "| operation | in TT-NN | operands | runs on | error, at most |\n|---|---|---|---|---|\n"
	for _, o := range catalog.Operations {
		name, ttnn := o.Name, o.TTNN
		for _, v := range o.Variants {
			for _, cell := range []string{name, ttnn, v.Operands, v.RunsOn, v.Error} {
				if cell != "" {
					cell += " "
				}
				text += "| " + cell
			}
			text += "|\n"
			name, ttnn = "", ""
		}
	}
	return text
}

func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	devtest.Must(t, err)
	if want := table(); !strings.Contains(string(page), want) {
		t.Errorf("docs/operations.md doesn't have this table:\n%s", want)
	}
	for _, o := range catalog.Operations {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(o.Name, -1) {
			of, method := reflect.TypeFor[*ops.Device](), name[1]
			if inMesh, ok := strings.CutPrefix(method, "Mesh."); ok {
				of, method = reflect.TypeFor[*ops.Mesh](), inMesh
			}
			if _, ok := of.MethodByName(method); !ok {
				t.Errorf("%v has no method %s", of, method)
			}
		}
	}
}

func TestSources(t *testing.T) {
	want := []string{"tile_writer"}
	for _, o := range catalog.Operations {
		for _, p := range o.Programs {
			want = append(want, p.Reader)
			if p.Writer != "" {
				want = append(want, p.Writer)
			}
		}
	}
	for _, e := range catalog.Engines() {
		want = append(want, "compute/"+e.Name)
	}
	slices.Sort(want)
	var have []string
	for _, dir := range []string{"", "compute/"} {
		files, err := filepath.Glob("../kernels/" + dir + "*.cpp")
		devtest.Must(t, err)
		for _, f := range files {
			have = append(have, dir+strings.TrimSuffix(filepath.Base(f), ".cpp"))
		}
	}
	slices.Sort(have)
	if want = slices.Compact(want); !slices.Equal(want, have) {
		t.Errorf("programs have kernels %q, there are sources of %q", want, have)
	}
}
