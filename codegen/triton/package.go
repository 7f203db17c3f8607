package triton

import (
	"embed"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/folder"
	"github.com/gdngen/gdngen/codegen/python"
	"github.com/gdngen/gdngen/gdn"
)

//go:embed torch/*
var torchFiles embed.FS

// File is a file of a package, its path with slashes.
type File struct{ Path, Text string }

// packageFiles are the files of a package by their templates.
var packageFiles = [][2]string{
	{"pyproject.toml", "pyproject.toml"}, {"README.md", "README.md"},
	{"src/@NAME@/__init__.py", "__init__.py"}, {"src/@NAME@/kernels.py", "kernels.py"}, {"src/@NAME@/rule.py", "rule.py"},
	{"src/@NAME@/serving.py", "serving.py"}, {"src/@NAME@/flashinfer.py", "flashinfer.py"}, {"src/@NAME@/kda.py", "kda.py"}, {"src/@NAME@/channel_kernels.py", "channel_kernels.py"},
	{"tests/test_rule.py", "test_rule.py"}, {"tests/test_kda.py", "test_kda.py"},
}

// SupportsPackage says why a package of functions of torch can not compute a spec. Sizes, types and options come with a call.
func SupportsPackage(s gdn.Spec) error {
	if s.Window || s.Every > 0 || s.Pool > 0 {
		return fmt.Errorf("triton package: pool, window, every: its functions return the states after the last token; leave them out")
	}
	s.Direction = gdn.Forward
	return Supports(s)
}

// Package writes a Python package of a name, which pip installs: functions of torch with the arguments of flash-linear-attention, forward and
// backward, for any sizes of a call. interpreter is the text of the module by which it runs without a GPU. Equal arguments give equal bytes.
func Package(name, version, interpreter string) ([]File, error) {
	replace := strings.NewReplacer("@NAME@", name, "@DISTRIBUTION@", strings.ReplaceAll(name, "_", "-"), "@VERSION@", version, "@SOURCE@", folder.Address)
	files := []File{{"LICENSE", folder.License}}
	for _, f := range packageFiles {
		text, err := torchFiles.ReadFile("torch/" + f[1])
		if err != nil {
			return nil, err
		}
		files = append(files, File{replace.Replace(f[0]), replace.Replace(string(text))})
	}
	files = append(files, File{"src/" + name + "/interpreter.py", interpreter})
	texts := map[string]string{}
	for _, f := range files {
		texts[f.Path] = f.Text
	}
	if err := python.Check(texts); err != nil {
		return nil, fmt.Errorf("triton package: its Python would not run, which is a fault of the generator: %w", err)
	}
	return files, nil
}
