// Command release makes what people install, in a new folder: the program for three machines, the source, a wheel of JAX packages for
// published models, one of functions of torch, and their checksums.
//
//	go run ./cmd/release --version v0.1.0 --out dist
//	cmd/release/try dist      # installs each in an empty folder and runs its first example
//	go run ./cmd/release site --out site   # a static gallery: docs with search, schedules, searches, charts
//
// It wants Go, git, a C compiler, and nothing else; the working tree must be clean, since the source is that of the commit.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// machines are the platforms of the release. With cgo the program runs kernels; elsewhere it generates, checks and explains.
var machines = []struct {
	system, arch string
	cgo          bool
}{{"linux", "amd64", true}, {"linux", "arm64", false}, {"darwin", "arm64", false}}

// extraFiles are the files and folders in each archive: docs, and the examples that need nothing else.
var extraFiles = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "examples/README.md", "examples/jax", "examples/notebook", "examples/proposer", "examples/agent"}

var semver = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$`)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "site" {
		f := flag.NewFlagSet("release site", flag.ExitOnError)
		out, compile := f.String("out", "site", "the new folder"), f.Bool("compile", false, "make the stored schedules anew first: an hour of compiles, but for those in the cache")
		f.Parse(os.Args[2:])
		if err := gallery(*out, *compile); err != nil {
			fmt.Fprintln(os.Stderr, "release site:", err)
			os.Exit(1)
		}
		return
	}
	version := flag.String("version", "", "what the release is called, such as v0.1.0")
	out := flag.String("out", "dist", "the new folder")
	only := flag.String("only", "", "some of programs, source, wheel, torch, separated by commas; all by default")
	flag.Parse()
	if err := release(*version, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(version, out, only string) error {
	if !semver.MatchString(version) {
		return fmt.Errorf("--version %q: want a version such as v0.1.0", version)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: name a new folder", out)
	}
	changed, err := exec.Command("git", "status", "--porcelain").Output()
	if err != nil {
		return fmt.Errorf("git status: %w", err)
	}
	if len(changed) > 0 {
		return fmt.Errorf("the working tree has changes, which the source would lack: commit them first\n%s", changed)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(version, out string) error
	}{{"programs", programs}, {"source", source}, {"wheel", wheel}, {"torch", torchWheel}} {
		if only != "" && !slices.Contains(strings.Split(only, ","), step.name) {
			continue
		}
		fmt.Println(step.name)
		if err := step.do(version, out); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return sums(out)
}

// programs builds gdngen for each machine, and packs each with its files.
func programs(version, out string) error {
	list, err := exec.Command("git", append([]string{"ls-files", "--"}, extraFiles...)...).Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, m := range machines {
		name := fmt.Sprintf("gdngen_%s_%s_%s", strings.TrimPrefix(version, "v"), m.system, m.arch)
		dir := filepath.Join(out, name)
		if err := build(version, m.system, m.arch, m.cgo, filepath.Join(dir, "gdngen")); err != nil {
			return err
		}
		for _, f := range strings.Fields(string(list)) {
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, f), data, 0o644); err != nil {
				return err
			}
		}
		if err := run(nil, "tar", "-C", out, "-czf", dir+".tar.gz", name); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// stamps is the package whose variables hold the version and the commit.
const stamps = "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// build builds gdngen with its version and commit stamped in; system and arch are empty for this machine.
func build(version, system, arch string, cgo bool, path string) error {
	env := []string{"CGO_ENABLED=" + map[bool]string{false: "0", true: "1"}[cgo]}
	if system != "" {
		env = append(env, "GOOS="+system, "GOARCH="+arch)
	}
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	flags := fmt.Sprintf("-s -w -X %s.stamped=%s -X %s.commit=%s", stamps, version, stamps, bytes.TrimSpace(commit))
	return run(env, "go", "build", "-trimpath", "-ldflags", flags, "-o", path, "./cmd/gdngen")
}

// source packs the files of the commit.
func source(version, out string) error {
	name := "gdngen-" + strings.TrimPrefix(version, "v")
	return run(nil, "git", "archive", "--format=tar.gz", "--prefix="+name+"/", "-o", filepath.Join(out, name+".tar.gz"), "HEAD")
}

// sums writes SHA256SUMS, in the format of sha256sum -c.
func sums(out string) error {
	files, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	fmt.Print(text.String())
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

// run runs a program with additional environment variables; its output goes to standard error.
func run(env []string, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return nil
}
