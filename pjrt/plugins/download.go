package plugins

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// workPrefix begins the names of working directories.
const workPrefix = ".work-"

// spare is the free disk space that a download must leave, in bytes.
const spare = 64 << 20

// download downloads the release and puts its library into the cache. fetched is false if another process was faster.
func (r release) download(ctx context.Context, cache string, progress io.Writer) (fetched bool, err error) {
	dir, path := r.dir(cache), r.cached(cache)
	unlock, err := lock(ctx, dir, func() {
		report(progress, "waiting for another process that downloads %s %s", r.name, r.version)
	})
	if err != nil {
		return false, err
	}
	defer unlock()
	if r.present(path) {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	removeLeftovers(dir)
	// pip briefly needs space for two copies of the wheel
	if need, free := uint64(2*r.bytes+r.size+spare), freeSpace(dir); free < need {
		return false, r.noDisk(fmt.Sprintf("%s has %s free, %s are needed", dir, mib(int64(free)), mib(int64(need))), nil)
	}
	work, err := os.MkdirTemp(dir, workPrefix)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	wheel, err := r.pip(ctx, work, progress)
	if err != nil {
		return false, err
	}
	library := filepath.Join(work, "library")
	if err := r.unpack(wheel, library); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return false, r.noDisk(err.Error(), err)
		}
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	if err := os.Rename(library, path); err != nil {
		return false, err
	}
	report(progress, "%s %s is at %s", r.name, r.version, path)
	return true, nil
}

func (r release) noDisk(detail string, err error) error {
	return r.missing(NoDisk, detail, "free some space, or set "+CacheEnv+" to a directory on another disk", err)
}

// pip downloads the wheel into work. The tags are given, so any Python 3 can do it.
func (r release) pip(ctx context.Context, work string, progress io.Writer) (wheel string, err error) {
	python, err := findPython()
	if err != nil {
		return "", r.missing(NoPython, "neither python3 nor python is in PATH, and the download needs its pip",
			"install Python 3, or set "+r.env+" to the library", err)
	}
	requirements := filepath.Join(work, "requirements.txt")
	line := fmt.Sprintf("%s==%s --hash=sha256:%s\n", r.name, r.version, r.sha256)
	if err := os.WriteFile(requirements, []byte(line), 0o644); err != nil {
		return "", err
	}
	out := filepath.Join(work, "out")
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes",
		"-r", requirements, "--platform", r.platform, "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311",
		"--dest", out, "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2")
	// pip's temporary files go to work too: they show the progress there, and are removed with it
	cmd.Env = append(os.Environ(), "TMPDIR="+work, "PIP_REQUIRE_VIRTUALENV=false", "PYTHONWARNINGS=ignore")
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	done := watch(progress, fmt.Sprintf("downloading %s %s", r.name, r.version), work, r.bytes)
	err = cmd.Run()
	done(err == nil)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", r.explain(output.String(), err)
	}
	wheels, err := filepath.Glob(filepath.Join(out, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", r.missing(Failed, fmt.Sprintf("pip left %d wheels", len(wheels)), "set "+r.env+" to the library", err)
	}
	return wheels[0], nil
}

func findPython() (string, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		path, err = exec.LookPath("python")
	}
	return path, err
}

// pip's messages when it fails, the most specific first.
var pipFailures = []struct {
	sign *regexp.Regexp
	why  Reason
	mend string
}{
	{regexp.MustCompile(`No module named '?(pip|ensurepip)`), NoPip, "install pip (python3 -m ensurepip, or the python3-pip package of your system)"},
	{regexp.MustCompile(`(?i)do not match the hashes|hash mismatch`), HashMismatch, "the package index served other bytes than the pinned ones: try another index or mirror"},
	{regexp.MustCompile(`(?i)no space left|errno 28\b|disk quota`), NoDisk, "free some space, or set " + CacheEnv + " to a directory on another disk"},
	{regexp.MustCompile(`(?i)connection broken|max retries|newconnectionerror|name resolution|timed out|timeouterror|unreachable|connection refused|proxyerror|sslerror`), NoNetwork, "check the connection and pip's index and proxy settings, then run `gdngen setup`"},
	{regexp.MustCompile(`(?i)no matching distribution`), NotFound, "check that pip's index offers this release for linux x86_64"},
}

// explain converts pip's output to a *MissingError.
func (r release) explain(output string, err error) error {
	or := ", or set " + r.env + " to the library"
	for _, f := range pipFailures {
		if at := f.sign.FindStringIndex(output); at != nil {
			return r.missing(f.why, lineAt(output, at[0]), f.mend+or, err)
		}
	}
	detail := err.Error()
	if lines := strings.Split(strings.TrimSpace(output), "\n"); lines[0] != "" {
		detail = strings.Join(lines[max(0, len(lines)-3):], " / ")
	}
	return r.missing(Failed, detail, "run `python3 -m pip download "+r.name+"=="+r.version+"` to see more"+or, err)
}

// lineAt returns the line of the text that contains byte i, cut to a readable length.
func lineAt(text string, i int) string {
	start := strings.LastIndexByte(text[:i], '\n') + 1
	line, _, _ := strings.Cut(text[start:], "\n")
	line = strings.TrimSpace(line)
	if len(line) > 300 {
		line = strings.ToValidUTF8(line[:300], "") + "..."
	}
	return line
}

// unpack verifies the wheel and writes its library to a file, complete and synced.
func (r release) unpack(wheel, library string) error {
	in, err := os.Open(wheel)
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != r.sha256 {
		return r.missing(HashMismatch, fmt.Sprintf("the wheel has SHA-256 %s, pinned is %s", got, r.sha256),
			"the package index served other bytes than the pinned ones: try another index or mirror", nil)
	}
	archive, err := zip.NewReader(in, size)
	if err != nil {
		return err
	}
	member, err := archive.Open(r.library)
	if err != nil {
		return err
	}
	defer member.Close()
	out, err := os.OpenFile(library, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, member)
	if err == nil && n != r.size {
		err = fmt.Errorf("%s in the wheel has %d bytes, expected %d", r.library, n, r.size)
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// freeSpace returns the bytes that a user may still write to dir's disk; a large number if unknown.
func freeSpace(dir string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 1 << 62
	}
	return uint64(s.Bavail) * uint64(s.Bsize)
}
