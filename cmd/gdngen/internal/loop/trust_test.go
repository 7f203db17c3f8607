//go:build linux

package loop

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/tests/crash"
)

// verdicts runs a loop and gives the verdicts of its iterations.
func verdicts(t *testing.T, c Config) (l []Verdict, reasons string) {
	t.Helper()
	require.NoError(t, Run(t.Context(), c))
	for _, r := range ends(must(ReadRecords(c.Dir))) {
		l, reasons = append(l, r.Verdict), reasons+r.Reason+"\n"
	}
	return l, reasons
}

// The ways out of a sandbox that was none: each agent tries one, notes what it got in the file got, and is kept for its figure alone.
func TestWaysOut(t *testing.T) {
	boxes := available(t)
	for _, sandbox := range rotate.Sample(662, boxes, rotate.Short(len(boxes))) {
		t.Run(sandbox, func(t *testing.T) { waysOut(t, sandbox) })
	}
}

func waysOut(t *testing.T, sandbox string) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".ssh"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".config", "agent"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".ssh", "id_test"), []byte("PRIVATE"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".config", "agent", "key"), []byte("SHOWN"), 0o600))
	t.Setenv("HOME", home)
	t.Setenv("SECRET_X", "PRIVATE")
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	loop := func(t *testing.T, agent string) Config {
		c := bed(t, "HOST="+home+"; BIN="+bin+"; PORT="+port+"; R="+filepath.Join(dir, "reached")+"\n"+agent)
		c.Sandbox, c.Checks = sandbox, nil
		return c
	}
	got := func(t *testing.T, c Config) string { return sh(t, c.Repo, "git show gdngen-loop:got") }

	t.Run("programs for the loop", func(t *testing.T) { // the next git of the loop would run outside
		c := loop(t, `mkdir -p $BIN; for d in $BIN /usr/local/bin /usr/bin; do printf '#!/bin/sh\ntouch '$R'\nexec /usr/bin/git "$@"\n' > $d/git-of-agent && mv $d/git-of-agent $d/git; chmod +x $d/git; done 2>/dev/null
			echo $((90 - GDNGEN_ITERATION)) > cost`)
		c.Iterations = 2
		l, _ := verdicts(t, c)
		require.Equal(t, []Verdict{Keep, Keep}, l)
		require.NoFileExists(t, filepath.Join(bin, "git"))
		require.NoFileExists(t, filepath.Join(dir, "reached"))
	})
	t.Run("a hold-out by way of a check", func(t *testing.T) {
		c := loop(t, `for d in /tmp /var/tmp /dev/shm /run; do cat $d/leak 2>/dev/null; done > got; echo $((90 - GDNGEN_ITERATION)) > cost`)
		c.Holdout, c.Iterations = filepath.Join(dir, "holdout"), 2
		require.NoError(t, os.WriteFile(c.Holdout, []byte("t=77"), 0o644))
		c.Checks = []string{`test -s $GDNGEN_HOLDOUT && ! (echo t=1 > $GDNGEN_HOLDOUT) 2>/dev/null; for d in /tmp /var/tmp /dev/shm /run; do cp $GDNGEN_HOLDOUT $d/leak; done; cat $GDNGEN_HOLDOUT`}
		l, _ := verdicts(t, c)
		require.Equal(t, []Verdict{Keep, Keep}, l)
		require.Empty(t, got(t, c))
		for _, name := range []string{"iter-002/prompt.md", LogName} {
			require.NotContains(t, string(must(os.ReadFile(filepath.Join(c.Dir, name)))), "t=77")
		}
	})
	t.Run("a hold-out that is replaced", func(t *testing.T) {
		folder := filepath.Join(dir, "ho")
		require.NoError(t, os.Mkdir(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "h"), []byte("true"), 0o644))
		c := loop(t, fmt.Sprintf(`D=%s; cat $D/h > got 2>/dev/null; (mv $D ${D}_real; mkdir -p $D; echo fake > $D/h) 2>/dev/null; cat ../../holdout/h ${D}_real/h >> got 2>/dev/null; echo $((90 - GDNGEN_ITERATION)) > cost`, folder))
		c.Holdout, c.Iterations, c.Checks = filepath.Join(folder, "h"), 2, []string{`test "$(cat $GDNGEN_HOLDOUT)" = true`}
		l, reasons := verdicts(t, c)
		require.Equal(t, []Verdict{Keep, Keep}, l, reasons)
		require.Empty(t, got(t, c))
		require.NoDirExists(t, folder+"_real")
	})
	t.Run("keys in the home", func(t *testing.T) {
		agent := `cat $HOST/.ssh/id_test $HOST/.config/agent/key $HOME/.config/agent/key > got 2>/dev/null; (echo x > $HOST/.config/agent/new) 2>/dev/null; touch $HOST/mine; echo 70 > cost`
		c := loop(t, agent)
		l, _ := verdicts(t, c)
		require.Equal(t, []Verdict{Keep}, l)
		require.Empty(t, got(t, c))
		c = loop(t, agent)
		c.Show = []string{"~/.config/agent"}
		l, _ = verdicts(t, c)
		require.Equal(t, []Verdict{Keep}, l)
		require.Equal(t, "SHOWNSHOWN", got(t, c))
		require.NoFileExists(t, filepath.Join(home, ".config", "agent", "new"))
		require.NoFileExists(t, filepath.Join(home, "mine"))
		c = loop(t, `rm -rf $HOME/.config; ln -s $HOST/.ssh $HOME/.config; cat $HOME/.config/agent/key > got; echo $((90 - GDNGEN_ITERATION)) > cost`)
		c.Show, c.Iterations = []string{"~/.config/agent"}, 2 // a link where the folder is to be shown
		l, _ = verdicts(t, c)
		require.Equal(t, []Verdict{Keep, Keep}, l)
		require.NoDirExists(t, filepath.Join(home, ".ssh", "agent"))
	})
	t.Run("plugins and modules", func(t *testing.T) { // are shared by all who use the machine
		folders := []string{filepath.Join(dir, "plugins"), filepath.Join(dir, "modules")}
		for _, d := range folders {
			require.NoError(t, os.Mkdir(d, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(d, "x"), []byte("SOUND"), 0o644))
		}
		t.Setenv("GOMODCACHE", folders[1])
		try := `for d in ` + strings.Join(folders, " ") + `; do cat $d/x; (echo bad > $d/x); (echo bad > $d/new); mv $d $d-old; rm -rf $d; done`
		c := loop(t, try+` > got 2>/dev/null; echo 70 > cost`)
		c.Readable, c.Checks = folders[:1], []string{try + `; true`}
		l, reasons := verdicts(t, c)
		require.Equal(t, []Verdict{Keep}, l, reasons)
		want := "SOUND"
		if _, err := program("go"); err == nil {
			want += "SOUND"
		}
		require.Equal(t, want, got(t, c))
		for _, d := range folders {
			require.Equal(t, "SOUND", string(must(os.ReadFile(filepath.Join(d, "x")))))
			require.NoFileExists(t, filepath.Join(d, "new"))
		}
	})
	t.Run("the machine", func(t *testing.T) { // its network, terminal, disks, switches, folders of all
		loopback := `bash -c "exec 3<>/dev/tcp/127.0.0.1/1" 2>&1 | grep -q refused` // a network that is down is unreachable
		c := loop(t, `{ `+loopback+` || echo no loopback; bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" && echo network; true < /dev/tty && echo terminal; ls /dev/?d? /dev/vd* /dev/mem /dev/kmsg
			for f in /etc /usr/local/bin /opt /var /sys/kernel / /proc/sys/kernel; do true > $f/gdngen-x && echo wrote $f; done; for f in core_pattern hostname; do cat /proc/sys/kernel/$f > /proc/sys/kernel/$f && echo set $f; done
			for d in /tmp /var/tmp /dev/shm; do true > $d/gdngen-x; done; for d in /home /root /run/user; do ls $d; done; grep -a PRIVATE /proc/*/environ; test $(ls -d /proc/[0-9]* | wc -l) -lt 12 || echo processes; } > got 2>/dev/null; echo 70 > cost`)
		c.Checks = []string{loopback}
		l, reasons := verdicts(t, c)
		require.Equal(t, []Verdict{Keep}, l, reasons)
		require.Empty(t, got(t, c))
		for _, d := range []string{"/tmp", "/var/tmp", "/dev/shm", "/etc", "/var"} {
			require.NoFileExists(t, filepath.Join(d, "gdngen-x"))
		}
		c = loop(t, `bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" && echo network > got; echo 70 > cost`)
		c.AgentNetwork = true
		c.Checks = []string{`! bash -c "exec 3<>/dev/tcp/127.0.0.1/` + port + `" 2>/dev/null`}
		l, reasons = verdicts(t, c)
		require.Equal(t, []Verdict{Keep}, l, reasons)
		require.Equal(t, "network", strings.TrimSpace(got(t, c)))
		require.Equal(t, "open to the agent", must(Status(c.Dir)).Network)
	})
}

// Without a sandbox the judge can be reached: that it was is a verdict, and it is restored.
func TestJudgeSwapped(t *testing.T) {
	c := bed(t, `printf '#!/bin/sh\necho 1\n' > ../../bin/gdngen; echo 99 > cost`)
	c.Judge = filepath.Join(filepath.Dir(c.Dir), "judge")
	require.NoError(t, os.WriteFile(c.Judge, []byte("#!/bin/sh\necho 50\n"), 0o755))
	c.Measure = "gdngen"
	l, reasons := verdicts(t, c)
	require.Equal(t, []Verdict{OutOfBounds}, l)
	require.Contains(t, reasons, "the judge's program was changed; it is restored")

	// By a check, while the change is judged; and the hold-out, and the base.
	for part, check := range map[string]string{
		"the judge's program was changed": `printf '#!/bin/sh\necho 1\n' > $(command -v gdngen)`,
		"the hold-out was changed":        `chmod +w $GDNGEN_HOLDOUT; echo t=1 > $GDNGEN_HOLDOUT`,
		"files of the base were changed":  `true`,
	} {
		d := bed(t, "echo 99 > cost")
		d.Judge, d.Checks, d.Measure, d.Repeat = c.Judge, []string{check}, "cat cost", 2
		d.Holdout = filepath.Join(filepath.Dir(d.Dir), "shapes")
		require.NoError(t, os.WriteFile(d.Holdout, []byte("t=77"), 0o600))
		if strings.HasPrefix(part, "files of the base") {
			d.Measure = `case $PWD in */figures/*) echo 1000 > ../../base/clone/cost;; esac; cat cost`
		}
		l, reasons := verdicts(t, d)
		require.Equal(t, []Verdict{OutOfBounds}, l, part)
		require.Contains(t, reasons, part)
	}
}

// What git opens, and never gets to the end of, is a verdict on the change.
func TestEndlessForGit(t *testing.T) {
	was := lookLimit
	lookLimit = 4 * time.Second
	defer func() { lookLimit = was }()
	for name, agent := range map[string]string{
		"ignored names": `rm .gitignore; mkfifo .gitignore`, "attributes": `mkfifo .gitattributes`,
		"a repository inside": `git init -q sub; rm sub/.git/HEAD; mkfifo sub/.git/HEAD`,
	} {
		c := bed(t, agent+"; echo 70 > cost")
		l, reasons := verdicts(t, c)
		require.Equal(t, []Verdict{OutOfBounds}, l, name)
		require.Contains(t, reasons, "git refuses what it left: it is not done with it within 4s", name)
	}
	c := bed(t, `echo 'mkfifo .gitattributes' > code.sh; echo 70 > cost`)
	c.Checks, c.Build = nil, "test ! -e code.sh || sh code.sh"
	l, reasons := verdicts(t, c)
	require.Equal(t, []Verdict{BuildFailed}, l)
	require.Contains(t, reasons, "its files can not be put back: it is not done with it within 4s")
}

// A file without permissions stops git, and so the change, not the night. To root it is a file as any.
func TestUnreadable(t *testing.T) {
	c := bed(t, `echo x > tight; chmod 000 tight; echo 70 > cost`)
	l, reasons := verdicts(t, c)
	if os.Getuid() == 0 {
		require.Equal(t, []Verdict{Keep}, l)
		return
	}
	require.Equal(t, []Verdict{OutOfBounds}, l)
	require.Contains(t, reasons, `git refuses what it left: error: open("tight"): Permission denied`)
}

// Where no sandbox can be had, auto says so, and an unattended night does not begin.
func TestNoSandbox(t *testing.T) {
	c := bed(t, "echo 70 > cost")
	c.Sandbox = "auto"
	var said []string
	c.Warn = func(text string) { said = append(said, text) }
	c.Show = []string{"/proc/version"}
	broken := box{Stage: filepath.Join(c.Dir, "nowhere")}
	_, why, err := newBox("auto", broken)
	require.NoError(t, err)
	require.Error(t, why)
	_, _, err = newBox("namespace", broken)
	require.ErrorContains(t, err, "--sandbox namespace can not be had here")
	stageName = "nowhere" // which does not exist
	programs.Store("bwrap", "/bin/false")
	defer func() {
		stageName = "root"
		programs.Delete("bwrap")
	}()
	l, _ := verdicts(t, c)
	require.Equal(t, []Verdict{Keep}, l)
	require.Contains(t, strings.Join(said, ""), "NO SANDBOX can be had here")
	c.Dir += "2"
	c.Branch, c.Unwatched = "other", true
	require.ErrorContains(t, Run(t.Context(), c), "nobody watches: --sandbox none says that")
	c.Sandbox = "none"
	l, _ = verdicts(t, c)
	require.Equal(t, []Verdict{Keep}, l)
}

// A bubblewrap that leaves root what undoes mounts is no sandbox: that is tried.
func TestLooseBubblewrap(t *testing.T) {
	tool, err := program("bwrap")
	if err != nil || os.Getuid() != 0 { // others have no capabilities to keep
		t.Log("no bubblewrap, or no root")
		return
	}
	loose := filepath.Join(t.TempDir(), "bwrap")
	require.NoError(t, os.WriteFile(loose, []byte("#!/bin/sh\ntest $1 = --cap-drop && shift 2\nexec "+tool+" \"$@\"\n"), 0o755))
	programs.Store("bwrap", loose)
	defer programs.Delete("bwrap")
	_, _, err = newBox("bubblewrap", box{Stage: t.TempDir(), Hidden: hidden("")})
	require.ErrorContains(t, err, "can be written")
}

// What a program prints that has no log is dropped, and the device that drops it is left alone.
func TestContained(t *testing.T) {
	var said []string
	require.NoError(t, RunContained(t.Context(), func(line string) { said = append(said, line) }, "echo", "one"))
	require.Equal(t, []string{"one"}, said)
	info, err := os.Lstat(os.DevNull)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeDevice)
}

// All of it as an ordinary user, where the tests are run by root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // the tests above are
	}
	dir, err := os.MkdirTemp("", "gdngen-nobody-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777))
	exe := filepath.Join(dir, "loop.test")
	in := must(os.Open("/proc/self/exe"))
	defer in.Close()
	out := must(os.OpenFile(exe, os.O_CREATE|os.O_WRONLY, 0o755))
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	names := []string{"Unreadable", "JudgeSwapped", "WaysOut"}
	if rotate.All() || rotate.Rand(666).IntN(3) == 0 { // a minute or two
		names = append(names, "Agents")
	}
	names = names[:rotate.Short(len(names))]
	c := exec.Command(exe, "-test.v", "-test.run=^Test("+strings.Join(names, "|")+")$")
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	text, err := c.CombinedOutput()
	require.NoError(t, err, "%s", text)
	for _, name := range names {
		require.Contains(t, string(text), "--- PASS: Test"+name)
	}
	t.Logf("%s", text)
}

// Every flip of a bit of a journal is seen; a last line that was cut is left out; a journal of an earlier release goes on as it was.
func TestJournalFlips(t *testing.T) {
	dir := t.TempDir()
	b := must(openBook(dir))
	for i := range 4 {
		require.NoError(t, b.add(Record{Kind: KindEnd, Iteration: i, Verdict: Keep, Figures: &Figures{Before: 100, After: 90}}))
	}
	whole := must(os.ReadFile(b.path))
	crash.Flips(t, b.path, func() error { _, err := ReadRecords(dir); return err })
	require.NoError(t, os.WriteFile(b.path, whole[:len(whole)-1], 0o644))
	require.Len(t, must(ReadRecords(dir)), 3)
	require.NoError(t, os.WriteFile(b.path, []byte("{\"kind\":\"end\",\"iteration\":1}\n"), 0o644))
	b = must(openBook(dir))
	require.NoError(t, b.add(Record{Kind: KindEnd, Iteration: 2}))
	require.Len(t, must(ReadRecords(dir)), 2)
}
