package ptx

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// Kernel is a kernel in a StableHLO module.
type Kernel struct{ Name, PTX string }

var (
	configured = regexp.MustCompile(`name = "(\w+)", kernel_type = "ptx", kernel_data = "((?:[^"\\]|\\.)*)"`)
	calls      = regexp.MustCompile(`stablehlo\.custom_call @"?__gpu\$xla\.gpu\.ptx"?\(`)
	escaped    = regexp.MustCompile(`\\([0-9A-Fa-f]{2}|n|t|"|\\)`)
)

// Kernels returns the kernels in a module's text. It errs if a call's configuration has another order of fields.
func Kernels(module string) ([]Kernel, error) {
	var list []Kernel
	for _, m := range configured.FindAllStringSubmatch(module, -1) {
		list = append(list, Kernel{m[1], unescape(m[2])})
	}
	if n := len(calls.FindAllString(module, -1)); n != len(list) {
		return nil, fmt.Errorf("the module has %d calls of %s, and the PTX of %d can be read: write name, kernel_type and kernel_data first, in this order", n, Target, len(list))
	}
	return list, nil
}

// escape returns text as MLIR writes it between quotes.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\5C`, `"`, `\22`, "\n", `\0A`, "\t", `\09`).Replace(text)
}

func unescape(text string) string {
	return escaped.ReplaceAllStringFunc(text, func(s string) string {
		switch s[1:] {
		case "n":
			return "\n"
		case "t":
			return "\t"
		case `"`, `\`:
			return s[1:]
		}
		b, err := hex.DecodeString(s[1:])
		if err != nil {
			return s
		}
		return string(b)
	})
}

// Error says that ptxas refuses a kernel.
type Error struct{ Kernel, Output string }

func (e *Error) Error() string { return fmt.Sprintf("ptxas refuses kernel %s: %s", e.Kernel, e.Output) }

// Assemble runs ptxas on a kernel for a GPU. If ptxas refuses it, the error is an *Error; other errors mean that ptxas could not run.
func Assemble(ctx context.Context, ptxas string, k Kernel, g *target.GPU) error {
	dir, err := os.MkdirTemp("", "gdngen-ptx-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := dir + "/kernel.ptx"
	if err := os.WriteFile(file, []byte(k.PTX), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, ptxas, fmt.Sprintf("-arch=sm_%da", g.Capability), "-o", dir+"/kernel.cubin", file)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, refused := err.(*exec.ExitError); refused {
		first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return &Error{k.Name, strings.ReplaceAll(first, file+", ", "")}
	}
	return err
}

// AssembleAll runs Assemble on all kernels of a module's text.
func AssembleAll(ctx context.Context, ptxas, module string, g *target.GPU) error {
	list, err := Kernels(module)
	if err != nil {
		return &Error{"of the module", err.Error()}
	}
	for _, k := range list {
		if err := Assemble(ctx, ptxas, k, g); err != nil {
			return err
		}
	}
	return nil
}
