package ttnn

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed testdata/programs/*.py
var programs embed.FS

// WritePrograms writes the corpus of TT-NN programs into a folder and returns the path of main.py.
func WritePrograms(dir string) (string, error) {
	files, err := fs.Sub(programs, "testdata")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "programs", "main.py"), os.CopyFS(dir, files)
}
