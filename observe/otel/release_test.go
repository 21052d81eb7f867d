package otel_test

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/observe/otel"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

const root = "github.com/reprise-tt/reprise"

const consumer = `package main

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/observe/otel"
)

func main() {
	var dev *reprise.Device
	defer dev.Observe(otel.New(nil).Calls())()
}
`

// Once both modules are tagged with the version that this one requires of the root, a program gets
// them without a replace directive. The versions are made of this tree, the rest comes from the
// module cache.
func TestDependants(t *testing.T) {
	goMod := editJSON(t, ".")
	version := ""
	for _, r := range goMod.Require {
		if r.Path == root {
			version = r.Version
		}
	}
	if version == "" || version == "v0.0.0" {
		t.Fatalf("go.mod requires %s %q: that is no version that can be tagged", root, version)
	}
	dir := t.TempDir()
	proxy := filepath.Join(dir, "proxy")
	publish(t, proxy, root, version, filepath.Join("..", ".."))
	publish(t, proxy, root+"/observe/otel", version, ".")

	program := filepath.Join(dir, "program")
	write(t, filepath.Join(program, "go.mod"), "module example.com/program\n\ngo 1.26.0\n")
	write(t, filepath.Join(program, "main.go"), consumer)
	downloaded := filepath.Join(strings.TrimSpace(run(t, ".", nil, "env", "GOMODCACHE")), "cache", "download")
	env := []string{
		"GOPROXY=" + fileURL(proxy) + "," + fileURL(downloaded), "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-modcacherw -buildvcs=false",
		"GOMODCACHE=" + filepath.Join(dir, "cache"),
	}
	run(t, program, env, "get", root+"/observe/otel@"+version)
	// Every package and embedded file is found; that they compile is what the other tests show.
	if deps := run(t, program, env, "list", "-deps", "."); !strings.Contains(deps, root+"/observe/otel\n") {
		t.Errorf("the program depends on\n%s", deps)
	}
	if edited := editJSON(t, program); len(edited.Replace) > 0 {
		t.Errorf("it has replace directives: %v", edited.Replace)
	}
}

type module struct{ Path, Version string }

type modFile struct {
	Require []module
	Replace []struct{ Old, New module }
}

func editJSON(t *testing.T, dir string) modFile {
	t.Helper()
	var f modFile
	if err := json.Unmarshal([]byte(run(t, dir, nil, "mod", "edit", "-json")), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func publish(t *testing.T, proxy, path, version, dir string) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, "list"), version+"\n")
	write(t, filepath.Join(at, version+".info"), `{"Version":"`+version+`"}`)
	write(t, filepath.Join(at, version+".mod"), string(mod))
	f, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, name)
		if err != nil || inside == "." {
			return err
		}
		if e.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata" { // another module, or nothing that a build reads
				return filepath.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: path + "@" + version + "/" + filepath.ToSlash(inside), Method: zip.Store})
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	return string(out)
}

func TestNoTracer(t *testing.T) {
	spans := otel.New(nil)
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close(t.Context())
	defer dev.Observe(spans.Calls())()
	d := ops.New(dev, ops.WithObserver(spans))
	defer d.Release(context.Background())
	if _, err := d.Empty(t.Context(), ops.Spec{Shape: []int{32, 32}, DType: ops.BFloat16, Layout: ops.Tile,
		Memory: ops.Interleaved(allocator.L1)}); err != nil {
		t.Fatal(err)
	}
}

func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	spans := otel.New(tracer)
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close(t.Context())
	d := ops.New(dev, ops.WithObserver(spans))
	defer d.Release(context.Background())
	x, err := d.Empty(t.Context(), ops.Spec{Shape: []int{32, 32}, DType: ops.BFloat16, Layout: ops.Tile,
		Memory: ops.Interleaved(allocator.L1)})
	if err != nil {
		t.Fatal(err)
	}
	recorder.Reset()
	stop := dev.Observe(spans.Calls())
	ctx, caller := tracer.Start(t.Context(), "caller")
	if _, err := d.Relu(ctx, x); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Concat(ctx, nil, 0); err == nil {
		t.Error("a concat of no tensors")
	}
	caller.End()
	stop()

	name := map[trace.SpanID]string{}
	for _, s := range recorder.Ended() {
		name[s.SpanContext().SpanID()] = s.Name()
		if s.Name() == "reprise::allocate" {
			continue // calls that take no context are traces of their own
		}
		if s.SpanContext().TraceID() != caller.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name())
		}
		if s.EndTime().Before(s.StartTime()) {
			t.Errorf("%s ends before it begins", s.Name())
		}
	}
	parents := map[string]string{}
	for _, s := range recorder.Ended() {
		if s.Name() == "reprise::allocate" {
			continue
		}
		parents[s.Name()] = name[s.Parent().SpanID()]
		if bad := s.Name() == "ttnn::concat"; bad != (s.Status().Code == codes.Error) || bad != (len(s.Events()) == 1) {
			t.Errorf("%s: status %v, events %v", s.Name(), s.Status(), s.Events())
		}
		want := map[string]attribute.KeyValue{
			"ttnn::relu":   attribute.Int("reprise.level", 1),
			"reprise::run": attribute.String("reprise.object", "relu"),
		}[s.Name()]
		found := want.Key == ""
		for _, a := range s.Attributes() {
			found = found || a == want
		}
		if !found {
			t.Errorf("%s: %v isn't among %v", s.Name(), want, s.Attributes())
		}
	}
	want := map[string]string{
		"caller": "", "ttnn::relu": "caller", "ttnn::prim::unary": "ttnn::relu", "UnaryDeviceOperation": "ttnn::prim::unary",
		"tt::tt_metal::create_device_tensor": "UnaryDeviceOperation", "reprise::load": "UnaryDeviceOperation",
		"reprise::run": "UnaryDeviceOperation", "ttnn::concat": "caller",
	}
	if d := cmp.Diff(want, parents); d != "" {
		t.Error(d)
	}
}

func Example() {
	recorder := tracetest.NewSpanRecorder()
	spans := otel.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("example"))
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close(ctx)
	d := ops.New(dev, ops.WithObserver(spans))
	x, err := d.Empty(ctx, ops.Spec{Shape: []int{32, 32}, DType: ops.Int32, Memory: ops.Interleaved(allocator.DRAM)})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Deallocate(x); err != nil {
		log.Fatal(err)
	}
	for _, s := range recorder.Ended() {
		fmt.Println(s.Name())
	}
	// Output:
	// tt::tt_metal::create_device_tensor
	// ttnn::empty
}
