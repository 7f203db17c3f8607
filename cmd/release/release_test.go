package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Modules of a model's package import each other below the wheel's package; docs that name the package stay.
func TestMoved(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, "src", "model", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("__init__.py", "from model import parallel\nfrom model.api import f\nfrom modelling import g\n")
	write("api.py", "def f():\n    \"\"\"model.f() does.\"\"\"\n    from model._recurrent import g\n")
	files, err := moved(dir, "model")
	require.NoError(t, err)
	texts := map[string]string{}
	for _, f := range files {
		texts[f.Path] = f.Text
	}
	require.Equal(t, map[string]string{
		"src/gdngen_kernels/model/__init__.py": "from gdngen_kernels.model import parallel\nfrom gdngen_kernels.model.api import f\nfrom modelling import g\n",
		"src/gdngen_kernels/model/api.py":      "def f():\n    \"\"\"model.f() does.\"\"\"\n    from gdngen_kernels.model._recurrent import g\n",
	}, texts)
	write("api.py", "import model\n")
	_, err = moved(dir, "model")
	require.ErrorContains(t, err, "imports its own package as a whole")
}

// A release wants a version, a new folder, and a commit without changes.
func TestRefused(t *testing.T) {
	require.ErrorContains(t, release("1.0", "dist", ""), "want a version such as v0.1.0")
	require.ErrorContains(t, release("v0.1.0", t.TempDir(), ""), "is there already")
}
