package gpu

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

//go:embed capture.py
var captureText string

// Capture is the launches of Triton kernels in a Python script, compiled for a GPU that need not be attached.
type Capture struct {
	Script     string     `json:"script"`
	Triton     string     `json:"triton"` // its version
	Capability int        `json:"capability"`
	Launches   []Captured `json:"launches"`
}

// Captured is a launch of a script, with facts that its code does not show.
type Captured struct {
	Launch
	Group   int    `json:"group"`            // launches of one group are the configs among which an autotuner chooses
	Config  string `json:"config,omitempty"` // the autotuner's text of it
	Sampled int    `json:"sampled,omitempty"`
	Configs int    `json:"configs,omitempty"` // number of all configs; Sampled of them were compiled
	Trips   *int   `json:"trips"`             // of the loop with most operations; nil: not known from the arguments
	Bytes   int64  `json:"bytes"`             // of all tensor arguments
}

// launchesFile is the file that a child writes next to the launches' code.
const launchesFile = "launches.json"

// IsCapture reports whether a folder has the launches of a script.
func IsCapture(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, launchesFile))
	return err == nil
}

// ReadCapture reads a folder that Capture wrote; it errs if a file is missing or damaged.
func ReadCapture(dir string) (*Capture, error) {
	path := filepath.Join(dir, launchesFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	type row struct {
		Captured
		File string `json:"cubin"`
	}
	var doc struct {
		Capture
		Launches []row `json:"launches"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c := &doc.Capture
	for _, l := range doc.Launches {
		if l.File != "" {
			path := filepath.Join(dir, filepath.Base(l.File))
			if l.Cubin, err = os.ReadFile(path); err != nil {
				return nil, err
			}
			for ending, at := range map[string]*string{"ptx": &l.PTX, "sass": &l.SASS, "usage": &l.Usage} {
				text, err := os.ReadFile(strings.TrimSuffix(path, "cubin") + ending)
				if err != nil {
					return nil, err
				}
				*at = string(text)
			}
		}
		c.Launches = append(c.Launches, l.Captured)
	}
	return c, nil
}

// CaptureOptions are the options of Capture.
type CaptureOptions struct {
	Python  string // a Python with the script's imports; "": Triton's own
	Configs int    // the most configs per autotuned kernel
	Folder  string // the folder for the result; "": none
}

// tritons are variables that would change what a user's Python compiles.
var tritons = regexp.MustCompile(`^(TRITON_|MLIR_|LLVM_)`)

// Capture runs a Python script, and compiles the launches of Triton kernels in it for a GPU. It launches nothing, and needs no GPU.
func (t *Toolkit) Capture(ctx context.Context, script string, g *target.GPU, o CaptureOptions) (*Capture, error) {
	if o.Configs < 1 {
		return nil, fmt.Errorf("%d configs of an autotuned kernel: at least 1 is compiled", o.Configs)
	}
	if _, err := os.Stat(script); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gdngen-capture-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	folder := filepath.Join(dir, "launches")
	if o.Folder != "" {
		folder = o.Folder
		if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
			return nil, fmt.Errorf("%s is not empty: launches are kept in a folder of their own", folder)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	facts, err := json.Marshal(map[string]any{
		"kind": g.Kind, "capability": g.Capability, "sms": g.SMs, "registers": g.Registers, "shared_program": g.SharedProgram, "l2": g.L2,
	})
	if err != nil {
		return nil, err
	}
	program, row := filepath.Join(dir, "capture.py"), filepath.Join(dir, "gpu.json")
	for path, text := range map[string][]byte{program: []byte(captureText), row: facts} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
	}
	args := []string{program, script, folder, row, strconv.Itoa(o.Configs)}
	cmd := t.Command(ctx, args...)
	if o.Python != "" {
		cmd = exec.CommandContext(ctx, o.Python, args...)
		cmd.Env, cmd.WaitDelay = os.Environ(), t.Command(ctx).WaitDelay
	}
	cmd.Env = append(slices.DeleteFunc(cmd.Env, tritons.MatchString), "PYTHONDONTWRITEBYTECODE=1", "TRITON_CACHE_DIR="+filepath.Join(dir, "cache"))
	if err := run(ctx, cmd, 0); err != nil {
		return nil, scriptError(script, o.Python, err)
	}
	return ReadCapture(folder)
}

var missingModule = regexp.MustCompile(`ModuleNotFoundError: No module named '?([\w.]+)`)

// scriptError says which import of a script is missing in which Python.
func scriptError(script, python string, err error) error {
	if m := missingModule.FindStringSubmatch(err.Error()); m != nil {
		if python == "" {
			return fmt.Errorf("%s imports %s, which the pinned Python with Triton lacks: name one that has it and triton by --python", script, m[1])
		}
		return fmt.Errorf("%s imports %s, which %s lacks", script, m[1], python)
	}
	return fmt.Errorf("%s: %w", script, err)
}

// UnknownTrips says that the number of loop iterations of a kernel is not known from its arguments.
type UnknownTrips struct{ Kernel string }

func (e *UnknownTrips) Error() string {
	return fmt.Sprintf("kernel %s: how often its loop turns does not follow from its arguments: say it by --trips %s=N", e.Kernel, e.Kernel)
}

// Model returns a script's launches with modelled times on a GPU; for an autotuned kernel, only the fastest config. trips sets the loop
// iterations of kernels by name, instead of the number from the arguments. If neither gives it, the error is an *UnknownTrips.
func (c *Capture) Model(g *target.GPU, trips map[string]int) (list []Modelled, err error) {
	if c.Capability != g.Capability {
		return nil, fmt.Errorf("the launches are compiled for sm_%d, and %s is sm_%d", c.Capability, g.Name, g.Capability)
	}
	for name := range trips {
		if !slices.ContainsFunc(c.Launches, func(l Captured) bool { return l.Kernel == name }) {
			return nil, fmt.Errorf("--trips %s: the script launches no such kernel", name)
		}
	}
	for at := 0; at < len(c.Launches); {
		end := at + 1
		for end < len(c.Launches) && c.Launches[end].Group == c.Launches[at].Group {
			end++
		}
		best, err := fastest(c.Launches[at:end], g, trips)
		if err != nil {
			return nil, err
		}
		list = append(list, *best)
		at = end
	}
	if len(list) == 0 {
		return nil, errors.New("the script launches no Triton kernel")
	}
	return list, nil
}

// fastest returns the config of a launch with the least modelled time; if no times are modelled, the first that the GPU can run.
func fastest(configs []Captured, g *target.GPU, trips map[string]int) (best *Modelled, err error) {
	var refused error
	for _, l := range configs {
		if err := l.Fits(g); err != nil {
			refused = err
			continue
		}
		turns, named := trips[l.Kernel]
		if !named && l.Trips == nil {
			return nil, &UnknownTrips{l.Kernel}
		}
		if !named {
			turns = *l.Trips
		}
		m, err := model(l.Launch, g, turns, l.Bytes)
		if err != nil {
			return nil, err
		}
		m.Trips, m.Config, m.Sampled, m.Configs = turns, l.Config, l.Sampled, l.Configs
		if best == nil || m.Cost != nil && m.Cost.Time < best.Cost.Time {
			best = m
		}
	}
	if best == nil {
		return nil, refused
	}
	return best, nil
}
