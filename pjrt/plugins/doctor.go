package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt"
)

// Check is one line of a diagnosis. A missing device is not a failure: only measuring needs it.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"` // how to fix it; "" if OK
}

// WriteChecks prints a diagnosis.
func WriteChecks(w io.Writer, checks []Check) {
	t := terminal.NewTable("CHECK", "STATUS", "DETAIL")
	for _, c := range checks {
		status := "ok"
		if !c.OK {
			status = "absent"
		}
		t.Add(c.Name, status, c.Detail)
		if c.Mend != "" {
			t.Add("", "", "to mend: "+c.Mend)
		}
	}
	t.Write(w)
}

// Doctor checks the machine: tools, cache, plugins and devices. It downloads nothing. A separate process loads the CPU plugin, if
// present.
func Doctor(ctx context.Context) []Check {
	cpu, cpuErr := CPU(ctx, Options{Offline: true})
	tpu, tpuErr := TPU(ctx, Options{Offline: true})
	complete := cpuErr == nil && tpuErr == nil
	pci := listPCI(pciRoot)
	checks := []Check{
		{Name: "go", OK: true, Detail: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		checkCompiler(os.Getenv("CC")),
		checkPip(ctx, complete),
		checkCache(complete),
		checkCPU(ctx, cpu, cpuErr),
		pluginCheck("libtpu", tpu, tpuErr),
	}
	checks = append(checks, checkGPUTools(ctx)...)
	return append(checks, checkDevices("TPU", tpusOf(pci)), checkDevices("GPU", gpusOf(pci)), checkMachine())
}

// checkCompiler looks for the C compiler that cgo needs; cc is the user's choice, maybe with arguments.
func checkCompiler(cc string) Check {
	c := Check{Name: "C compiler", OK: true}
	candidates := []string{"gcc", "clang", "cc"}
	if words := strings.Fields(cc); len(words) > 0 {
		candidates = words[:1]
	}
	for _, name := range candidates {
		if path, err := exec.LookPath(name); err == nil {
			c.Detail = path
			break
		}
	}
	switch {
	case !pjrt.HasCgo:
		c.OK = false
		c.Mend = "build gdngen again with CGO_ENABLED=1: running programs needs cgo"
		if c.Detail == "" {
			c.Detail, c.Mend = "none in PATH", "install gcc or clang, then "+c.Mend
		} else {
			c.Detail += ", but this binary was built without cgo"
		}
	case c.Detail == "":
		c.Detail = "none in PATH; this binary has what it needs, building from source would fail"
	}
	return c
}

// checkPip looks for pip, which is not needed once the plugins are present.
func checkPip(ctx context.Context, complete bool) Check {
	c := Check{Name: "python3 and pip"}
	python, err := findPython()
	if err != nil {
		c.Detail, c.Mend = "no python3 in PATH", "install Python 3 with pip"
	} else {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, python, "-m", "pip", "--version").CombinedOutput()
		version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " from ")
		c.OK, c.Detail = err == nil, python+", "+version
		if err != nil {
			c.Mend = "install pip (python3 -m ensurepip, or the python3-pip package of your system)"
		}
	}
	if !c.OK && complete {
		c.OK, c.Mend = true, ""
		c.Detail += " (not needed: the plugins are present)"
	}
	return c
}

// checkCache tries to write to the cache, and removes what it wrote.
func checkCache(complete bool) Check {
	c := Check{Name: "cache", Mend: "set " + CacheEnv + " to a directory that can be written and has 2 GiB free"}
	dir, err := CacheDir()
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	var probe *os.File
	if err == nil {
		probe, err = os.CreateTemp(dir, ".probe-")
	}
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	probe.Close()
	os.Remove(probe.Name())
	free := int64(freeSpace(dir))
	c.Detail = fmt.Sprintf("%s, %s free", dir, mib(free))
	if complete || free >= 2*(cpuRelease.bytes+tpuRelease.bytes)+cpuRelease.size+tpuRelease.size+spare {
		c.OK, c.Mend = true, ""
	}
	return c
}

func checkCPU(ctx context.Context, p Plugin, err error) Check {
	c := pluginCheck("CPU plugin", p, err)
	if !c.OK || !pjrt.HasCgo { // without cgo, the compiler's line has the reason
		return c
	}
	version, err := Try(ctx, p.Path)
	if err != nil {
		c.OK, c.Detail = false, err.Error()
		c.Mend = "remove " + filepath.Dir(p.Path) + " and run `gdngen setup`"
		if p.Source != "cache" {
			c.Mend = "name another library"
		}
		return c
	}
	c.Detail += "; loads, " + version
	return c
}

// pluginCheck says where a plugin is, and whether a pinned one is undamaged: a damaged library can crash the process that loads it.
func pluginCheck(name string, p Plugin, err error) Check {
	if err == nil {
		err = p.Damaged()
	}
	if err == nil {
		detail := strings.TrimSpace(p.Name+" "+p.Version) + " (" + p.Source + "): " + p.Path
		if p.Pinned() {
			detail += "; SHA-256 as pinned"
		}
		return Check{Name: name, OK: true, Detail: detail}
	}
	c := Check{Name: name, Detail: err.Error()}
	var missing *MissingError
	if errors.As(err, &missing) {
		c.Detail, c.Mend = fmt.Sprintf("%s: %s", missing.Why, missing.Detail), missing.Mend
	}
	return c
}

// checkMachine says who measures or computes now, and makes others wait.
func checkMachine() Check {
	c := Check{Name: "machine", OK: true, Detail: "nobody measures or computes"}
	lock, err := Machine(nil)
	if err != nil {
		return Check{Name: c.Name, Detail: err.Error(), Mend: "set " + CacheEnv + " to a directory that can be written"}
	}
	var names []string
	for _, h := range lock.Holders() {
		names = append(names, h.String())
	}
	if len(names) > 0 {
		c.Detail = strings.Join(names, "; ")
	}
	return c
}

func checkDevices(kind string, found []string) Check {
	if len(found) == 0 {
		return Check{Name: kind, OK: true, Detail: "no " + kind + " attached"}
	}
	return Check{Name: kind, OK: true, Detail: fmt.Sprintf("%d attached: %s", len(found), strings.Join(found, ", "))}
}
