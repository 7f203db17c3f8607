// Package plugins obtains the pinned PJRT plugins that gdngen runs and compiles with, and diagnoses what a machine has and lacks.
//
// A plugin is taken from the first of: the caller's path; the plugin's environment variable (GDNGEN_CPU_PLUGIN, GDNGEN_LIBTPU,
// GDNGEN_CUDA_PLUGIN); the user's cache; a download into that cache by pip, verified against a pinned SHA-256. The cache is the
// directory gdngen in the user's cache directory, or GDNGEN_CACHE.
package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gdngen/gdngen/internal/disk"
)

// CacheEnv names the environment variable that moves the cache.
const CacheEnv = "GDNGEN_CACHE"

// Plugin is a plugin ready to be loaded.
type Plugin struct {
	Name    string
	Version string // the pinned version; "" for a library of the user's choice
	Path    string // absolute path of the shared library
	Source  string // where it was found: "option", "environment", "cache" or "download"
	sum     string // SHA-256 of the pinned library; "" for a library of the user's choice
}

// Release returns the plugin's name and release: the pinned one, or the release of the wheel that a user's library is from.
func (p Plugin) Release() string {
	if v := cmp.Or(p.Version, p.releaseOf()); v != "" {
		return p.Name + " " + v
	}
	return p.Name + " of unknown version at " + p.Path
}

// releaseOf returns the release of a library's wheel, from its dist-info or from the name of the folder it was unpacked to, such as
// libtpu-0.0.46-py3-none-any; "" if unknown.
func (p Plugin) releaseOf() string {
	library, err := filepath.EvalSymlinks(p.Path)
	if err != nil {
		library = p.Path
	}
	for dir, depth := filepath.Dir(library), 0; depth < 3; dir, depth = filepath.Dir(dir), depth+1 {
		infos, _ := filepath.Glob(filepath.Join(dir, p.Name+"*-*.dist-info")) // of libtpu, or libtpu_nightly
		if len(infos) == 1 {
			_, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(infos[0]), ".dist-info"), "-")
			return version
		}
		version, ok := strings.CutPrefix(filepath.Base(dir), p.Name+"-")
		if version, _, _ = strings.Cut(version, "-"); ok && version != "" && version[0] >= '0' && version[0] <= '9' {
			return version
		}
	}
	return ""
}

// Identity identifies a build: by its release; a library of the user's choice also by the start of its checksum.
func (p Plugin) Identity() (string, error) {
	if p.Version != "" {
		return p.Version, nil
	}
	sum, err := disk.Sum(p.Path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(p.releaseOf() + " sha256:" + sum[:16]), nil
}

// Pinned reports whether the library's checksum is known, so that Damaged can compare it.
func (p Plugin) Pinned() bool { return p.sum != "" }

// Damaged returns a *MissingError if a pinned library does not match its checksum. It reads the whole file, about 200 to 600 MB. For
// other libraries it returns nil.
func (p Plugin) Damaged() error {
	if !p.Pinned() {
		return nil
	}
	mend := "remove " + filepath.Dir(p.Path) + " and run `gdngen setup`"
	switch sum, err := disk.Sum(p.Path); {
	case err != nil:
		return &MissingError{Plugin: p.Release(), Why: NoFile, Detail: err.Error(), Mend: mend, Err: err}
	case sum != p.sum:
		return &MissingError{Plugin: p.Release(), Why: HashMismatch, Detail: fmt.Sprintf("%s has SHA-256 %s, pinned is %s", p.Path, sum, p.sum), Mend: mend}
	}
	return nil
}

// Options says how to look for a plugin.
type Options struct {
	Path     string    // use this library; "" to search
	Progress io.Writer // receives lines about a download, redrawn in place on a terminal; may be nil
	Offline  bool      // never download
	Verify   bool      // Obtain compares pinned libraries with their checksums
}

// CPU obtains the plugin that runs programs on the CPU.
func CPU(ctx context.Context, opts Options) (Plugin, error) { return cpuRelease.obtain(ctx, opts) }

// TPU obtains libtpu, which compiles for TPUs, attached or not.
func TPU(ctx context.Context, opts Options) (Plugin, error) { return tpuRelease.obtain(ctx, opts) }

// MissingError says why a plugin could not be obtained.
type MissingError struct {
	Plugin string // the missing plugin
	Why    Reason
	Detail string // what happened
	Mend   string // how the user can fix it
	Err    error  // the cause, or nil
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("plugin %s is missing: %s: %s; %s", e.Plugin, e.Why, e.Detail, e.Mend)
}

func (e *MissingError) Unwrap() error { return e.Err }

// Reason is the reason why a plugin is missing.
type Reason string

// The reasons.
const (
	NoFile       Reason = "no such library"
	NoPlatform   Reason = "no build for this platform"
	Offline      Reason = "offline"
	NoPython     Reason = "no Python"
	NoPip        Reason = "no pip"
	NoNetwork    Reason = "no network"
	NotFound     Reason = "no such release"
	HashMismatch Reason = "hash mismatch"
	NoDisk       Reason = "no disk space"
	NoCache      Reason = "cache not usable"
	Failed       Reason = "download failed"
)

// release is one pinned plugin: a wheel, and the library in it.
type release struct {
	name     string
	version  string
	env      string // environment variable with the path of another build
	platform string // platform tag of the wheel
	sha256   string // of the wheel
	bytes    int64  // of the wheel
	library  string // path in the wheel
	size     int64  // of the library
	sum      string // SHA-256 of the library
	folder   string // its folder in the cache, if shared with other releases; "": its own
	place    string // path in the folder; "": the last part of library
	setup    string // the command that downloads it; "": gdngen setup
}

var (
	cpuRelease = release{
		name: "lammps-jax-pjrt-cpu", version: "0.11.2", env: "GDNGEN_CPU_PLUGIN",
		platform: "manylinux_2_27_x86_64",
		sha256:   "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1", bytes: 62711338,
		library: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", size: 201600336,
		sum: "ad1309ac822b1b24d51b7f9947c7c9fa9ef5d67f390584cbc3d1fa2428fed9c2",
	}
	tpuRelease = release{
		name: "libtpu", version: "0.0.51", env: "GDNGEN_LIBTPU",
		platform: "manylinux_2_31_x86_64",
		sha256:   "ba67ddbfdbac61c8da1fafc26cd51b93e9fe4d298016e2882eb986b1718cba34", bytes: 204805508,
		library: "libtpu/libtpu.so", size: 574812664,
		sum: "ad0b2a3bc5d4de96f653b3701aaed8769a691776ca0e14c791dcdca785d43e42",
	}
)

// missing returns an error about the release.
func (r release) missing(why Reason, detail, mend string, err error) *MissingError {
	return &MissingError{Plugin: r.name + " " + r.version, Why: why, Detail: detail, Mend: mend, Err: err}
}

// obtain finds or downloads the release, in the order of the package comment.
func (r release) obtain(ctx context.Context, opts Options) (Plugin, error) {
	if opts.Path != "" {
		return r.named(opts.Path, "option", "check the path given")
	}
	if path := os.Getenv(r.env); path != "" {
		return r.named(path, "environment", "correct or unset "+r.env)
	}
	cache, err := CacheDir()
	if err != nil {
		return Plugin{}, r.missing(NoCache, err.Error(), "set "+CacheEnv+" to a directory that can be written", err)
	}
	p := Plugin{Name: r.name, Version: r.version, Path: r.cached(cache), Source: "cache", sum: r.sum}
	if r.present(p.Path) {
		return p, nil
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return Plugin{}, r.missing(NoPlatform, "the pinned build is for linux/amd64, this is "+runtime.GOOS+"/"+runtime.GOARCH,
			"set "+r.env+" to a PJRT plugin built for it", nil)
	}
	if opts.Offline {
		return Plugin{}, r.missing(Offline, "it is not in the cache and downloads are off",
			"run `"+cmp.Or(r.setup, "gdngen setup")+"` while connected, or set "+r.env, nil)
	}
	fetched, err := r.download(ctx, cache, opts.Progress)
	if err != nil {
		var missing *MissingError
		if ctx.Err() != nil {
			return Plugin{}, fmt.Errorf("obtaining %s %s: %w", r.name, r.version, context.Cause(ctx))
		}
		if !errors.As(err, &missing) {
			missing = r.missing(NoCache, err.Error(), "check the directory, or set "+CacheEnv+" to another", err)
		}
		return Plugin{}, missing
	}
	if fetched {
		p.Source = "download"
	}
	return p, nil
}

// named returns a library of the user's choice.
func (r release) named(path, source, mend string) (Plugin, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(abs); err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a file", abs)
		}
	}
	if err != nil {
		return Plugin{}, r.missing(NoFile, err.Error(), mend, err)
	}
	return Plugin{Name: r.name, Path: abs, Source: source}, nil
}

// dir returns the release's folder in a cache directory.
func (r release) dir(cache string) string {
	return filepath.Join(cache, "plugins", cmp.Or(r.folder, r.name+"-"+r.version))
}

// cached returns the library's path in a cache directory.
func (r release) cached(cache string) string {
	return filepath.Join(r.dir(cache), cmp.Or(r.place, filepath.Base(r.library)))
}

// present reports whether a complete library is at path. Libraries are renamed into place, so checking the size suffices.
func (r release) present(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == r.size
}
