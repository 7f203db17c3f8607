package gpu

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

//go:embed child.py
var childText string

// InterpreterText is a Python module that Triton's interpreter needs without a GPU or torch.
//
//go:embed interpreter.py
var InterpreterText string

// Toolkit is a Python with Triton.
type Toolkit struct {
	plugins.Python
	Limit time.Duration // processor time of one child; 0: no limit
}

// Open obtains Triton (plugins.Triton), and returns a Toolkit without a limit.
func Open(ctx context.Context, o plugins.Options) (*Toolkit, error) {
	p, err := plugins.Triton(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Toolkit{Python: p}, nil
}

// Launch is one launch of a kernel, compiled for a target.
type Launch struct {
	Kernel     string     `json:"kernel"`
	Grid       [3]int     `json:"grid"` // number of programs
	Warps      int        `json:"warps"`
	Stages     int        `json:"stages"`
	Capability int        `json:"capability"`
	Arguments  []Argument `json:"arguments,omitempty"` // for the PTX parameters, in order; Triton appends two pointers to scratch memory
	Scratch    int        `json:"scratch,omitempty"`   // bytes of scratch memory that the kernel needs
	Refused    string     `json:"refused,omitempty"`   // why the compiler refused it
	Shared     int        `json:"shared"`              // bytes of shared memory per program
	SHA256     string     `json:"sha256"`              // of the cubin
	PTXSHA256  string     `json:"ptx_sha256"`
	Cubin      []byte     `json:"-"`
	PTX        string     `json:"-"`
	SASS       string     `json:"-"` // listing by nvdisasm
	Usage      string     `json:"-"` // registers and memory, as cuobjdump prints them
}

// Argument is the argument for a kernel's parameter.
type Argument struct {
	Parameter string  `json:"parameter"`
	Tensor    string  `json:"tensor"`           // an input or output of run, or a buffer that run makes
	Scalar    bool    `json:"scalar,omitempty"` // a number, not a tensor
	Value     float64 `json:"value,omitempty"`  // of a number
	DType     string  `json:"dtype"`            // by its safetensors name
	Shape     []int   `json:"shape"`
}

// Type returns the type of a tensor; it errs for a number or an unknown type.
func (a Argument) Type() (ir.Type, error) {
	d, err := ir.ParseDType(strings.ToLower(a.DType))
	if a.Scalar || err != nil {
		return ir.Type{}, fmt.Errorf("parameter %s is no tensor of a type that is known (%s)", a.Parameter, a.DType)
	}
	return ir.T(d, a.Shape...), nil
}

// Programs returns the number of programs in the grid.
func (l *Launch) Programs() int { return l.Grid[0] * l.Grid[1] * l.Grid[2] }

// Compute runs a file's kernels by Triton's interpreter: a spec's outputs from its inputs.
func (t *Toolkit) Compute(ctx context.Context, source string, s gdn.Spec, inputs map[string]*array.Array) (outputs map[string]*array.Array, err error) {
	all, err := t.compute(ctx, source, arguments(s, inputs))
	if err != nil {
		return nil, err
	}
	outputs = map[string]*array.Array{}
	for _, p := range s.Outputs() {
		outputs[p.Name] = all[p.Name]
	}
	return outputs, nil
}

// compute runs a file by Triton's interpreter, and returns the tensors with their contents afterwards.
func (t *Toolkit) compute(ctx context.Context, source string, tensors map[string]*array.Array) (after map[string]*array.Array, err error) {
	err = t.inFolder(source, func(dir string) error {
		given, results := filepath.Join(dir, "inputs.safetensors"), filepath.Join(dir, "outputs.safetensors")
		if err := array.WriteSafetensors(given, &array.File{Tensors: tensors}); err != nil {
			return err
		}
		if err := t.child(ctx, "compute", filepath.Join(dir, "kernels.py"), given, results); err != nil {
			return err
		}
		f, err := array.ReadSafetensors(results)
		if err == nil {
			after = f.Tensors
		}
		return err
	})
	return after, err
}

// Compile compiles a file's launches for the compute capabilities of the targets: for each launch, all targets in order. A launch that
// Triton or ptxas refuses has the reason in Refused.
func (t *Toolkit) Compile(ctx context.Context, source string, s gdn.Spec, targets ...*target.GPU) (launches []Launch, err error) {
	empty := map[string]*array.Array{}
	for _, p := range s.Inputs() {
		empty[p.Name] = array.New(p.Type.DType, p.Type.Shape...)
	}
	return t.compile(ctx, source, arguments(s, empty), targets...)
}

// compile compiles a file's launches for tensors of the given types and shapes, as Compile does.
func (t *Toolkit) compile(ctx context.Context, source string, tensors map[string]*array.Array, targets ...*target.GPU) (launches []Launch, err error) {
	err = t.inFolder(source, func(dir string) error {
		given := filepath.Join(dir, "inputs.safetensors")
		if err := array.WriteSafetensors(given, &array.File{Tensors: tensors}); err != nil {
			return err
		}
		args := []string{"compile", filepath.Join(dir, "kernels.py"), given, dir}
		for i, g := range targets {
			if !slices.ContainsFunc(targets[:i], func(before *target.GPU) bool { return before.Capability == g.Capability }) {
				args = append(args, strconv.Itoa(g.Capability))
			}
		}
		if err := t.child(ctx, args...); err != nil {
			return err
		}
		c, err := ReadCapture(dir)
		if err != nil {
			return err
		}
		for _, l := range c.Launches {
			launches = append(launches, l.Launch)
		}
		return nil
	})
	return launches, err
}

// arguments returns the arguments of run: the inputs of a spec, and its outputs. A pool's states have their values; other outputs are
// zeros, or NaN for floats, so that unwritten values show.
func arguments(s gdn.Spec, inputs map[string]*array.Array) map[string]*array.Array {
	all := map[string]*array.Array{}
	for name, x := range inputs {
		all[name] = x
	}
	for _, p := range s.Outputs() {
		x := array.New(p.Type.DType, p.Type.Shape...)
		if p.Name == "final_state" && s.Pool > 0 {
			copy(x.Data, inputs["initial_state"].Data)
		} else {
			for i := range x.Data {
				x.Data[i] = 0xff // NaN in every float type
			}
		}
		all[p.Name] = x
	}
	return all
}

// inFolder writes a file and the child's program into a temporary folder while do runs.
func (t *Toolkit) inFolder(source string, do func(dir string) error) error {
	dir, err := os.MkdirTemp("", "gdngen-gpu-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := writeChild(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kernels.py"), []byte(source), 0o644); err != nil {
		return err
	}
	return do(dir)
}

// writeChild writes the child's program into a folder.
func writeChild(dir string) error {
	for name, text := range map[string]string{"child.py": childText, "interpreter.py": InterpreterText} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// steering are variables that would influence Triton's compiler or interpreter; the child gets its own.
var steering = regexp.MustCompile(`^(TRITON_|MLIR_|LLVM_|PYTHON)`)

// limitEnv gives the child its limit of processor time, in seconds.
const limitEnv = "GDNGEN_CHILD_SECONDS"

// ChildError says that the child failed, with its last output.
type ChildError struct{ Output string }

func (e *ChildError) Error() string { return "Triton's child process: " + e.Output }

// LateError says that the child exceeded its limit of processor time.
type LateError struct{ Limit time.Duration }

func (e *LateError) Error() string {
	return fmt.Sprintf("Triton's child process took more than %v of processor time", e.Limit)
}

func (t *Toolkit) child(ctx context.Context, args ...string) error {
	dir := filepath.Dir(args[1])
	cmd := t.Command(ctx, append([]string{filepath.Join(dir, "child.py")}, args...)...)
	packages := slices.DeleteFunc(slices.Clone(cmd.Env), func(kv string) bool { return !strings.HasPrefix(kv, "PYTHONPATH="+t.Packages) || t.Packages == "" })
	cmd.Env = slices.DeleteFunc(cmd.Env, steering.MatchString)
	cmd.Env = append(append(cmd.Env, packages...), "PYTHONDONTWRITEBYTECODE=1", "TRITON_CACHE_DIR="+filepath.Join(dir, "cache"), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	if t.Limit > 0 {
		cmd.Env = append(cmd.Env, limitEnv+"="+strconv.Itoa(int(math.Ceil(t.Limit.Seconds()))))
	}
	return run(ctx, cmd, t.Limit)
}

// run waits for a child, and returns how it failed.
func run(ctx context.Context, cmd *exec.Cmd, limit time.Duration) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGXCPU {
			return &LateError{limit}
		}
	}
	said := strings.TrimSpace(output.String())
	if lines := strings.Split(said, "\n"); len(lines) > 12 {
		said = strings.Join(lines[len(lines)-12:], "\n")
	}
	if said == "" {
		said = err.Error()
	}
	return &ChildError{said}
}

// Fits returns an error that says why a compiled launch can not run on a GPU; nil if it can.
func (l *Launch) Fits(g *target.GPU) error {
	switch {
	case l.Refused != "":
		return fmt.Errorf("kernel %s for %s: the compiler refuses it: %s", l.Kernel, g.Name, l.Refused)
	case l.Shared > g.SharedProgram:
		return fmt.Errorf("kernel %s: a program takes %d bytes of shared memory, and %s has %d for it: narrow bv, chunk or stages", l.Kernel, l.Shared, g.Name, g.SharedProgram)
	}
	return nil
}

// Fit returns the first reason why launches compiled for targets can not run there; nil if all can.
func Fit(launches []Launch, targets []*target.GPU) error {
	for _, g := range targets {
		for _, l := range launches {
			if l.Capability == g.Capability {
				if err := l.Fits(g); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
