package plugins

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/pjrt"
)

// probe is a small release whose wheel is in the directory links.
func probe(t *testing.T) (r release, links string) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		require.NotEqual(t, "true", os.Getenv("CI"), "CI runs where the releases are for")
		t.Skip("the releases are for linux/amd64")
	}
	t.Setenv(CacheEnv, filepath.Join(t.TempDir(), "cache"))
	library := bytes.Repeat([]byte("library "), 1000)
	var wheel bytes.Buffer
	w := zip.NewWriter(&wheel)
	for _, f := range [][2]string{
		{"gdngen_probe/lib.so", string(library)},
		{"gdngen_probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: gdngen-probe\nVersion: 1.0\n"},
		{"gdngen_probe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_31_x86_64\n"},
		{"gdngen_probe-1.0.dist-info/RECORD", ""},
	} {
		m, err := w.Create(f[0])
		require.NoError(t, err)
		_, err = m.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	links = t.TempDir()
	name := filepath.Join(links, "gdngen_probe-1.0-cp311-cp311-manylinux_2_31_x86_64.whl")
	require.NoError(t, os.WriteFile(name, wheel.Bytes(), 0o644))
	sum := sha256.Sum256(wheel.Bytes())
	return release{
		name: "gdngen-probe", version: "1.0", env: "GDNGEN_PROBE", platform: "manylinux_2_31_x86_64",
		sha256: hex.EncodeToString(sum[:]), bytes: int64(wheel.Len()),
		library: "gdngen_probe/lib.so", size: int64(len(library)),
	}, links
}

// withPip points the machine's own pip at a directory of wheels, or at an index.
func withPip(t *testing.T, links, index string) {
	t.Helper()
	if c := checkPip(context.Background(), false); !c.OK {
		if os.Getenv("CI") == "true" {
			t.Fatal(c.Detail)
		}
		t.Skip(c.Detail)
	}
	t.Setenv("PIP_CONFIG_FILE", os.DevNull)
	t.Setenv("PIP_FIND_LINKS", links)
	t.Setenv("PIP_INDEX_URL", index)
	t.Setenv("PIP_EXTRA_INDEX_URL", "")
	t.Setenv("PIP_NO_INDEX", "")
	if index == "" {
		t.Setenv("PIP_NO_INDEX", "1")
	}
}

// withPython puts a shell script in the place of Python. In it, $dest is where pip should leave the wheel.
func withPython(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --dest ] && dest=$2; shift; done\n" + script + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte(text), 0o755))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func requireMissing(t *testing.T, err error, why Reason, detail string) {
	t.Helper()
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, why, missing.Why, missing.Error())
	require.Contains(t, missing.Detail, detail)
	require.NotEmpty(t, missing.Mend)
	require.Contains(t, missing.Error(), missing.Plugin)
}

// onlyLibraries demands that the cache holds no working files.
func onlyLibraries(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.Getenv(CacheEnv), "plugins", "*", "*"))
	require.NoError(t, err)
	for _, path := range left {
		require.Equal(t, "lib.so", filepath.Base(path))
	}
	hidden, err := filepath.Glob(filepath.Join(os.Getenv(CacheEnv), "plugins", "*", workPrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, hidden)
}

func TestDownloadByPip(t *testing.T) {
	r, links := probe(t)
	withPip(t, links, "")
	var progress bytes.Buffer
	p, err := r.obtain(context.Background(), Options{Progress: &progress})
	require.NoError(t, err)
	require.Equal(t, Plugin{Name: "gdngen-probe", Version: "1.0", Path: p.Path, Source: "download"}, p)
	require.True(t, r.present(p.Path))
	require.Contains(t, progress.String(), "downloading gdngen-probe 1.0")
	require.Contains(t, progress.String(), "done in")
	require.NotContains(t, progress.String(), "\r")
	onlyLibraries(t)

	p, err = r.obtain(context.Background(), Options{Offline: true})
	require.NoError(t, err)
	require.Equal(t, "cache", p.Source)

	// a cut library is not taken for a whole one
	require.NoError(t, os.Truncate(p.Path, 10))
	_, err = r.obtain(context.Background(), Options{Offline: true})
	requireMissing(t, err, Offline, "not in the cache")
	p, err = r.obtain(context.Background(), Options{})
	require.NoError(t, err)
	require.Equal(t, "download", p.Source)

	dir, entries, size, err := Cache()
	require.NoError(t, err)
	require.Equal(t, []Entry{{"gdngen-probe-1.0", r.size}}, entries)
	require.Equal(t, r.size, size)
	require.Equal(t, filepath.Join(os.Getenv(CacheEnv), "plugins"), dir)
	freed, err := Clean(context.Background())
	require.NoError(t, err)
	require.Equal(t, r.size, freed)
	_, entries, _, err = Cache()
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestPipFailures(t *testing.T) {
	r, links := probe(t)
	obtain := func(r release) error {
		_, err := r.obtain(context.Background(), Options{})
		onlyLibraries(t)
		return err
	}
	t.Run("hash", func(t *testing.T) {
		withPip(t, links, "")
		r := r
		r.sha256 = strings.Repeat("0", 64)
		requireMissing(t, obtain(r), HashMismatch, "HASHES")
	})
	t.Run("release", func(t *testing.T) {
		withPip(t, t.TempDir(), "")
		requireMissing(t, obtain(r), NotFound, "gdngen-probe")
	})
	t.Run("network", func(t *testing.T) {
		withPip(t, "", "http://127.0.0.1:9/simple")
		requireMissing(t, obtain(r), NoNetwork, "")
	})
	t.Run("no python", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		requireMissing(t, obtain(r), NoPython, "PATH")
	})
	for _, c := range []struct {
		script string
		why    Reason
		detail string
	}{
		{"echo /usr/bin/python3: No module named pip >&2; exit 1", NoPip, "No module named pip"},
		{"echo 'ERROR: Could not install: [Errno 28] No space left on device' >&2; exit 1", NoDisk, "No space left"},
		{"echo one; echo two; echo three; echo four; exit 7", Failed, "two / three / four"},
		{"exit 1", Failed, "exit status 1"},
		{"exit 0", Failed, "0 wheels"},
		{`mkdir -p "$dest"; echo forged > "$dest/x.whl"`, HashMismatch, "pinned is " + r.sha256},
	} {
		t.Run(c.detail, func(t *testing.T) {
			withPython(t, c.script)
			requireMissing(t, obtain(r), c.why, c.detail)
		})
	}
	t.Run("disk too small", func(t *testing.T) {
		r := r
		r.bytes = 1 << 60
		requireMissing(t, obtain(r), NoDisk, "are needed")
	})
	t.Run("cache not a directory", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o644))
		t.Setenv(CacheEnv, file)
		_, err := r.obtain(context.Background(), Options{})
		requireMissing(t, err, NoCache, "not a directory")
		c := checkCache(false)
		require.False(t, c.OK)
		require.NotEmpty(t, c.Mend)
	})
}

// Several processes at once: one downloads, the others wait and take its result.
func TestConcurrentDownloads(t *testing.T) {
	r, links := probe(t)
	calls := filepath.Join(t.TempDir(), "calls")
	withPython(t, fmt.Sprintf("echo call >> %s; sleep 0.3; mkdir -p \"$dest\"; cp %s/*.whl \"$dest\"", calls, links))
	var group sync.WaitGroup
	sources := make([]string, 4)
	for i := range sources {
		group.Go(func() {
			p, err := r.obtain(context.Background(), Options{})
			if err != nil {
				t.Error(err)
			}
			sources[i] = p.Source
		})
	}
	group.Wait()
	data, err := os.ReadFile(calls)
	require.NoError(t, err)
	require.Equal(t, "call\n", string(data))
	require.ElementsMatch(t, []string{"download", "cache", "cache", "cache"}, sources)
}

func TestCancel(t *testing.T) {
	r, _ := probe(t)
	withPython(t, "exec sleep 60")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := r.obtain(ctx, Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var missing *MissingError
	require.False(t, errors.As(err, &missing), "a cancelled download is not a missing plugin")
	require.Less(t, time.Since(start), 10*time.Second)
	onlyLibraries(t)
}

func TestLeftoversOfAKilledDownload(t *testing.T) {
	r, links := probe(t)
	withPython(t, fmt.Sprintf("mkdir -p \"$dest\"; cp %s/*.whl \"$dest\"", links))
	cache, err := CacheDir()
	require.NoError(t, err)
	stale := filepath.Join(filepath.Dir(r.cached(cache)), workPrefix+"stale")
	require.NoError(t, os.MkdirAll(stale, 0o755))
	_, err = r.obtain(context.Background(), Options{})
	require.NoError(t, err)
	require.NoDirExists(t, stale)
}

func TestNamedLibraries(t *testing.T) {
	r, _ := probe(t)
	library := filepath.Join(t.TempDir(), "mine.so")
	require.NoError(t, os.WriteFile(library, nil, 0o644))

	p, err := r.obtain(context.Background(), Options{Path: library, Offline: true})
	require.NoError(t, err)
	require.Equal(t, Plugin{Name: r.name, Path: library, Source: "option"}, p)
	t.Setenv(r.env, library)
	p, err = r.obtain(context.Background(), Options{Offline: true})
	require.NoError(t, err)
	require.Equal(t, "environment", p.Source)

	_, err = r.obtain(context.Background(), Options{Path: library + "x"})
	requireMissing(t, err, NoFile, "mine.sox")
	require.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv(r.env, filepath.Dir(library))
	_, err = r.obtain(context.Background(), Options{})
	requireMissing(t, err, NoFile, "is not a file")
}

func TestPCI(t *testing.T) {
	root := t.TempDir()
	for i, d := range []pciDevice{
		{"0x1ae0", "0x0063", "0x120000"}, {"0x1ae0", "0x006f", "0x120000"}, {"0x1ae0", "0x001f", "0x010802"}, // the last a disk
		{"0x10de", "0x2330", "0x030200"}, {"0x10de", "0x22a3", "0x068000"}, {"0x1002", "0x74a1", "0x120000"}, {"0x8086", "0x0063", "0x020000"},
	} {
		dir := filepath.Join(root, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(dir, 0o755))
		for name, text := range map[string]string{"vendor": d.vendor, "device": d.device, "class": d.class} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644))
		}
	}
	devices := listPCI(root)
	require.Equal(t, []string{"v5e", "v6e"}, tpusOf(devices))
	require.Equal(t, []string{"NVIDIA", "AMD"}, gpusOf(devices))
	require.Empty(t, listPCI(filepath.Join(root, "none")))
	require.Equal(t, "2 attached: v5e, v6e", checkDevices("TPU", tpusOf(devices)).Detail)
	require.Equal(t, Check{Name: "TPU", OK: true, Detail: "no TPU attached"}, checkDevices("TPU", nil))
}

func TestDoctor(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	t.Setenv(cpuRelease.env, "")
	t.Setenv(tpuRelease.env, "")
	find := func(checks []Check, name string) Check {
		for _, c := range checks {
			if c.Name == name {
				return c
			}
		}
		require.Fail(t, "no check", name)
		return Check{}
	}
	checks := Doctor(context.Background())
	require.True(t, find(checks, "go").OK)
	require.True(t, find(checks, "cache").OK)
	for _, c := range checks {
		require.NotEmpty(t, c.Detail, c.Name)
		require.Equal(t, c.OK, c.Mend == "", c.Name)
	}
	for _, name := range []string{"CPU plugin", "libtpu"} {
		c := find(checks, name)
		require.False(t, c.OK)
		require.Contains(t, c.Mend, "gdngen setup")
	}

	if !pjrt.HasCgo {
		require.Contains(t, find(checks, "C compiler").Mend, "CGO_ENABLED=1")
		return
	}
	bad := filepath.Join(t.TempDir(), "bad.so")
	require.NoError(t, os.WriteFile(bad, []byte("bad"), 0o644))
	t.Setenv(cpuRelease.env, bad)
	c := find(Doctor(context.Background()), "CPU plugin")
	require.False(t, c.OK)
	require.Contains(t, c.Detail, "not a shared library")
}

// A pinned library of the right size with another byte is named by doctor and setup, and is not loaded.
func TestMain(m *testing.M) {
	RunTrialIfAsked()
	os.Exit(m.Run())
}

// A library that ends the process that loads it is a sentence, and one that is none too.
func TestTry(t *testing.T) {
	p, err := CPU(t.Context(), Options{})
	require.NoError(t, err)
	version, err := Try(t.Context(), p.Path)
	require.NoError(t, err)
	require.NotEmpty(t, version)
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	require.NoError(t, os.WriteFile(text, []byte("text"), 0o644))
	_, err = Try(t.Context(), text)
	require.ErrorContains(t, err, "text.so")

	source, deadly := filepath.Join(dir, "x.c"), filepath.Join(dir, "deadly.so")
	require.NoError(t, os.WriteFile(source, []byte("__attribute__((constructor)) static void f(void) { *(volatile int *)8 = 1; } void *GetPjrtApi(void) { return 0; }"), 0o644))
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", deadly, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = Try(t.Context(), deadly)
	require.ErrorContains(t, err, "deadly.so ends the process that loads it")
	c := checkCPU(t.Context(), Plugin{Path: deadly, Source: "environment"}, nil)
	require.False(t, c.OK)
	require.Equal(t, "name another library", c.Mend)
	_, _, err = Plugin{Path: deadly}.Open(t.Context())
	require.ErrorContains(t, err, "ends the process that loads it")
}

// A pinned library is compared with its checksum where who had it open did not close it.
func TestMarks(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	p := Plugin{Name: "probe", Path: filepath.Join(t.TempDir(), "probe-1.0", "lib.so"), sum: "x"}
	crashed, unmark := p.mark()
	require.False(t, crashed)
	other, done := p.mark()
	require.False(t, other, "its owner lives")
	done()
	unmark()
	dir := filepath.Join(os.Getenv(CacheEnv), "open")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "probe-1.0-77"), nil, 0o600), "left by one that died")
	_, _, err = p.Open(t.Context())
	missing := (*MissingError)(nil)
	require.ErrorAs(t, err, &missing)
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	require.NoError(t, os.WriteFile(path, []byte("library"), 0o644))
	sum := sha256.Sum256([]byte("library"))
	p := Plugin{Name: "probe", Version: "1.0", Path: path, Source: "cache", sum: hex.EncodeToString(sum[:])}
	require.NoError(t, p.Damaged())
	require.Contains(t, pluginCheck("probe", p, nil).Detail, "SHA-256 as pinned")

	require.NoError(t, os.WriteFile(path, []byte("librarz"), 0o644))
	c := checkCPU(t.Context(), p, nil)
	require.False(t, c.OK)
	require.Contains(t, c.Detail, "hash mismatch: "+path+" has SHA-256")
	require.Equal(t, "remove "+filepath.Dir(path)+" and run `gdngen setup`", c.Mend)

	p.sum = "" // of the user's choice
	require.NoError(t, p.Damaged())
}

func TestMissingTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	c := checkPip(context.Background(), false)
	require.False(t, c.OK)
	require.Contains(t, c.Detail, "no python3")
	require.True(t, checkPip(context.Background(), true).OK, "not needed when the plugins are present")
	require.Contains(t, checkCompiler("").Detail, "none in PATH")
	require.Contains(t, checkCompiler("nonesuch-cc -m64").Detail, "none in PATH")
}

// The pinned CPU plugin comes through the real way and loads.
func TestCPU(t *testing.T) {
	p, err := CPU(context.Background(), Options{})
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	c := checkCPU(t.Context(), p, nil)
	require.True(t, c.OK, c.Detail)
	if pjrt.HasCgo {
		require.Contains(t, c.Detail, "loads, PJRT 0.")
	}
}

// The release of a library that the user named is that of the wheel it is in.
func TestReleaseOfWheel(t *testing.T) {
	for path, want := range map[string]string{
		"site-packages/libtpu/libtpu.so":                           "libtpu 0.0.46",
		"nightly/libtpu/libtpu.so":                                 "libtpu 0.1.dev20250101",
		"libtpu-0.0.30-py3-none-manylinux_2_31_x86_64/libtpu/x.so": "libtpu 0.0.30",
		"libtpu-0.0.42.1/libtpu.so":                                "libtpu 0.0.42.1",
		"libtpu-dev/libtpu.so":                                     "",
		"a/b/c/d/libtpu.so":                                        "",
	} {
		root := t.TempDir()
		for _, info := range []string{"site-packages/libtpu-0.0.46.dist-info", "nightly/libtpu_nightly-0.1.dev20250101.dist-info"} {
			require.NoError(t, os.MkdirAll(filepath.Join(root, info), 0o755))
		}
		p := Plugin{Name: "libtpu", Path: filepath.Join(root, path)}
		require.NoError(t, os.MkdirAll(filepath.Dir(p.Path), 0o755))
		require.NoError(t, os.WriteFile(p.Path, nil, 0o644))
		if want == "" {
			want = "libtpu of unknown version at " + p.Path
		}
		require.Equal(t, want, p.Release())
		link := filepath.Join(t.TempDir(), "libtpu.so")
		require.NoError(t, os.Symlink(p.Path, link))
		linked := Plugin{Name: "libtpu", Path: link}
		require.Equal(t, strings.Replace(want, p.Path, link, 1), linked.Release())
	}
}
