package driver

import (
	"io/fs"
	"testing/fstest"
)

// tree is a file system as a table from paths to files. Reading a file fails with its Sys, if any.
type tree fstest.MapFS

func (t tree) text(name, s string) { t[name] = &fstest.MapFile{Data: []byte(s), Mode: 0o444} }

func (t tree) Open(name string) (fs.File, error) {
	f, err := fstest.MapFS(t).Open(name)
	if e := t[name]; err == nil && e != nil {
		if why, ok := e.Sys.(error); ok {
			return unreadable{f, &fs.PathError{Op: "read", Path: name, Err: why}}, nil
		}
	}
	return f, err
}

type unreadable struct {
	fs.File
	err error
}

func (u unreadable) Read([]byte) (int, error) { return 0, u.err }
