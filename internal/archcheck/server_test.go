package archcheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/effort"
)

// The program of docs/serving.md builds and works as a user's module, which has nothing of this
// repository but a replace.
func TestServer(t *testing.T) {
	effort.Long(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		p, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	_, program, _ := strings.Cut(read("docs/serving.md"), "```go\n")
	program, _, ok := strings.Cut(program, "```\n")
	if !ok || strings.Contains(program, "/internal") {
		t.Fatal("the page has no program, or one that others can't build")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": program, "main_test.go": read("internal/archcheck/testdata/server_test.go.txt"),
		"go.sum": read("go.sum"), "go.mod": fmt.Sprintf("module example.com/serve\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %[1]s => %q\n",
			"github.com/reprise-tt/reprise", root)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("go", "test", "-count=1", ".")
	c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
