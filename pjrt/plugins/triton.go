package plugins

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// TritonEnv names the environment variable with a Python that has triton and numpy, instead of the pinned packages.
const TritonEnv = "GDNGEN_TRITON"

//go:embed triton.txt
var tritonPins string

// tritonRelease describes Triton for errors. Sizes are the sums for its wheel and NumPy's, packed and unpacked.
var tritonRelease = release{name: "triton", version: "3.9.0", env: TritonEnv, bytes: 289 << 20, size: 1056 << 20}

// Python is an interpreter with its packages.
type Python struct {
	Path     string // of the interpreter
	Packages string // a directory that is searched for packages first; "" if the interpreter has them
	Version  string // of the pinned package; "" for an interpreter of the user's choice
	Source   string // "environment", "cache" or "download"
}

// Command returns a command that runs the interpreter with its packages, and without the user's.
func (p Python) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.Path, append([]string{"-s"}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if p.Packages != "" {
		cmd.Env = append(cmd.Env, "PYTHONPATH="+p.Packages)
	}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Triton obtains Triton, which compiles and interprets GPU kernels without a GPU: from GDNGEN_TRITON, the cache, or a download of about
// 289 MiB with pinned hashes. Only GPU targets need it.
func Triton(ctx context.Context, opts Options) (Python, error) {
	r := tritonRelease
	if path := os.Getenv(TritonEnv); path != "" {
		p := Python{Path: path, Source: "environment"}
		if out, err := p.Command(ctx, "-c", "import numpy, triton").CombinedOutput(); err != nil {
			return Python{}, r.missing(NoFile, fmt.Sprintf("%s can not import numpy and triton: %s", path, lastLine(out, err)), "correct or unset "+TritonEnv, err)
		}
		return p, nil
	}
	cache, err := CacheDir()
	if err != nil {
		return Python{}, r.missing(NoCache, err.Error(), "set "+CacheEnv+" to a directory that can be written", err)
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return Python{}, r.missing(NoPlatform, "the pinned build is for linux/amd64, this is "+runtime.GOOS+"/"+runtime.GOARCH, "set "+TritonEnv+" to a Python that has it", nil)
	}
	python, tag, err := r.findTag(ctx)
	if err != nil {
		return Python{}, err
	}
	p := Python{Path: python, Packages: filepath.Join(cache, "plugins", r.name+"-"+r.version+"-"+tag), Version: r.version, Source: "cache"}
	if isDir(p.Packages) {
		return p, nil
	}
	if opts.Offline {
		return Python{}, r.missing(Offline, "it is not in the cache and downloads are off", "run `gdngen setup --only gpu` while connected, or set "+TritonEnv, nil)
	}
	if err := r.install(ctx, p, opts.Progress); err != nil {
		if ctx.Err() != nil {
			return Python{}, fmt.Errorf("obtaining %s %s: %w", r.name, r.version, context.Cause(ctx))
		}
		if missing := (*MissingError)(nil); !errors.As(err, &missing) {
			err = r.missing(NoCache, err.Error(), "check the directory, or set "+CacheEnv+" to another", err)
		}
		return Python{}, err
	}
	p.Source = "download"
	return p, nil
}

// findTag returns a Python for which there are pinned packages, and its tag, such as cp311.
func (r release) findTag(ctx context.Context) (path, tag string, err error) {
	mend := "install CPython 3.11 to 3.13, or set " + r.env + " to a Python with triton and numpy"
	var seen []string
	for _, name := range []string{"python3", "python3.12", "python3.11", "python3.13", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "-c", "import sys; print(sys.executable, 'cp%d%d' % sys.version_info[:2])").Output()
		executable, tag, ok := strings.Cut(strings.TrimSpace(string(out)), " cp")
		if err != nil || !ok {
			continue
		}
		switch tag {
		case "311", "312", "313":
			return executable, "cp" + tag, nil
		}
		seen = append(seen, path+" is cp"+tag)
	}
	detail := "there is no python3 in PATH that runs"
	if len(seen) > 0 {
		detail = strings.Join(seen, ", ")
	}
	return "", "", r.missing(NoPython, detail, mend, nil)
}

// install puts the packages into the cache by pip, all or none.
func (r release) install(ctx context.Context, p Python, progress io.Writer) error {
	parent := filepath.Dir(p.Packages)
	unlock, err := lock(ctx, filepath.Join(parent, r.name), func() { report(progress, "waiting for another process that downloads %s %s", r.name, r.version) })
	if err != nil {
		return err
	}
	defer unlock()
	if isDir(p.Packages) {
		return nil
	}
	removeLeftovers(parent)
	if need, free := uint64(r.bytes+r.size+spare), freeSpace(parent); free < need {
		return r.noDisk(fmt.Sprintf("%s has %s free, %s are needed", parent, mib(int64(free)), mib(int64(need))), nil)
	}
	work, err := os.MkdirTemp(parent, workPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	requirements, packages := filepath.Join(work, "requirements.txt"), filepath.Join(work, "packages")
	if err := os.WriteFile(requirements, []byte(tritonPins), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, p.Path, "-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", requirements,
		"--target", packages, "--no-compile", "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2")
	cmd.Env = append(os.Environ(), "TMPDIR="+work, "PIP_REQUIRE_VIRTUALENV=false", "PYTHONWARNINGS=ignore")
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	done := watch(progress, fmt.Sprintf("downloading %s %s and numpy, once, for targets that are GPUs", r.name, r.version), work, r.bytes)
	err = cmd.Run()
	done(err == nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return r.explain(output.String(), err)
	}
	if err := os.Rename(packages, p.Packages); err != nil {
		return err
	}
	report(progress, "%s %s is at %s", r.name, r.version, p.Packages)
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// lastLine returns the last line of a program's output, or its error.
func lastLine(out []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}
