package triton

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

// parsed says of each Python file of a folder that it parses, which names modules import and have, and which parameters kernels are launched with.
const parsed = `
import ast, pathlib, sys

kernels, bad = {}, []
trees = {p: ast.parse(p.read_text(), str(p)) for p in sorted(pathlib.Path(sys.argv[1]).rglob("*.py"))}
tops = {p.stem: {n.name: n for n in t.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))} for p, t in trees.items()}
constants = {p.stem: {a.id for n in t.body if isinstance(n, ast.Assign) for a in n.targets if isinstance(a, ast.Name)} for p, t in trees.items()}
for p, t in trees.items():
    called, launched = {}, {}  # functions that a module of kernels calls by name, and those that another launches, NAME[grid](...)
    if p.stem.endswith("kernels"):
        called = {n: f.args.args for n, f in tops[p.stem].items()}
        kernels |= tops[p.stem]
    for n in ast.walk(t):
        if isinstance(n, ast.ImportFrom) and n.level == 1 and n.module:
            bad += [f"{p}: {n.module} has no {a.name}" for a in n.names if a.name not in tops[n.module] and a.name not in constants[n.module]]
            if p.stem.endswith("kernels"):
                called |= {a.name: tops[n.module][a.name].args.args for a in n.names}
        elif isinstance(n, ast.ImportFrom) and n.level == 1:
            launched |= {a.asname or a.name: tops[a.name] for a in n.names if a.name.endswith("kernels")}
    for n in ast.walk(t):
        if not isinstance(n, ast.Call):
            continue
        at = n.func.value if isinstance(n.func, ast.Subscript) else None
        if isinstance(at, ast.Attribute) and getattr(at.value, "id", "") in launched:
            kernel = launched[at.value.id].get(at.attr)
            if kernel is None:
                bad.append(f"{p}: there is no kernel {at.attr}")
                continue
            names = [a.arg for a in kernel.args.args]
            bad += [f"{p}: {at.attr} has no {k.arg}" for k in n.keywords if k.arg and k.arg not in names + ["num_warps"]]
        if getattr(n.func, "id", "") in called:
            most = len(called[n.func.id])
            if len(n.args) + len(n.keywords) != most:
                bad.append(f"{p}:{n.lineno}: {n.func.id} is called with {len(n.args)} arguments, and has {most}")
print("\n".join(bad) or "fits", sorted(kernels))
`

const interpreter = "def emulate_rounding():\n    pass\n"

// Files of a package parse; kernels are called with as many arguments as they have, and launched with those that there are.
func TestPackage(t *testing.T) {
	files, err := Package("gdr_x", "v1", interpreter)
	require.NoError(t, err)
	dir := t.TempDir()
	paths := map[string]string{}
	for _, f := range files {
		require.NotContains(t, strings.ReplaceAll(f.Text, "@triton.jit", ""), "@NAME@", f.Path)
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(f.Text), 0o644))
		paths[f.Path] = f.Text
	}
	require.Contains(t, paths["pyproject.toml"], `name = "gdr-x"`)
	require.Contains(t, paths["src/gdr_x/rule.py"], `NAMESPACE = "gdr_x"`)
	require.Contains(t, paths["tests/test_rule.py"], "from gdr_x import chunk_gated_delta_rule")
	require.Contains(t, paths["src/gdr_x/serving.py"], "def gated_delta_rule_decode_pretranspose")
	require.Contains(t, paths, "LICENSE")
	out, err := exec.Command("python3", "-c", parsed, dir).CombinedOutput()
	require.NoError(t, err, string(out))
	require.True(t, strings.HasPrefix(string(out), "fits"), string(out))
	for _, kernel := range []string{"prepare", "prepare_pairs", "scan", "summarise", "combine", "reverse", "scores", "grads", "recur", "sums", "mend", "invert"} {
		require.Contains(t, string(out), "'"+kernel+"'")
	}
}

// No loop that turns backwards and no transposed sum as an operand of a product of warp groups: Triton 3.4 to 3.7.0 has code for the second that is wrong
// on Hopper. prepare_pairs permutes sums, and is launched with one warp, whose products are none of warp groups.
func TestPackageTransposes(t *testing.T) {
	files, err := Package("gdr", "v1", interpreter)
	require.NoError(t, err)
	loaded := []string{"k_a", "k_b", "k_c", "q_c", "k_right", "P", "high", "whole", "rest", "U", "d", "dR", "S", "dS", "Qd", "Kd", "Kl"} // rows and blocks that a kernel loads, or scales
	for _, f := range files {
		for _, launch := range strings.Split(f.Text, "kernels.prepare_pairs[")[1:] {
			line, _, _ := strings.Cut(launch, "\n")
			require.Contains(t, line, "num_warps=1)", f.Path)
		}
		if !strings.HasSuffix(f.Path, "kernels.py") {
			continue
		}
		for _, permuted := range strings.Split(f.Text, "tl.permute(")[1:] {
			require.Regexp(t, `^(bt\[[01]\], \(0, 2, 1\)|rows, |tl\.reshape)`, permuted, f.Path)
		}
		parts := strings.Split(f.Text, "tl.trans(")
		require.Greater(t, len(parts), 10)
		for _, p := range parts[1:] {
			name, _, _ := strings.Cut(p, ")")
			require.Contains(t, loaded, name)
		}
	}
}

func TestSupportsPackage(t *testing.T) {
	for text, fault := range map[string]string{"bench": "", "train": "", "contest-decode,pool=64,inplace": "pool", "tiny,rule=kda": "rule=kda", "bench,k=512": "at most 256"} {
		s, err := gdn.Parse(text)
		require.NoError(t, err, text)
		if err = SupportsPackage(s); fault == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, fault, text)
		}
	}
}
