// Package folder writes the files of a Python package besides its modules: pyproject.toml, a README, and a wheel of all.
package folder

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// File is a file of a package; its path has slashes.
type File struct {
	Path, Text string
}

// Address is the repository of the generator.
const Address = "github.com/gdngen/gdngen"

// Version is the version of a package, in its wheel, in pyproject.toml and as __version__.
const Version = "0.1.0"

// wheelLicense is a package's license, since it has texts of the generator.
const wheelLicense = "Apache-2.0"

// License is the license text of the repository.
//
//go:embed LICENSE
var License string

// Facts in pyproject.toml that a wheel repeats.
var (
	summary      = regexp.MustCompile(`(?m)^description = "(.*)"$`)
	requires     = regexp.MustCompile(`(?m)^requires-python = "(.*)"$`)
	dependencies = regexp.MustCompile(`(?m)^dependencies = \[(.*)\]$`)
)

// Wheel packs the files of a package as a wheel, which pip installs without a build. It returns the wheel's file name and its bytes.
// files are the result of pallas.Package for the name.
func Wheel(name string, files []File) (file string, data []byte, err error) {
	info := fmt.Sprintf("%s-%s.dist-info/", name, Version)
	texts := []File{}
	description, about, python, needs := "", "", ">=3.11", "Requires-Dist: jax>=0.10.2\nRequires-Dist: numpy\n"
	for _, f := range files {
		if path, ok := strings.CutPrefix(f.Path, "src/"); ok {
			texts = append(texts, File{path, f.Text})
		}
		switch f.Path {
		case "README.md":
			description = f.Text
		case "LICENSE":
			texts = append(texts, File{info + "licenses/LICENSE", f.Text})
		}
		if m := requires.FindStringSubmatch(f.Text); m != nil && f.Path == "pyproject.toml" {
			python = m[1]
		}
		if m := dependencies.FindStringSubmatch(f.Text); m != nil && f.Path == "pyproject.toml" {
			needs = ""
			for _, d := range strings.Split(m[1], ",") {
				needs += "Requires-Dist: " + strings.Trim(d, ` "`) + "\n"
			}
		}
		if m := summary.FindStringSubmatch(f.Text); m != nil && f.Path == "pyproject.toml" {
			about = "Summary: " + m[1] + "\n"
		}
	}
	texts = append(texts,
		File{info + "METADATA", fmt.Sprintf("Metadata-Version: 2.4\nName: %s\nVersion: %s\n%sAuthor: gdngen\nLicense-Expression: %s\nLicense-File: LICENSE\nProject-URL: Source, https://%s\nRequires-Python: %s\n"+
			"Description-Content-Type: text/markdown\n%sProvides-Extra: test\nRequires-Dist: pytest; extra == \"test\"\n\n%s",
			strings.ReplaceAll(name, "_", "-"), Version, about, wheelLicense, Address, python, needs, description)},
		File{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: gdngen\nRoot-Is-Purelib: true\nTag: py3-none-any\n"})
	record := ""
	for _, f := range texts {
		sum := sha256.Sum256([]byte(f.Text))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", f.Path, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.Text))
	}
	texts = append(texts, File{info + "RECORD", record + info + "RECORD,,\n"})
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range texts {
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.Path, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return "", nil, err
		}
		if _, err := w.Write([]byte(f.Text)); err != nil {
			return "", nil, err
		}
	}
	err = z.Close()
	return fmt.Sprintf("%s-%s-py3-none-any.whl", name, Version), b.Bytes(), err
}
