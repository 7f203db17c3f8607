package pallas

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/gdn"
)

// File is a file of a package, its path with slashes.
type File struct {
	Path, Text string
}

var packageName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// keywords are the words of Python that packageName fits and no package can have.
var keywords = strings.Fields("and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
	"nonlocal not or pass raise return try while with yield")

// CheckPackage says whether a name can be that of a Python package.
func CheckPackage(name string) error {
	if !packageName.MatchString(name) || slices.Contains(keywords, name) {
		return fmt.Errorf("%q is not the name of a Python package: use lower-case letters, digits and _, and no keyword", name)
	}
	return nil
}

// Package writes a Python package of a name, which must be an identifier: pyproject.toml, the kernels, and tests that compare them with the
// token recurrence in plain JAX.
func Package(name string, s gdn.Spec, v gdn.Variant, p Provenance) ([]File, error) {
	f, err := newFile(s, v, p)
	if err != nil {
		return nil, err
	}
	source := f.text(true)
	tests, err := f.tests(name)
	if err != nil {
		return nil, err
	}
	return []File{
		{"pyproject.toml", fmt.Sprintf(pyproject, strings.ReplaceAll(name, "_", "-"))},
		{"README.md", fmt.Sprintf(packageReadme, name, strings.Trim(f.doc, "\n"), name)},
		{"src/" + name + "/__init__.py", pytext.Format(fmt.Sprintf("\"\"\"Gated delta rule for TPUs.\"\"\"\n\nfrom %s.kernels import gated_delta_rule\n\n__all__ = [\"gated_delta_rule\"]\n", name))},
		{"src/" + name + "/kernels.py", source},
		{"tests/test_kernels.py", tests},
	}, nil
}

const pyproject = `[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "%s"
version = "0.1.0"
description = "Gated delta rule for TPUs: a Pallas kernel with its gradient"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["jax>=0.10.2", "numpy"]

[project.optional-dependencies]
test = ["pytest"]

[tool.setuptools.packages.find]
where = ["src"]

[tool.ruff]
line-length = 88

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
`

const packageReadme = "# %s\n\n```\n%s\n```\n\nInstall with `pip install .`, test with `pip install .[test]` and `pytest`. Off a TPU the kernels are interpreted.\n\n```python\nfrom %s import gated_delta_rule\n```\n"

//go:embed tests.py.tmpl
var testText string

var testTemplate = template.Must(template.New("tests").Parse(testText))

func (f *file) tests(name string) (string, error) {
	f.data.Name = name
	var b bytes.Buffer
	err := testTemplate.ExecuteTemplate(&b, "tests", f.data)
	return pytext.Format(spaced(b.String())), err
}

// spaced puts two blank lines before what stands at the top level after a template left more or fewer.
func spaced(text string) string {
	var out []string
	blank := 0
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" {
			blank++
			continue
		}
		if blank > 0 {
			n := min(blank, 2)
			if strings.HasPrefix(line, "def ") || strings.HasPrefix(line, "@") || strings.HasPrefix(line, "class ") {
				n = 2
			}
			out = append(out, make([]string, n)...)
		}
		blank = 0
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n"
}
