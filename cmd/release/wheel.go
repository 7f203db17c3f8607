package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas"
)

// models are the published models that the wheel has a package for, with their layers as gdngen tune reads them of config.json.
var models = []struct{ name, title, spec string }{
	{"qwen3_next", "Qwen3-Next 80B", "b=1,t=4096,hk=16,hv=32,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm"},
	{"qwen3_5_27b", "Qwen3.5 27B", "b=1,t=4096,hk=16,hv=48,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm"},
	{"qwen3_5_397b", "Qwen3.5 397B-A17B", "b=1,t=4096,hk=16,hv=64,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm"},
	{"kimi_linear", "Kimi Linear 48B", "b=1,t=4096,hk=32,hv=32,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,rule=kda"},
	{"olmo_hybrid", "OLMo hybrid 7B", "b=1,t=4096,hk=30,hv=30,k=96,v=192,dtype=bf16,gates=fused,gatedtype=bf16,negeig,l2norm"},
}

// wheelName is the package around the packages of all models.
const wheelName = "gdngen_kernels"

const wheelReadme = `# gdngen-kernels

Pallas kernels of the gated delta rule and of Kimi Delta Attention, for the layers of published models:

| import | model | spec |
|---|---|---|
%s
` + "```python" + `
from gdngen_kernels import qwen3_next

o, state = qwen3_next.chunk_gated_delta_rule(q, k, v, A_log, a, dt_bias, b)
` + "```" + `

Each package runs on TPUs, and interpreted or in plain JAX elsewhere; its functions have the arguments in their docs. Written by gdngen %s,
which checks each kernel against float64: github.com/gdngen/gdngen.
`

// wheel writes the wheel of the models' packages, which the program itself generates.
func wheel(version, out string) error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "gdngen")
	if err := build(version, "", "", false, program); err != nil {
		return err
	}
	files := []pallas.File{}
	rows := ""
	for _, m := range models {
		to := filepath.Join(dir, m.name)
		if err := run(nil, program, "gen", "--backend", "pallas", "--target", "none", "--spec", m.spec, "--package", to); err != nil {
			return err
		}
		inside, err := moved(to, m.name)
		if err != nil {
			return err
		}
		files = append(files, inside...)
		rows += fmt.Sprintf("| `%s` | %s | `%s` |\n", m.name, m.title, m.spec)
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	about := fmt.Sprintf("Pallas kernels of the gated delta rule for published models, by gdngen %s", version)
	files = append(files, pallas.File{Path: "README.md", Text: fmt.Sprintf(wheelReadme, rows, version)}, pallas.File{Path: "LICENSE", Text: string(license)},
		pallas.File{Path: "pyproject.toml", Text: fmt.Sprintf("description = %q\n", about)},
		pallas.File{Path: "src/" + wheelName + "/__init__.py", Text: fmt.Sprintf("\"\"\"%s.\"\"\"\n\n__version__ = %q\n", about, strings.TrimPrefix(version, "v"))})
	name, data, err := pallas.Wheel(wheelName, files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name), data, 0o644)
}

// moved gives the modules of a package as modules of a package inside the wheel's.
func moved(dir, name string) ([]pallas.File, error) {
	var files []pallas.File
	imports := regexp.MustCompile(`(?m)^( *from )(` + name + `\b)`)
	whole := regexp.MustCompile(`(?m)^ *import ` + name + `\b`)
	err := filepath.WalkDir(filepath.Join(dir, "src", name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if at := whole.Find(data); at != nil {
			return fmt.Errorf("%s: %q imports its own package as a whole, which can not be moved: import from it", path, at)
		}
		at, err := filepath.Rel(filepath.Join(dir, "src"), path)
		if err != nil {
			return err
		}
		files = append(files, pallas.File{Path: "src/" + wheelName + "/" + filepath.ToSlash(at), Text: imports.ReplaceAllString(string(data), "${1}"+wheelName+".${2}")})
		return nil
	})
	return files, err
}

// torchWheel writes the wheel of the functions of torch, which take all sizes.
func torchWheel(version, out string) error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, to := filepath.Join(dir, "gdngen"), filepath.Join(dir, "gdngen_torch")
	if err := build(version, "", "", false, program); err != nil {
		return err
	}
	if err := run(nil, program, "gen", "--backend", "triton", "--spec", "bench", "--package", to); err != nil {
		return err
	}
	files, err := inside(to)
	if err != nil {
		return err
	}
	name, data, err := pallas.Wheel(filepath.Base(to), files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name), data, 0o644)
}

// inside gives the files of a folder, by their paths in it.
func inside(dir string) (files []pallas.File, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at, err := filepath.Rel(dir, path)
		files = append(files, pallas.File{Path: filepath.ToSlash(at), Text: string(data)})
		return err
	})
	return files, err
}
